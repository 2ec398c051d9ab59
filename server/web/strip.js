// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Strip: what a job had and what it made of it, row by row on one time axis, with
// marks where the scheduler did something to it.
import { chart } from './chart.js';
import { h, keep, show } from './dom.js';
import { ms, percent } from './format.js';
import { panel } from './panel.js';
import { withGaps } from './scale.js';

// What happens to a job, in words.
export const spoken = { start: 'started', preempt: 'preempted', move: 'moved', recover: 'recovered', pause: 'paused', fail: 'failed', end: 'ended' };

// span returns the time that the plots of a job cover, and the marks in it.
export function span({ job, points, ledger, now }) {
  const marks = ledger.map((e) => ({ at: ms(e.at), kind: e.verb, text: (spoken[e.verb] || e.verb) + ' ' + e.from_gpus + ' → ' + e.to_gpus + (e.why ? ': ' + e.why : '') }));
  const end = job?.ended ? ms(job.ended) : now;
  const first = Math.min(...[ms(job?.submitted), marks[0]?.at, ms(points[0]?.at)].filter(Number.isFinite), end - 1000);
  return { marks, range: [first, end] };
}

const measured = (v) => (v > 0 ? v : NaN);

// The rows: title, how it is drawn, and the value of a measurement.
const rows = [
  ['GPUs', { kind: 'step', whole: true }, (p) => measured(p.gpus)],
  ['Batch size', { kind: 'step' }, (p) => measured(p.batch)],
  ['Efficiency', { yformat: percent, ymax: 1.02 }, (p) => measured(p.efficiency)],
  ['Utilisation', { yformat: percent, ymax: 1.02 }, (p) => measured(p.util)],
  ['GPU memory, GiB', {}, (p) => measured(p.memory / 2 ** 30)],
];

// nothing says why there is nothing to draw.
function nothing(job) {
  const rows = 'GPUs, batch size, efficiency, utilisation and memory appear here ';
  if (job.status.starts) return job.ended ? ['Nothing was measured.'] : ['Nothing measured yet.', rows + 'as they are measured.'];
  return job.ended ? ['It never had a GPU.'] : ['It has no GPU yet.', rows + 'while the job runs.'];
}

export function jobStrip(cursor) {
  const charts = rows.map(([title, how]) => chart({ title, ...how, cursor, row: true, height: 58 }));
  const p = panel('Resources');
  const list = keep(h('div', { class: 'strip' }));
  const key = (ledger) => h('p', { class: 'mark-key' }, Object.entries(spoken).filter(([verb]) => ledger.some((e) => e.verb === verb)).map(([verb, word]) => h('span', {}, h('i', { class: 'mark-dot ' + verb }), word)));
  p.close = () => charts.forEach((c) => c.close());
  p.draw = ({ job, points, ledger, marks, range }) => {
    if (!points.length && !ledger.length) { p.empty(...nothing(job)); return; }
    const line = (name, n, value) => ({ name, color: 'var(--s' + n + ')', points: withGaps(points.map((q) => [ms(q.at), value(q)]), ledger) });
    const held = { name: 'GPUs', color: 'var(--s0)', points: [...(ledger[0]?.from_gpus ? [] : [[range[0], 0]]), ...ledger.map((e) => [ms(e.at), e.to_gpus])] };
    const series = rows.map(([name, , value], n) => (n === 0 && ledger.length ? held : line(name, [0, 5, 2, 3, 4][n], value)));
    const last = series.findLastIndex((x) => x.points.length);
    show(list, charts.filter((c, n) => series[n].points.length).map((c) => c.element));
    charts.forEach((c, n) => { if (series[n].points.length) c.update({ series: [series[n]], marks, range, ticks: n === last }); });
    p.show(key(ledger), list, points.length ? null : h('p', { class: 'hint' }, 'No training measurements yet: code that uses the fairway package reports its loss, batch size and more.'));
  };
  return p;
}
