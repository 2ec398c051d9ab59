// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Choice: buttons that choose one of a few, or turn something on and off.
import { h } from './dom.js';

// toggle is a button that is on or off.
export function toggle(text, label, on, set) {
  const button = h('button', { type: 'button', class: 'quiet', 'aria-pressed': String(on), 'aria-label': label, onclick: () => {
    on = !on;
    button.setAttribute('aria-pressed', String(on));
    set(on);
  } }, text);
  return button;
}

// choice is a row of buttons, one of which is on.
export function choice(label, list, now, set) {
  const buttons = list.map(([text, value]) => h('button', { type: 'button', 'aria-pressed': String(value === now), onclick: (e) => {
    for (const b of buttons) b.setAttribute('aria-pressed', String(b === e.currentTarget));
    set(value);
  } }, text));
  return h('div', { class: 'choice', role: 'group', 'aria-label': label }, buttons);
}
