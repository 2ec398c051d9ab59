// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Explain: why a job waits or runs where it runs, and what the scheduler gave
// to it and took from it, with the price.
import { h, knobs } from './dom.js';
import { duration, moment, ms, number, plural, seconds, span } from './format.js';
import { jobLink } from './jobs.js';
import { panel } from './panel.js';
import { spoken } from './strip.js';

// whyFacts are figures behind the sentence that explains a job.
export const whyFacts = (x) => [
  ['Policy', x.policy && knobs(x.policy)],
  ['Free', x.job?.ended ? null : number(x.free_gpus) + ' of ' + plural(x.all_gpus, 'GPU')],
  ['Jobs ahead', x.job?.state === 'waiting' ? plural(x.ahead, 'job') : null],
];

// whyLong are those that take a line each.
export const whyLong = (x) => [
  ['Warning', x.job?.warning],
  ['Runs for', x.run_time ? runTime(x.run_time) : null],
  ['Plan', x.plans],
  ['No more GPUs', x.larger],
];

// whyLists are the jobs behind it.
export const whyLists = (x) => [rivals(x.before || []), holders(x.holders || [])];

// runTime says how long a job is expected to run, and what that is based on.
function runTime({ expected, basis, jobs = 0 }) {
  const like = plural(jobs, 'job');
  const from = {
    reports: 'by what its agent reports',
    estimate: "from its user's estimate and " + (jobs ? like + ' like it' : 'what such estimates are worth'),
    similar: 'estimated from ' + like + ' like it',
    all: 'estimated from all ' + like + ' that have ended: none of them is like it',
  };
  return 'about ' + span(seconds(expected)) + ', ' + from[basis];
}

function rivals(list) {
  if (!list.length) return null;
  return h('details', { open: true }, h('summary', {}, 'Ahead of it'),
    h('ul', {}, list.map((r, i) => h('li', { key: r.job + i }, jobLink(r.job), ' ' + (r.gpus ? '(' + plural(r.gpus, 'GPU') + ') ' : '') + r.why))));
}

function holders(list) {
  if (!list.length) return null;
  const most = Math.max(...list.map((s) => s.gpus));
  return h('details', {}, h('summary', {}, 'Who holds GPUs (' + number(list.length) + ')'),
    h('ul', { class: 'holders' }, list.slice(0, 20).map((s) => h('li', { key: s.job }, jobLink(s.job),
      h('span', { class: 'track' }, h('i', { vars: { width: s.gpus / most * 100 + '%' } })),
      h('span', { class: 'num' }, plural(s.gpus, 'GPU') + (s.left_s ? ', ' + span(s.left_s) + ' left' : ''))))));
}

// timeline lists what the scheduler gave to a job and took from it, the last first.
export function timeline() {
  const p = panel('Given and taken');
  p.draw = (x) => {
    const list = x?.ledger || [];
    if (!list.length) { p.empty(x?.job?.ended ? 'It never had a GPU.' : 'No allocations yet.'); return; }
    const { preemptions, moves, away_s: away, lost_s: lost } = x.price;
    p.show(h('p', { class: 'price' }, preemptions + moves ? ['Preempted ' + plural(preemptions, 'time') + ', moved ' + plural(moves, 'time') + '. The price: ', h('b', {}, duration(away)), ' away from training, ', h('b', {}, duration(lost)), ' of GPU time lost.'] : 'Never preempted or moved.'),
      h('div', { class: 'scroll ledger', tabindex: 0, role: 'region', 'aria-label': 'What was given and taken' }, h('table', { class: 'list tight fold' },
        h('thead', {}, h('tr', {}, [['When', ''], ['What', ''], ['GPUs', 'num'], ['Away', 'num'], ['Lost', 'num'], ['Why', '']].map(([t, c]) => h('th', { scope: 'col', class: c }, t)))),
        h('tbody', {}, list.map((e, i) => h('tr', { key: e.at + e.verb + i },
          h('td', { class: 'nowrap' }, moment(ms(e.at))), h('td', { class: 'nowrap' }, h('i', { class: 'mark-dot ' + e.verb }), spoken[e.verb] || e.verb, e.in_place ? ' in place' : ''),
          h('td', { class: 'num nowrap', 'data-label': 'GPUs' }, e.from_gpus + ' → ' + e.to_gpus),
          h('td', { class: 'num nowrap', 'data-label': 'away' }, e.away_s > 0 ? duration(e.away_s) + (e.ongoing ? ' so far' : '') : free(e)),
          h('td', { class: 'num nowrap', 'data-label': 'lost' }, e.lost_s > 0 ? duration(e.lost_s) : free(e)),
          h('td', { class: 'line-of-its-own' }, e.why || ''))).reverse()))));
  };
  return p;
}

// free is what a change cost that cost nothing; a start or an end has no price.
const free = (e) => (e.verb === 'start' || e.verb === 'end' ? '' : '0 s');
