// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Job: one job: how it stands and why, how it learns, its log, what was given to
// it and taken from it.
import { get, post } from '../api.js';
import { sharedCursor } from '../chart.js';
import { jobColour } from '../colour.js';
import { confirm } from '../dialog.js';
import { h, keep, show } from '../dom.js';
import { timeline, whyFacts, whyLists, whyLong } from '../explain.js';
import { ago, bytes, moment, ms, number, percent, plural, seconds, sizes, span, title } from '../format.js';
import { heldGPUs } from '../grid.js';
import { exitText, expected, gpuHours, holding, over, progress, stateBadge } from '../jobs.js';
import { logViewer } from '../log.js';
import { metricsChart } from '../metrics.js';
import { fill, panel } from '../panel.js';
import { jobStrip, span as spanOf } from '../strip.js';
import { swatch } from '../tip.js';
import { href } from '../url.js';

export function jobView({ state, refreshSoon }, id) {
  const cursor = sharedCursor();
  const head = keep(h('div', { class: 'job-head' }));
  const status = panel('Status and why');
  const metrics = metricsChart(id, cursor, refreshSoon);
  const strip = jobStrip(cursor);
  const log = logViewer(id);
  const ledger = timeline();
  const spec = panel('Details');
  // Nothing is shown before all of it is known: parts that come later would move the others.
  const work = h('div', { class: 'split work' }, h('div', { class: 'stack-col' }, metrics.element, strip.element), log.element);
  const rest = h('div', { class: 'page' }, work, ledger.element, spec.element);
  const element = h('div', { class: 'page' }, head, status.element);
  let name = id;

  async function refresh() {
    const asked = [get(['jobs', id]), get(['jobs', id, 'explain']).catch(known), get(['jobs', id, 'points']).catch(known), get(['jobs', id, 'metrics']).catch(known), metrics.refresh()];
    const all = Promise.all(asked);
    all.catch(() => show(head, h('h1', {}, name)));
    await fill(status, all, ([job, x, p, m]) => draw(job, x, p?.points || [], m?.metrics || []));
  }
  // known lets a part be missing, but not a bug of ours.
  const known = (error) => { if (!error.code) throw error; return null; };

  function draw(job, x, points, reported) {
    const now = state.now();
    drawHead(job);
    drawStatus(job, x);
    const drawn = { job, points, metrics: reported, ledger: x?.ledger || [], now };
    Object.assign(drawn, spanOf(drawn));
    work.classList.toggle('unstarted', !job.status.starts); // nothing to keep room for
    if (!rest.isConnected) element.append(rest);
    metrics.draw(drawn);
    strip.draw(drawn);
    ledger.draw(x);
    log.follow(job);
    spec.show(list(details(job, now)), h('details', {}, h('summary', {}, 'Command, environment and request'), specification(job)));
  }
  function drawHead(job) {
    name = title(job);
    view.title = name;
    const app = job.app && job.app !== job.id ? [' / ', h('a', { href: href(['apps', job.app]) }, job.app)] : null;
    show(head, h('div', {}, h('p', { class: 'crumb' }, h('a', { href: '#/jobs' }, 'Jobs'), app, ' / ' + job.id), h('h1', {}, swatch(jobColour(job), 'block'), name, ' ', stateBadge(job))), buttons(job));
  }
  function drawStatus(job, x) {
    status.show(h('p', { class: 'summary' + (job.state === 'failed' ? ' bad-text' : '') }, x?.summary || sentence(job)),
      waits(job), trouble(job), failure(job),
      x ? list(whyLong(x), 'facts small found') : null, list([...facts(job, x, state.now()), ...(x ? whyFacts(x) : [])]), x ? whyLists(x) : null);
  }
  // failure says why the last attempt failed and what was decided.
  function failure(job) {
    const found = job.exit?.finding;
    if (!found || (job.state !== 'failed' && job.state !== 'waiting')) return null;
    const e = found.evidence;
    return list([
      ['Reason', found.reason === 'unknown' ? 'unknown: ' + found.text : found.text + ' (' + found.reason + ')'], ['Category', found.category],
      ['Evidence', e ? (e.log ? e.log + ':' + e.line + ': ' : e.source + ': ') + e.text : null], ['Decided', job.exit.next], ['Advice', job.exit.next?.includes(found.retry?.say) ? null : found.retry?.say],
    ], 'facts small found');
  }
  // waits says when a job that waits is expected to start.
  function waits(job) {
    if (!job.reason || job.state === 'paused') return null;
    const r = job.reason;
    return h('p', { class: 'callout' }, h('b', {}, 'Expected start: '), expected(job, state.now()),
      r.promised ? h('span', { class: 'block' }, 'At the latest ' + moment(ms(r.promised)) + ', if no node is lost.') : null,
      r.rough ? h('span', { class: 'block' }, 'Only a rough estimate: ' + r.rough) : null);
  }
  function trouble(job) {
    if (job.state === 'failed' || !job.exit?.code || job.exit.yielded || job.state === 'finished') return null;
    return h('p', { class: 'callout bad' }, h('b', {}, 'Last attempt: '), exitText(job.exit));
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
        act: async () => { drawHead(await post(['jobs', id, verb])); refreshSoon(); },
      }),
    }, verb[0].toUpperCase() + verb.slice(1));
  }
  const view = { title: name, element, refresh, close() { log.close(); metrics.close(); strip.close(); } };
  return view;
}

// sentence says how a job stands, where the daemon has no explanation.
function sentence(job) {
  if (job.reason) return (job.state === 'paused' ? 'It is paused: ' : 'It waits: ') + (job.reason.text || job.reason.code) + '.';
  if (job.state === 'failed') return 'It failed: ' + (job.why || exitText(job.exit) || 'for an unknown reason') + '.';
  return 'It is ' + (job.state === 'killed' ? 'cancelled' : job.state) + (heldGPUs(job) ? ' on ' + plural(heldGPUs(job), 'GPU') : '') + '.';
}

const list = (pairs, kind = 'facts') => h('dl', { class: kind }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '').map(([k, v]) => h('div', { key: k }, h('dt', {}, k), h('dd', {}, v))));

// facts are what one asks first.
function facts(job, x, now) {
  const st = job.status;
  const held = (job.held || []).map((y) => y.node + ': ' + y.gpus.join(', ') + (y.milli < 1000 ? ' (' + y.milli / 1000 + ' of each)' : ''));
  return [
    ['Progress', over.includes(job.state) && job.state !== 'finished' ? null : progress(job, now)],
    ['Allocated', heldGPUs(job) ? plural(heldGPUs(job), 'GPU') + ' of ' + sizes(job) : holding.includes(job.state) ? '–' : job.ended ? null : 'nothing of ' + sizes(job)],
    ['Roles', (job.roles || []).map((r, i) => r.name + ' ' + (job.held_roles && r.max_gpus > r.gpus ? job.held_roles[i] + ' of ' : '') + sizes(r)).join(', ')],
    ['Plan', x?.plans ? null : job.plan],
    ['Asked for', job.ended ? sizes(job) + (sizes(job) === '1' ? ' GPU' : ' GPUs') : null],
    ['Where', held.join('; ')],
    ['Owner', [job.user, job.tenant].filter(Boolean).join(' · ')],
    ['Runs elsewhere', job.links?.length ? job.links.map((l, i) => [i ? ', ' : '', h('a', { href: l.url, rel: 'noreferrer' }, l.name)]) : null],
    ['Ran', span(seconds(st.ran) + (st.phase === 'running' ? (now - ms(st.since)) / 1000 : 0)) + (job.time_limit ? ' of at most ' + span(seconds(job.time_limit)) : '')],
    ['Waited', span(seconds(st.waited) + (st.phase === 'pending' ? (now - ms(st.since)) / 1000 : 0))],
    ['GPU hours', number(gpuHours(job, now))],
    ['Last checkpoint', st.checkpoint ? ago(ms(st.checkpoint), now) : null],
    ['Fairness (rho)', job.rho ? number(job.rho) + (job.rho > 1.1 ? ', late' : job.rho < 0.95 ? ', ahead' : ', fair') : null],
    ['GPU use, this attempt', x?.use ? percent(x.use.util) + (x.use.memory ? ', at most ' + bytes(x.use.memory) : '') : null],
  ];
}

// details are the rest.
function details(job, now) {
  const st = job.status;
  return [
    ['Submitted', moment(ms(job.submitted)) + ' (' + ago(ms(job.submitted), now) + ')'],
    ['Ended', job.ended ? moment(ms(job.ended)) + ' (' + ago(ms(job.ended), now) + ')' : null],
    ['Starts', number(st.starts || 0) + (st.preemptions ? ', ' + number(st.preemptions) + ' preempted' : '') + (st.moves ? ', ' + number(st.moves) + ' moved' : '') + (st.failures ? ', ' + number(st.failures) + ' failed' : '')],
    ['Screening', st.screening ? 'on ' + plural(heldGPUs(job), 'GPU') + ', for ' + job.screen : job.screen && !st.proven && !over.includes(job.state) ? 'of ' + job.screen + ' to come' : null],
    ['Slowdown', st.slowdown ? number(st.slowdown) + ' times the step time when alone' : null],
    ['Fair share', job.fair_share ? number(job.fair_share) + ' GPUs' : null],
    ['Batch size', job.last?.batch ? number(job.last.batch) : null],
    ['Efficiency', job.last?.efficiency ? percent(job.last.efficiency) : null],
    ['Loss', Number.isFinite(job.last?.loss) ? number(job.last.loss) : null],
    ['Agent', job.agent ? 'reports' : 'has not reported'],
  ];
}

// commands are what a job runs; one with roles, for each of them on a line.
function commands(job) {
  const line = (words) => (words || []).map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : JSON.stringify(a))).join(' ');
  return job.roles ? job.roles.map((r) => r.name + ': ' + line(r.command || job.command)).join('\n') : line(job.command);
}

// specification shows what was submitted; values are text, whatever they hold.
function specification(job) {
  const { status, state, held, held_roles, reason, exit, last, rho, fair_share, left_s, agent, ended, paused_by, ...asked } = job;
  return [
    h('p', { class: 'note' }, 'Command'), h('pre', { class: 'code', tabindex: 0 }, commands(job)),
    h('p', { class: 'note' }, 'Request'), h('pre', { class: 'code', tabindex: 0 }, JSON.stringify(asked, null, 2)),
  ];
}
