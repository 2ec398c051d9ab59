// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Sortable: heads of columns that sort a table, and sorting one that is all here.
// A sort is the key of a column, with - before it in descending order.
import { h } from './dom.js';

// heads is the first row. Columns are [key, text, class]; one without a key does not
// sort. set is called with the next sort: first the direction in which people look
// (first: those of numbers descend), then the other.
export function heads(columns, sort, set) {
  const down = sort.startsWith('-');
  const by = sort.replace(/^-/, '');
  return h('thead', {}, h('tr', {}, columns.map(([key, text, kind = '']) => {
    if (!key) return h('th', { scope: 'col', class: kind }, text);
    const here = key === by;
    const first = kind.includes('num') ? '-' + key : key;
    const next = !here ? first : down ? key : '-' + key;
    return h('th', { scope: 'col', class: kind, 'aria-sort': here ? (down ? 'descending' : 'ascending') : 'none' },
      h('button', { type: 'button', class: 'sort', 'data-sort': key, onclick: () => set(next) }, text, h('i', { 'aria-hidden': 'true' }, here ? (down ? '↓' : '↑') : '')));
  })));
}

// natural compares texts as people do: node-9 before node-10.
export const natural = new Intl.Collator('en', { numeric: true }).compare;

// sorted returns rows in order; value(row, key) is a number or a text, and rows
// without one come last.
export function sorted(rows, sort, value) {
  const sign = sort.startsWith('-') ? -1 : 1;
  const key = sort.replace(/^-/, '');
  const lacks = (v) => v === null || v === undefined || v === '' || Number.isNaN(v);
  return rows.map((row) => [value(row, key), row]).sort(([a], [b]) => {
    if (lacks(a) || lacks(b)) return lacks(a) - lacks(b);
    return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : natural(String(a), String(b)));
  }).map(([, row]) => row);
}
