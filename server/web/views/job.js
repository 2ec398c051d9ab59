// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Job: one job: its state, what it holds, how it trains, what was given to it
// and taken from it, its log.
import { get, post } from '../api.js';
import { jobColour } from '../colour.js';
import { confirm } from '../dialog.js';
import { h, keep, show } from '../dom.js';
import { ago, moment, ms, number, percent, plural, seconds, sizes, span, title } from '../format.js';
import { heldGPUs } from '../grid.js';
import { exitText, expected, holding, over, progress, stateBadge } from '../jobs.js';
import { logViewer } from '../log.js';
import { fill, panel } from '../panel.js';
import { swatch } from '../tip.js';
import { jobCharts } from '../training.js';
import { explainPanel } from '../explain.js';

export function jobView({ state, refreshSoon }, id) {
  const head = keep(h('div', { class: 'job-head' }));
  const about = panel('Now');
  const why = explainPanel();
  const charts = jobCharts();
  const log = logViewer(id);
  const spec = panel('Specification');
  const element = h('div', { class: 'page' }, head, h('div', { class: 'split even' }, about.element, why.element), charts.element, log.element, spec.element);
  let name = id;

  async function refresh() {
    const asked = { explain: get(['jobs', id, 'explain']), points: get(['jobs', id, 'points']) };
    for (const p of Object.values(asked)) p.catch(() => {});
    let job = null;
    await fill(about, get(['jobs', id]), (j) => { job = j; draw(j); });
    if (!job) { show(head, h('h1', {}, id)); }
    await Promise.all([
      fill(why, asked.explain, (x) => why.draw(x)),
      fill(charts, Promise.all([asked.points, asked.explain.catch(() => null)]), ([p, x]) => charts.draw({ job, points: p.points || [], ledger: x?.ledger || [], now: state.now() })),
    ]);
  }
  function draw(job) {
    name = title(job);
    view.title = name;
    show(head, h('div', {}, h('p', { class: 'crumb' }, h('a', { href: '#/jobs' }, 'Jobs'), ' / ' + job.id), h('h1', {}, swatch(jobColour(job), 'block'), name, ' ', stateBadge(job))), buttons(job));
    about.show(trouble(job), failure(job), h('dl', { class: 'facts' }, facts(job, state.now()).filter(([, v]) => v !== null && v !== '').map(([k, v]) => h('div', { key: k }, h('dt', {}, k), h('dd', {}, v)))));
    log.follow(job);
    spec.show(h('details', {}, h('summary', {}, 'Command, environment and request'), specification(job)));
  }
  // failure says why the last attempt failed and what was decided.
  function failure(job) {
    const found = job.exit?.finding;
    if (!found || (job.state !== 'failed' && job.state !== 'waiting')) return null;
    const e = found.evidence;
    const rows = [
      ['Reason', found.reason === 'unknown' ? 'unknown: ' + found.text : found.text + ' (' + found.reason + ')'], ['Category', found.category],
      ['Evidence', e ? (e.log ? e.log + ':' + e.line + ': ' : e.source + ': ') + e.text : null], ['Decided', job.exit.next], ['Advice', found.retry?.say],
    ];
    return h('dl', { class: 'facts small found' }, rows.filter(([, v]) => v).map(([k, v]) => h('div', { key: k }, h('dt', {}, k), h('dd', {}, v))));
  }
  function trouble(job) {
    if (job.reason) {
      return h('p', { class: 'callout' }, h('b', {}, job.state === 'paused' ? 'Paused: ' : 'Waits: '), job.reason.text || job.reason.code, job.state === 'paused' ? null : [
        h('span', { class: 'block' }, 'Expected start: ', expected(job, state.now())),
        job.reason.rough ? h('span', { class: 'block' }, 'Only a rough estimate: ' + job.reason.rough) : null]);
    }
    if (job.state === 'failed' || (job.exit && job.exit.code && !job.exit.yielded)) {
      return h('p', { class: 'callout bad' }, h('b', {}, job.state === 'failed' ? 'Failed: ' : 'Last attempt: '), exitText(job.exit) || 'unknown reason');
    }
    return null;
  }
  function buttons(job) {
    if (over.includes(job.state) || !state.mayControl()) return h('div', { class: 'buttons' });
    const paused = job.state === 'paused';
    return h('div', { class: 'buttons' },
      paused ? command('resume', { yes: 'Resume', text: 'The job queues for GPUs again and continues from its last checkpoint.' })
        : command('pause', { yes: 'Pause', text: 'The job is asked to save a checkpoint, frees its GPUs and waits until it is resumed.' }),
      command('cancel', { yes: 'Cancel the job', danger: true, text: 'The job is asked to stop and cannot be resumed. Its checkpoints and logs are kept.' }));
  }
  function command(verb, { yes, text, danger = false }) {
    return h('button', {
      type: 'button', key: verb, class: danger ? 'danger' : 'quiet', id: 'do-' + verb,
      onclick: () => confirm({
        title: verb[0].toUpperCase() + verb.slice(1) + ' ' + name + '?', text, yes, no: 'Back', danger,
        act: async () => { draw(await post(['jobs', id, verb])); refreshSoon(); },
      }),
    }, verb[0].toUpperCase() + verb.slice(1));
  }
  const view = { title: name, element, refresh, close() { log.close(); charts.close(); } };
  return view;
}

function facts(job, now) {
  const st = job.status;
  const held = (job.held || []).map((x) => x.node + ': ' + x.gpus.join(', ') + (x.milli < 1000 ? ' (' + x.milli / 1000 + ' of each)' : ''));
  return [
    ['Progress', over.includes(job.state) && job.state !== 'finished' ? null : progress(job, now)],
    ['Allocated', heldGPUs(job) ? plural(heldGPUs(job), 'GPU') : holding.includes(job.state) ? '–' : 'nothing'],
    ['Where', held.join('; ')],
    ['Requested', sizes(job) + (sizes(job) === '1' ? ' GPU' : ' GPUs')],
    ['Owner', [job.user, job.tenant].filter(Boolean).join(' · ')],
    ['App', job.app && job.app !== job.id ? job.app : null],
    ['Submitted', moment(ms(job.submitted)) + ' (' + ago(ms(job.submitted), now) + ')'],
    ['Ended', job.ended ? moment(ms(job.ended)) + ' (' + ago(ms(job.ended), now) + ')' : null],
    ['Ran', span(seconds(st.ran) + (st.phase === 'running' ? (now - ms(st.since)) / 1000 : 0))],
    ['Waited', span(seconds(st.waited) + (st.phase === 'pending' ? (now - ms(st.since)) / 1000 : 0))],
    ['Starts', number(st.starts || 0) + (st.preemptions ? ', ' + number(st.preemptions) + ' preempted' : '') + (st.moves ? ', ' + number(st.moves) + ' moved' : '') + (st.failures ? ', ' + number(st.failures) + ' failed' : '')],
    ['Screening', st.screening ? 'on ' + plural(heldGPUs(job), 'GPU') + ', for ' + job.screen : job.screen && !st.proven && !over.includes(job.state) ? 'of ' + job.screen + ' to come' : null],
    ['Slowdown', st.slowdown ? number(st.slowdown) + ' times the step time when alone' : null],
    ['Fair share', job.fair_share ? number(job.fair_share) + ' GPUs' : null],
    ['Fairness (rho)', job.rho ? number(job.rho) + (job.rho > 1.1 ? ', late' : job.rho < 0.95 ? ', ahead' : ', fair') : null],
    ['Last checkpoint', st.checkpoint ? ago(ms(st.checkpoint), now) : null],
    ['Batch size', job.last?.batch ? number(job.last.batch) : null],
    ['Efficiency', job.last?.efficiency ? percent(job.last.efficiency) : null],
    ['Loss', Number.isFinite(job.last?.loss) ? number(job.last.loss) : null],
    ['Agent', job.agent ? 'reports' : 'has not reported'],
  ];
}

// specification shows what was submitted; values are text, whatever they hold.
function specification(job) {
  const { status, state, held, reason, exit, last, rho, fair_share, left_s, agent, ended, paused_by, ...asked } = job;
  return [
    h('p', { class: 'note' }, 'Command'), h('pre', { class: 'code', tabindex: 0 }, (job.command || []).map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : JSON.stringify(a))).join(' ')),
    h('p', { class: 'note' }, 'Request'), h('pre', { class: 'code', tabindex: 0 }, JSON.stringify(asked, null, 2)),
  ];
}
