// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Histogram: how many values lie where, on a logarithmic axis.
import { h } from './dom.js';
import { number, plural } from './format.js';

const perDoubling = 2; // bars

// bins counts positive values: [{from, to, n}], each bar as wide as the others by its
// logarithm. 1 is an edge, and the bars reach from 1/2 to 4 at least.
export function bins(values) {
  const slot = (v) => Math.floor(Math.log2(v) * perDoubling + 1e-9);
  const real = values.filter((v) => v > 0);
  const first = Math.min(-perDoubling, ...real.map(slot));
  const last = Math.max(2 * perDoubling - 1, ...real.map(slot));
  const out = Array.from({ length: last - first + 1 }, (_, i) => ({ from: 2 ** ((first + i) / perDoubling), to: 2 ** ((first + i + 1) / perDoubling), n: 0 }));
  for (const v of real) out[slot(v) - first].n++;
  return out;
}

// histogram draws bins; tone(bin) is a colour, what names a value.
export function histogram(list, { tone, what, label }) {
  const most = Math.max(1, ...list.map((b) => b.n));
  const words = (b) => plural(b.n, what) + ' from ' + number(b.from, 2) + ' to ' + number(b.to, 2);
  return h('div', { class: 'histogram', role: 'img', 'aria-label': label + ': ' + list.filter((b) => b.n).map(words).join('; ') },
    h('ol', { 'aria-hidden': 'true', vars: { '--bars': list.length } }, list.map((b) => h('li', { title: words(b), key: b.from },
      h('b', {}, b.n || ''), h('i', { vars: { height: 120 * b.n / most + 'px', '--c': tone(b) } }), h('span', {}, Number.isInteger(Math.log2(b.from)) ? number(b.from, 2) : '')))));
}
