// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Jobs: all of them, by state, with a search.
import { get } from '../api.js';
import { h } from '../dom.js';
import { number } from '../format.js';
import { allTable, holding, over, queued } from '../jobs.js';
import { pager } from '../pager.js';
import { fill, panel } from '../panel.js';

const groups = { all: ['All', []], active: ['Running', holding], queued: ['Waiting', queued], over: ['Ended', over], failed: ['Failed', ['failed']] };

export function jobsView({ state, refreshSoon }) {
  let group = 'all';
  let search = '';
  const pages = pager(() => refresh());
  const again = () => { pages.reset(); refreshSoon(); };
  const box = h('input', {
    type: 'search', id: 'search', placeholder: 'Search id or name', 'aria-label': 'Search jobs by id or name', autocomplete: 'off', spellcheck: 'false', maxlength: 200,
    oninput: () => { search = box.value.trim(); again(); },
  });
  const buttons = Object.entries(groups).map(([key, [name]]) => h('button', {
    type: 'button', 'aria-pressed': String(key === group),
    onclick: (e) => { group = key; for (const b of buttons) b.setAttribute('aria-pressed', String(b === e.currentTarget)); again(); },
  }, name));
  const list = panel('Jobs', { part: [box, h('div', { class: 'choice', role: 'group', 'aria-label': 'State' }, buttons)] });
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Jobs'), list.element);
  let asking = null;

  async function refresh() {
    asking?.abort();
    const mine = asking = new AbortController();
    await fill(list, get(['jobs'], { state: groups[group][1], search, ...pages.query() }, mine.signal), (page) => {
      const jobs = page.jobs || [];
      list.title('Jobs', h('span', { class: 'count' }, number(page.total)));
      if (jobs.length) list.show(h('div', { class: 'scroll' }, allTable(jobs, state.now())), pages.bar(page));
      else if (search || group !== 'all') list.empty('No matching jobs.', 'Try another text or state.');
      else list.empty('No jobs yet.', 'Submit one: ', h('code', {}, 'fairway submit --gpus 1 -- python train.py'));
    });
  }
  return { title: 'Jobs', element, refresh, close: () => asking?.abort() };
}
