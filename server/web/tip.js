// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Tip: the one card of the page that follows the pointer or the focus. What it
// says is also in labels and tables, so a screen reader passes over it.
import { h, show } from './dom.js';

const tip = () => document.getElementById('tip');

// showTip places content near a point of the window, inside it; beside is where
// to end if there is no room to the right, before the point right.
export function showTip({ x, y, beside = x, right = Infinity }, ...content) {
  const node = tip();
  show(node, ...content);
  node.hidden = false;
  const box = node.getBoundingClientRect();
  const { clientWidth: wide, clientHeight: high } = document.documentElement;
  let left = x + 14;
  if (left + box.width > Math.min(wide - 8, right)) left = beside - box.width - 14;
  if (left < 8) left = Math.max(8, (wide - box.width) / 2);
  let top = y - box.height / 2;
  if (wide < 640) top = y + 24 + box.height > high ? y - box.height - 18 : y + 24; // not under a finger
  node.style.left = left + 'px';
  node.style.top = Math.min(Math.max(8, top), Math.max(8, high - box.height - 8)) + 'px';
}

export function hideTip() {
  tip().hidden = true;
}

// tipRows is the body of a tip: lines of [mark or null, name, value].
export const tipRows = (lines) => h('table', {}, h('tbody', {}, lines.map(([mark, name, value]) =>
  h('tr', {}, h('td', {}, mark), h('td', {}, name), h('td', {}, value)))));

export const swatch = (color, kind = '') => h('i', { class: 'swatch ' + kind, vars: { '--c': color } });
