// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Explain: why a job waits or runs where it runs, and what the scheduler gave
// to it and took from it, with the price.
import { h } from './dom.js';
import { duration, moment, ms, number, plural, seconds, span } from './format.js';
import { jobLink } from './jobs.js';
import { panel } from './panel.js';

const verbs = { start: 'started', preempt: 'preempted', move: 'moved', pause: 'paused', fail: 'failed', end: 'ended' };

export function explainPanel() {
  const p = panel('Why');
  p.draw = (x) => p.show(
    h('p', { class: 'summary' }, x.summary || 'No explanation available.'),
    h('dl', { class: 'facts small' }, [
      ['Policy', x.policy],
      ['Free', number(x.free_gpus) + ' of ' + plural(x.all_gpus, 'GPU')],
      ['Jobs ahead', x.job?.state === 'waiting' ? plural(x.ahead, 'job') : null],
      ['Expected run time', x.run_time ? runTime(x.run_time) : null],
      ['Warning', x.job?.warning],
      ['No more GPUs', x.larger],
      ['Preempted', plural(x.price.preemptions, 'time')],
      ['Moved', plural(x.price.moves, 'time')],
      ['Work lost', duration(x.price.lost_s) + ' of GPU time'],
      ['Time away from training', duration(x.price.away_s)],
    ].filter(([, v]) => v).map(([k, v]) => h('div', { key: k }, h('dt', {}, k), h('dd', {}, v)))),
    rivals(x.before || []), holders(x.holders || []), ledger(x.ledger || []));
  return p;
}

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
  return h('details', {}, h('summary', {}, 'Current allocations (' + number(list.length) + ')'),
    h('ul', { class: 'holders' }, list.slice(0, 20).map((s) => h('li', { key: s.job }, jobLink(s.job),
      h('span', { class: 'track' }, h('i', { vars: { width: s.gpus / most * 100 + '%' } })),
      h('span', { class: 'num' }, plural(s.gpus, 'GPU') + (s.left_s ? ', ' + span(s.left_s) + ' left' : ''))))));
}

function ledger(list) {
  if (!list.length) return h('p', { class: 'note' }, 'No allocations yet.');
  return h('div', { class: 'scroll ledger', tabindex: 0, role: 'region', 'aria-label': 'Allocation history' }, h('table', { class: 'list tight fold' },
    h('thead', {}, h('tr', {}, ['When', 'What', 'GPUs', 'Why', 'Cost'].map((t, i) => h('th', { scope: 'col', class: i === 2 ? 'num' : '' }, t)))),
    h('tbody', {}, list.map((e, i) => h('tr', { key: e.at + e.verb + i },
      h('td', { class: 'nowrap' }, moment(ms(e.at))), h('td', { class: 'nowrap' }, h('i', { class: 'mark-dot ' + e.verb }), verbs[e.verb] || e.verb),
      h('td', { class: 'num nowrap' }, e.from_gpus + ' → ' + e.to_gpus), h('td', { class: 'line-of-its-own' }, e.why || ''), h('td', { class: 'line-of-its-own soft' }, price(e)))).reverse())));
}

function price(e) {
  const parts = [];
  if (e.lost_s > 0) parts.push(duration(e.lost_s) + ' of GPU time lost');
  if (e.away_s > 0) parts.push(duration(e.away_s) + ' away' + (e.ongoing ? ' so far' : ''));
  return parts.join(', ') || (e.verb === 'start' || e.verb === 'end' ? '' : 'none');
}
