// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Training: how a job trains over time: GPUs, batch size, statistical
// efficiency, goodput and loss on one time axis, with marks where the scheduler
// did something to it.
import { chart, sharedCursor } from './chart.js';
import { h, keep, show } from './dom.js';
import { ms, percent } from './format.js';
import { panel } from './panel.js';
import { withGaps } from './scale.js';

const spoken = { start: 'started', preempt: 'preempted', move: 'moved', pause: 'paused', fail: 'failed', end: 'ended' };

export function jobCharts() {
  const cursor = sharedCursor();
  const noAgent = 'No training measurements yet: code that uses the fairway package reports every 30 seconds.';
  const charts = {
    gpus: chart({ title: 'GPUs', kind: 'step', whole: true, cursor }),
    batch: chart({ title: 'Batch size', kind: 'step', cursor }),
    efficiency: chart({ title: 'Statistical efficiency', yformat: percent, ymax: 1.02, cursor }),
    speed: chart({ title: 'Goodput and throughput (examples/s)', cursor }),
    loss: chart({ title: 'Loss', zero: false, cursor }),
  };
  const p = panel('Training', { plain: true });
  const grid = keep(h('div', { class: 'charts' }));
  const hint = h('p', { class: 'hint' }, noAgent);
  const key = h('p', { class: 'mark-key' }, Object.entries(spoken).map(([verb, word]) => h('span', {}, h('i', { class: 'mark-dot ' + verb }), word)));
  p.close = () => Object.values(charts).forEach((c) => c.close());
  p.draw = ({ job, points, ledger, now }) => {
    if (!points.length && !ledger.length) { p.empty('No data yet.', 'GPUs, batch size, efficiency and loss appear here while the job runs.'); return; }
    const marks = ledger.map((e) => ({ at: ms(e.at), kind: e.verb, text: spoken[e.verb] + ' ' + e.from_gpus + ' → ' + e.to_gpus + (e.why ? ': ' + e.why : '') }));
    const end = job?.ended ? ms(job.ended) : now;
    const first = Math.min(...[ms(job?.submitted), marks[0]?.at, ms(points[0]?.at)].filter(Number.isFinite), end - 1000);
    const common = { marks, range: [first, end] };
    const line = (name, n, value) => ({ name, color: 'var(--s' + n + ')', points: withGaps(points.map((q) => [ms(q.at), value(q)]), ledger) });
    const used = [];
    const draw = (c, ...series) => {
      if (!series.some((x) => x.points.length)) return;
      used.push(c.element);
      c.update({ series, ...common });
    };
    const measured = (v) => (v > 0 ? v : NaN);
    const held = ledger.length ? { name: 'GPUs', color: 'var(--s0)', points: [...(ledger[0].from_gpus ? [] : [[first, 0]]), ...ledger.map((e) => [ms(e.at), e.to_gpus])] } : line('GPUs', 0, (q) => measured(q.gpus));
    draw(charts.gpus, held);
    draw(charts.batch, line('Batch size', 5, (q) => measured(q.batch)));
    draw(charts.efficiency, line('Efficiency', 2, (q) => measured(q.efficiency)));
    draw(charts.speed, line('Goodput', 0, (q) => measured(q.goodput)), { ...line('Throughput', 1, (q) => measured(q.throughput)), dash: '5 3' });
    draw(charts.loss, line('Loss', 1, (q) => q.loss ?? NaN));
    grid.className = used.length < 5 ? 'charts few' : 'charts';
    show(grid, ...used);
    p.show(key, grid, points.length ? null : hint);
  };
  return p;
}
