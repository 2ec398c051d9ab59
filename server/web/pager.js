// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Pager: long lists are asked for in pages, and grow on demand up to what one
// question may ask for; behind that, the next part replaces them.
import { h } from './dom.js';
import { number } from './format.js';

const most = 1000;

export function pager(changed, step = 100) {
  let limit = step;
  let after = [];
  const set = (n, a) => { limit = n; after = a; changed(); };
  return {
    query: () => ({ limit, after: after[after.length - 1] }),
    reset() { limit = step; after = []; },
    // bar offers what else there is; page is the answer that is shown.
    bar(page) {
      const shown = (page.jobs || []).length;
      if (!page.next && !after.length) return null;
      return h('div', { class: 'pager' },
        h('span', { class: 'soft' }, number(shown) + ' of ' + number(page.total) + ' shown'),
        after.length ? h('button', { type: 'button', class: 'quiet', onclick: () => set(step, []) }, 'From the start') : null,
        page.next && limit < most ? h('button', { type: 'button', class: 'quiet more', onclick: () => set(Math.min(most, limit + step), after) }, 'Show more') : null,
        page.next && limit >= most ? h('button', { type: 'button', class: 'quiet more', onclick: () => set(step, [...after, page.next]) }, 'Next page') : null);
    },
  };
}
