// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Jobs: the pieces that lists of jobs and the page of one job share.
import { h } from './dom.js';
import { jobColour } from './colour.js';
import { ago, moment, ms, number, percent, sizes, span, title } from './format.js';
import { heldGPUs } from './grid.js';
import { heads } from './sortable.js';
import { swatch } from './tip.js';
import { href } from './url.js';

// The states by what they mean for lists.
export const holding = ['running', 'starting', 'stopping'];
export const queued = ['waiting', 'paused'];
export const over = ['finished', 'failed', 'killed'];

export const badge = (state) => h('span', { class: 'badge ' + state }, state === 'killed' ? 'cancelled' : state);

// stateBadge also says that a job is only being tried.
export const stateBadge = (job) => [badge(job.state), job.status.screening ? [' ', h('span', { class: 'badge starting' }, 'screening')] : null];

export const jobLink = (id, text) => h('a', { href: '#/jobs/' + encodeURIComponent(id) }, text || id);

// nameCell is the first cell of a row: the name, and who it belongs to, or the app.
const nameCell = (job, coloured = false, owned = false) => h('th', { scope: 'row', class: 'job-name' },
  h('span', { class: 'job-title' }, coloured ? swatch(jobColour(job), 'block') : null, job.members ? h('a', { href: href(['apps', job.app]) }, title(job)) : jobLink(job.id, title(job))),
  h('span', { class: 'sub' }, [title(job) === job.id ? null : job.id, ...(owned ? [] : [job.user, job.tenant])].filter(Boolean).join(' · '),
    owned && job.app && job.app !== job.id ? [title(job) === job.id ? '' : ' · ', h('a', { href: href(['apps', job.app]) }, job.app)] : null));

// doneNow returns the share of the work that is done; null: nobody knows.
function doneNow(job, now) {
  const { done = 0, rate = 0, reported_at: at, phase } = job.status;
  if (phase === 'finished') return 1;
  if (!(job.work > 0)) return null;
  const since = phase === 'running' && at ? Math.max(0, (now - ms(at)) / 1000) : 0;
  return Math.min(1, (done + rate * since) / job.work);
}

// gpuHours is the GPU time that a job has had so far.
export function gpuHours(job, now) {
  const st = job.status;
  const held = st.phase === 'running' ? (job.held || []).reduce((n, x) => n + x.gpus.length * x.milli / 1000, 0) : 0;
  return ((st.gpu_seconds || 0) + held * Math.max(0, (now - ms(st.since)) / 1000 || 0)) / 3600;
}

// progress is a bar of the work done, with the time that is left.
export function progress(job, now) {
  const share = doneNow(job, now);
  const left = job.left_s > 0 ? span(job.left_s) + ' left' : '';
  if (share === null) return h('span', { class: 'soft' }, left || 'total work unknown');
  return h('div', { class: 'progress' },
    h('div', { class: 'track', role: 'progressbar', 'aria-label': 'Work done of ' + title(job), 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': Math.floor(share * 100) },
      h('i', { vars: { width: (share * 100).toFixed(1) + '%', '--c': jobColour(job) } })),
    h('span', { class: 'sub' }, percent(Math.floor(share * 100) / 100) + (left ? ' · ' + left : '')));
}

// waitsFor is why a job does not run and when it might.
function waitsFor(job) {
  const r = job.reason;
  if (!r) return h('span', { class: 'soft' }, job.state === 'paused' ? 'paused' + (job.paused_by ? ' by ' + job.paused_by : '') : 'not decided yet');
  return h('div', { class: 'reason' }, r.text || r.code);
}

// expected prints the expected start of a job.
export function expected(job, now) {
  const { until, earliest, latest, rough, unknown } = job.reason || {};
  const [at, from, to] = [until, earliest, latest].map(ms);
  if (!Number.isFinite(at)) return h('span', { class: 'soft', title: unknown || null }, 'unknown');
  if (at <= now + 1000) return 'now';
  const range = Number.isFinite(from) && Number.isFinite(to) ? 'in 9 of 10 cases from ' + moment(from) + ' to ' + moment(to) : null;
  return h('span', { title: [range, rough && 'rough: ' + rough].filter(Boolean).join('; ') || null }, ago(at, now) + (rough ? ', roughly' : ''));
}

// row is a line of a table. It is made anew only when the job changed, or often
// enough for the times in it: those within a minute are printed in seconds.
const row = (job, now, cells) => {
  const seconds = [job.submitted, job.status?.since, job.reason?.until, job.ended].some((at) => Math.abs(ms(at) - now) < 62000);
  return h('tr', { key: job.id, sig: JSON.stringify(job) + Math.floor(now / (seconds ? 3000 : 20000)), fill: cells });
};

// queueTable lists jobs that wait.
export const queueTable = (jobs, now) => h('table', { class: 'list fold' },
  h('thead', {}, h('tr', {}, ['Job', 'GPUs', 'Waits for', 'Expected start', 'Waited'].map((t, i) => h('th', { scope: 'col', class: ['', 'num', '', 'nowrap', 'num minor'][i] }, t)))),
  h('tbody', {}, jobs.map((job) => row(job, now, () => [nameCell(job),
    h('td', { class: 'num nowrap', 'data-label': 'GPUs' }, sizes(job)), h('td', { class: 'line-of-its-own' }, job.state === 'paused' ? badge('paused') : null, waitsFor(job)),
    h('td', { class: 'nowrap', 'data-label': 'starts' }, expected(job, now)), h('td', { class: 'num nowrap minor' }, span(waited(job, now)))]))));

function waited(job, now) {
  return Math.max(0, Math.round((now - ms(job.status.since || job.submitted)) / 1000));
}

// runningTable lists jobs that hold GPUs.
export const runningTable = (jobs, now) => h('table', { class: 'list fold' },
  h('thead', {}, h('tr', {}, ['Job', 'State', 'GPUs', 'Batch', 'Progress', 'Since'].map((t, i) => h('th', { scope: 'col', class: ['', 'minor', 'num', 'num minor', 'wide', 'num minor'][i] }, t)))),
  h('tbody', {}, jobs.map((job) => row(job, now, () => [nameCell(job, true),
    h('td', { class: 'minor' }, stateBadge(job)), h('td', { class: 'num nowrap', 'data-label': 'GPUs' }, number(heldGPUs(job)), sizes(job) === String(heldGPUs(job)) ? null : h('span', { class: 'sub' }, 'of ' + sizes(job))),
    h('td', { class: 'num minor' }, job.last?.batch ? number(job.last.batch) : '–'),
    h('td', { class: 'wide line-of-its-own' }, progress(job, now)), h('td', { class: 'num nowrap minor' }, ago(ms(job.status.since), now))]))));

// countsOf says how the jobs of an array stand.
const countsOf = (job) => Object.entries(job.members).map(([state, n]) => h('span', { key: state }, badge(state), ' ' + number(n) + ' '));

// allTable lists jobs in any state. sort and set are those of its heads; filter is
// called with what a click on a user, tenant or app asks for.
export function allTable(jobs, now, { sort, set, filter }) {
  const only = (name, value) => (value && filter ? h('button', { type: 'button', class: 'as-link', title: 'Only ' + name + ' ' + value, onclick: () => filter({ [name]: value }) }, value) : value || '–');
  return h('table', { class: 'list fold' },
    heads([['name', 'Job'], ['state', 'State'], ['user', 'User', 'minor'], ['tenant', 'Tenant', 'minor'], ['gpus', 'GPUs', 'num'], ['gpu_hours', 'GPU hours', 'num minor'], ['', 'Progress or reason', 'wide'], ['submitted', 'Submitted', 'num minor']], sort, set),
    h('tbody', {}, jobs.map((job) => row(job, now, () => [nameCell(job, holding.includes(job.state), true),
      h('td', {}, job.members ? countsOf(job) : stateBadge(job)), h('td', { class: 'owner minor' }, only('user', job.user)), h('td', { class: 'owner minor' }, only('tenant', job.tenant)),
      h('td', { class: 'num nowrap', 'data-label': 'GPUs' }, holding.includes(job.state) ? number(heldGPUs(job)) : sizes(job)),
      h('td', { class: 'num nowrap minor' }, number(gpuHours(job, now), 2)),
      h('td', { class: 'wide line-of-its-own' }, story(job, now)), h('td', { class: 'num nowrap minor' }, ago(ms(job.submitted), now))]))));
}

function story(job, now) {
  if (holding.includes(job.state)) return progress(job, now);
  if (queued.includes(job.state)) return waitsFor(job);
  return h('span', { class: job.state === 'failed' ? 'reason bad' : 'soft' }, job.why || exitText(job.exit) || job.state, h('span', { class: 'sub' }, ago(ms(job.ended), now)));
}

// exitText says how an attempt ended.
export function exitText(exit) {
  if (!exit) return '';
  let text = 'exited with code 0';
  if (exit.lost) text = 'lost by the machine';
  else if (exit.yielded) text = 'saved a checkpoint and stopped';
  else if (exit.signal) text = 'rank ' + (exit.rank || 0) + ' was killed by ' + exit.signal;
  else if (exit.code) text = 'rank ' + (exit.rank || 0) + ' exited with code ' + exit.code;
  return text + (exit.why ? ': ' + exit.why : '');
}
