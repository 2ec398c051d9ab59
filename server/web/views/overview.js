// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Overview: who has the GPUs, who waits and why, what happened last.
import { get } from '../api.js';
import { gpuPanel } from '../cluster.js';
import { h, keep, knobs, show } from '../dom.js';
import { eventList, namesIn } from '../events.js';
import { isChatty } from '../feed.js';
import { duration, ms, number, percent, plural } from '../format.js';
import { holding, queued, queueTable, runningTable } from '../jobs.js';
import { fill, panel } from '../panel.js';
import { pager } from '../pager.js';

const recent = 200; // records looked at
const eventsShown = 14;
const rowsShown = 25;

export function overview({ state }) {
  const counters = keep(h('dl', { class: 'counters' }));
  const gpus = gpuPanel('Cluster');
  const running = panel('Running');
  const queue = panel('Queue');
  const events = panel('Recent events', { part: h('a', { href: '#/events' }, 'All events') });
  const pages = pager(() => refresh(), rowsShown);
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Overview'), counters, gpus.element,
    h('div', { class: 'split' }, h('div', { class: 'stack-col' }, running.element, queue.element), events.element));
  let last = null;
  let jobs = [];

  async function refresh() {
    // Everything is asked for at once, and drawn as it comes.
    const asked = {
      overview: get(['overview']), nodes: get(['nodes']),
      running: get(['jobs'], { state: holding, limit: 1000 }), queue: get(['jobs'], { state: queued, ...pages.query() }),
    };
    const seq = asked.overview.then((o) => o.seq);
    for (const p of [...Object.values(asked), seq]) p.catch(() => {}); // told to the panels below
    await Promise.all([
      fill(gpus, asked.overview, (o) => { last = o; state.overview(o); drawCounters(o); }),
      fill(running, asked.running, (page) => { jobs = page.jobs || []; drawRunning(page); }),
      fill(queue, asked.queue, drawQueue),
      fill(gpus, Promise.all([asked.nodes, asked.running.catch(() => null)]), ([n]) => gpus.draw(n.nodes || [], jobs, state.now())),
      fill(events, seq.then((n) => get(['events'], { after: Math.max(0, n - recent) || undefined, limit: recent })), drawEvents),
    ]);
  }
  function drawCounters(o) {
    const use = o.gpus ? o.held / o.gpus : 0;
    show(counters, [
      ['GPUs held', number(o.held) + ' of ' + number(o.gpus), o.gpus ? percent(use) : 'no GPUs', ''],
      ['Running', number(o.running), '', ''],
      ['Waiting', number(o.waiting), o.paused ? number(o.paused) + ' paused' : '', ''],
      ['Finished', number(o.finished), o.killed ? number(o.killed) + ' cancelled' : '', ''],
      ['Failed, 24 h', h('a', { href: '#/jobs?state=failed' }, number(o.failed_24h)), o.failed ? number(o.failed) + ' ever' : '', o.failed_24h ? 'bad' : ''],
      ['Policy', h('a', { href: '#/policy' }, knobs(o.policy || '–')), o.decisions ? plural(o.decisions, 'decision') + (o.last_decision_ms ? ', the last in ' + duration(o.last_decision_ms / 1000) : '') : 'no decision yet', 'wide'],
    ].map(([name, value, more, tone]) => h('div', { class: 'counter ' + tone, key: name }, h('dt', {}, name), h('dd', {}, h('b', {}, value), more ? h('span', {}, more) : null))));
  }
  function drawRunning(page) {
    running.title('Running', h('span', { class: 'count' }, number(page.total)));
    const more = page.total - Math.min(jobs.length, rowsShown);
    if (jobs.length) running.show(h('div', { class: 'scroll' }, runningTable(jobs.slice(0, rowsShown), state.now())), more > 0 ? h('p', { class: 'note' }, h('a', { href: '#/jobs?state=active' }, 'and ' + number(more) + ' more')) : null);
    else running.empty('No running jobs.', last?.waiting ? 'The queue below shows why jobs wait.' : 'Jobs appear here when they get GPUs.');
  }
  function drawQueue(page) {
    queue.title('Queue', h('span', { class: 'count' }, number(page.total)));
    const list = page.jobs || [];
    if (!list.length) {
      queue.empty('No waiting jobs.', h('a', { href: '#/submit' }, 'Submit one here'), ', or with ', h('code', {}, 'fairway submit --gpus 1 -- python train.py'));
      return;
    }
    const all = list.length === page.total;
    const soonest = (j) => ms(j.reason?.until) || Infinity;
    if (all) list.sort((a, b) => (a.state === 'paused') - (b.state === 'paused') || soonest(a) - soonest(b) || a.status.seq - b.status.seq);
    queue.show(all ? null : h('p', { class: 'hint' }, 'Newest first. ', h('a', { href: '#/jobs' }, 'Search all jobs')),
      h('div', { class: 'scroll' }, queueTable(list, state.now())), pages.bar(page));
  }
  function drawEvents(page) {
    const list = (page.records || []).filter((r) => !isChatty(r)).slice(-eventsShown).reverse();
    const names = namesIn(page.records || []);
    for (const j of jobs) if (j.name) names.set(j.id, j.name);
    if (list.length) events.show(eventList(list, names));
    else events.empty('No recent events.');
  }
  return { title: 'Overview', element, refresh, close: () => gpus.close() };
}
