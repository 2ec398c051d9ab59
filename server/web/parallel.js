// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Parallel: parallel coordinates. Each axis is a parameter or a result, each line one
// trial from its parameters to what it reached.
import { h, keep, s, show } from './dom.js';
import { number, short } from './format.js';
import { logScale, logTicks, scale, ticks } from './scale.js';
import { hideTip, showTip, swatch, tipRows } from './tip.js';

const [top, tall, side] = [26, 220, 46]; // pixels: above the axes, the axes, beside them
const leastGap = 84;
const mostLines = 300;

// parallel makes a chart; update takes axes ({ name, values?, log? }, of which values are
// the words of a choice) and lines ({ name, at: a value for each axis, rank: 0 the best to
// 1 the worst, or null, dashed, says }), the best first.
export function parallel(title) {
  const plot = keep(h('div', { class: 'plot parallel' }));
  const note = h('p', { class: 'note' });
  const element = keep(h('figure', { class: 'card chart', 'aria-label': title }, h('div', { class: 'card-head' }, h('h3', {}, title)),
    h('div', { class: 'legend' }, h('span', {}, swatch(tone(0)), 'best'), h('span', {}, swatch(tone(1)), 'worst'), h('span', {}, swatch('var(--soft)', 'dashed'), 'stopped early')), plot, note));
  let data = { axes: [], lines: [] };

  function update(next) {
    data = { ...next, lines: next.lines.slice(0, mostLines) };
    element.hidden = !data.lines.length;
    show(note, next.lines.length > mostLines ? 'The best ' + mostLines + ' of ' + number(next.lines.length) + ' trials.' : '');
    draw();
  }
  function draw() {
    if (!data.lines.length) return;
    const width = Math.max(plot.clientWidth || 560, 2 * side + leastGap * (data.axes.length - 1));
    const x = (i) => (data.axes.length < 2 ? width / 2 : side + i * (width - 2 * side) / (data.axes.length - 1));
    const scales = data.axes.map((a, i) => axisScale(a, data.lines.map((l) => l.at[i])));
    const path = (l) => l.at.map((v, i) => [v, i]).filter(([v]) => known(v)).map(([v, i], k) => (k ? 'L' : 'M') + Math.round(x(i)) + ' ' + scales[i].to(v).toFixed(1)).join('');
    plot.replaceChildren(s('svg', { width, height: top + tall + 14, role: 'img', 'aria-label': title + ' of ' + data.lines.length + ' trials. The table of trials has the figures.' },
      data.lines.toReversed().map((l) => line(l, path(l))),
      data.axes.map((a, i) => s('g', { class: 'axes' }, s('line', { class: 'base', x1: x(i), x2: x(i), y1: top, y2: top + tall }),
        s('text', { class: 'axis-name', x: x(i), y: 12, 'text-anchor': 'middle' }, clip(a.name)),
        scales[i].ticks.map(([at, text]) => s('text', { x: x(i) + (i === data.axes.length - 1 ? 6 : -6), y: scales[i].to(at) + 4, 'text-anchor': i === data.axes.length - 1 ? 'start' : 'end' }, text))))));
  }
  // line is a trial: what is seen, and a wider one that is easier to point at.
  function line(l, d) {
    const seen = s('path', { class: 'line' + (l.rank === 0 ? ' best' : ''), d, 'stroke-dasharray': l.dashed ? '4 3' : null, vars: { '--c': l.rank === null ? 'var(--bar)' : tone(l.rank) } });
    return s('g', {
      onpointermove: (e) => {
        seen.classList.add('near');
        showTip({ x: e.clientX, y: e.clientY }, h('p', {}, h('b', {}, l.name), l.says ? ' ' + l.says : null),
          tipRows(data.axes.map((a, i) => [null, a.name, typeof l.at[i] === 'number' ? number(l.at[i], 4) : l.at[i] ?? '–'])));
      },
      onpointerleave: () => { seen.classList.remove('near'); hideTip(); },
    }, seen, s('path', { class: 'reach', d }));
  }
  let wide = 0;
  const watcher = new ResizeObserver(() => {
    if (plot.clientWidth && plot.clientWidth !== wide) { wide = plot.clientWidth; draw(); }
  });
  watcher.observe(plot);
  return { element, update, close: () => { watcher.disconnect(); hideTip(); } };
}

// tone goes from the colour of the best to that of the worst.
const tone = (rank) => 'color-mix(in oklch, var(--s1) ' + Math.round(100 * rank) + '%, var(--s2))';

const known = (v) => v !== null && v !== undefined && v !== '';

const clip = (name) => (name.length > 14 ? name.slice(0, 13) + '…' : name);

// axisScale maps the values of an axis to pixels: words at equal distances, in their
// order, and numbers by their size.
export function axisScale(axis, all) {
  const values = all.filter(known);
  if (axis.values || values.some((v) => typeof v !== 'number')) {
    const words = [...new Set([...(axis.values || []), ...values].map(String))];
    const place = (i) => top + tall - (words.length < 2 ? 0.5 : i / (words.length - 1)) * tall;
    const step = Math.ceil(words.length / 12);
    return { to: (v) => place(words.indexOf(String(v))), ticks: words.map((w) => [w, clip(w)]).filter((_, i) => i % step === 0) };
  }
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const log = axis.log && low > 0;
  if (!(high > low)) [low, high] = log ? [low / 2, high * 2] : [low - 1, high + 1];
  const pixels = [top + tall, top];
  const { to } = log ? logScale([low, high], pixels) : scale([low, high], pixels);
  return { to, ticks: (log ? logTicks(low, high) : ticks(low, high, 6, values.every(Number.isInteger))).map((v) => [v, short(v)]) };
}
