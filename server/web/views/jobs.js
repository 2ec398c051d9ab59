// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Jobs: all of them, or the apps and searches they belong to. What is looked for,
// and the order, are in the address.
import { get } from '../api.js';
import { choice } from '../choice.js';
import { h, keep, show } from '../dom.js';
import { ago, ms, number } from '../format.js';
import { allTable, badge, holding, jobLink, over, queued } from '../jobs.js';
import { pager } from '../pager.js';
import { fill, panel } from '../panel.js';
import { heads, sorted } from '../sortable.js';
import { choose, here, href } from '../url.js';

const groups = { all: ['All', []], active: ['Running', holding], queued: ['Waiting', queued], over: ['Ended', over], failed: ['Failed', ['failed']] };
const filters = ['user', 'tenant', 'app'];
const mostApps = 500;

export function jobsView({ state, refreshSoon }) {
  const { chosen } = here();
  const now = Object.fromEntries(['state', 'search', 'sort', 'by', ...filters].map((name) => [name, chosen.get(name) || '']));
  if (!groups[now.state]) now.state = '';
  const pages = pager(() => refresh());
  // set changes what is looked for.
  const set = (changes) => { Object.assign(now, changes); choose(changes); pages.reset(); drawChips(); refreshSoon(); };
  const box = h('input', {
    type: 'search', id: 'search', placeholder: 'Search id or name', 'aria-label': 'Search jobs by id or name', autocomplete: 'off', spellcheck: 'false', maxlength: 200, value: now.search,
    oninput: () => set({ search: box.value.trim() }),
  });
  const chips = keep(h('span', { class: 'chips' }));
  const list = panel('Jobs', { part: [
    choice('Show', [['Jobs', ''], ['Apps', 'app']], now.by, (by) => set({ by, sort: '' })), box,
    choice('State', Object.entries(groups).map(([key, [name]]) => [name, key === 'all' ? '' : key]), now.state, (v) => set({ state: v })), chips] });
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Jobs'), list.element);
  let asking = null;

  function drawChips() {
    show(chips, filters.filter((f) => now[f]).map((f) => h('span', { class: 'chip', key: f }, f + ' ' + now[f],
      h('button', { type: 'button', 'aria-label': 'Any ' + f, onclick: () => set({ [f]: '' }) }, '×'))));
  }
  async function refresh() {
    asking?.abort();
    const mine = asking = new AbortController();
    if (now.by === 'app') {
      const searches = get(['searches'], {}, mine.signal).catch(() => ({ searches: [] }));
      await fill(list, Promise.all([get(['apps'], {}, mine.signal), searches]), ([a, s]) => drawApps(a.apps || [], s.searches || []));
      return;
    }
    const { search, sort, user, tenant, app } = now;
    await fill(list, get(['jobs'], { state: groups[now.state || 'all'][1], search, sort, user, tenant, app, fold: app ? '' : '1', ...pages.query() }, mine.signal), drawJobs);
  }
  function drawJobs(page) {
    const jobs = page.jobs || [];
    list.title('Jobs', h('span', { class: 'count' }, number(page.total)));
    if (jobs.length) list.show(h('div', { class: 'scroll' }, allTable(jobs, state.now(), { sort: now.sort || '-submitted', set: (sort) => set({ sort }), filter: set })), pages.bar(page));
    else if (['state', 'search', ...filters].some((f) => now[f])) list.empty('No matching jobs.', 'Try another text or state.');
    else list.empty('No jobs yet.', h('a', { href: '#/submit' }, 'Submit one here'), ', or with ', h('code', {}, 'fairway submit --gpus 1 -- python train.py'));
  }
  // drawApps lists what jobs belong to; a job without an app is not one.
  function drawApps(apps, searches) {
    const byID = new Map(searches.map((s) => [s.id, s]));
    const fits = (a) => (a.jobs > 1 || byID.has(a.id)) && a.id.includes(now.search) && (!now.tenant || a.tenant === now.tenant) &&
      ({ active: a.running, queued: a.waiting, over: a.running + a.waiting === 0, failed: a.failed }[now.state] ?? true);
    const known = [...apps, ...searches.filter((s) => !apps.some((a) => a.id === s.id)).map(empty)].map((a) => ({ ...a, search: byID.get(a.id) }));
    const sort = now.sort || '-submitted';
    const rows = sorted(known.filter(fits), sort, (a, key) => (key === 'submitted' ? ms(a.submitted) : key === 'best' ? best(a.search)?.value : a[key]));
    list.title('Apps and searches', h('span', { class: 'count' }, number(rows.length)));
    if (!rows.length) { list.empty('No apps.', 'An app is jobs with one goal, such as a hyper-parameter search: ', h('code', {}, 'fairway app submit')); return; }
    list.show(h('div', { class: 'scroll' }, h('table', { class: 'list figures fold' },
      heads([['id', 'App'], ['tenant', 'Tenant', 'minor'], ['jobs', 'Jobs', 'num'], ['running', 'Running', 'num'], ['waiting', 'Waiting', 'num minor'], ['finished', 'Finished', 'num minor'], ['failed', 'Failed', 'num'],
        ['gpus', 'GPUs', 'num minor'], ['rho', 'Rho', 'num minor'], ['best', 'Best', 'num'], ['submitted', 'Submitted', 'num minor']], sort, (v) => set({ sort: v })),
      h('tbody', {}, rows.slice(0, mostApps).map((a) => h('tr', { key: a.id },
        h('th', { scope: 'row' }, h('a', { href: href(['apps', a.id]) }, a.id), a.search ? [' ', badge(a.search.state)] : null),
        h('td', { class: 'minor' }, a.tenant || '–'), [['jobs', ''], ['running', ''], ['waiting', 'minor'], ['finished', 'minor'], ['failed', ''], ['gpus', 'minor']].map(([k, c]) => h('td', { class: 'num ' + c, 'data-label': k }, number(a[k]))),
        h('td', { class: 'num minor' }, a.rho ? number(a.rho) : '–'), h('td', { class: 'num nowrap', 'data-label': 'best' }, result(a.search)),
        h('td', { class: 'num nowrap minor' }, ago(ms(a.submitted), state.now()))))))),
    rows.length > mostApps ? h('p', { class: 'note' }, 'The first ' + mostApps + ' of ' + number(rows.length) + '.') : null);
  }
  drawChips();
  return { title: 'Jobs', element, refresh, close: () => asking?.abort() };
}

// empty is a search that has no jobs yet, as an app.
const empty = (s) => ({ id: s.id, tenant: s.tenant, submitted: s.submitted, jobs: 0, running: 0, waiting: 0, finished: 0, failed: 0, gpus: 0 });

const best = (search) => (search?.best === undefined ? undefined : search.trials[search.best]);

function result(search) {
  const trial = best(search);
  return trial ? [number(trial.value, 4), ' ', trial.job ? jobLink(trial.job, 'trial ' + trial.number) : null] : '–';
}
