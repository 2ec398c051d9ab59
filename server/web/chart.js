// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Chart: lines, steps and stacked areas, with axes, marks, a legend that hides
// series, a crosshair for pointer and keyboard, and the same figures as a table.
//
//   const c = chart({
//     title, note, empty,            // words
//     kind: 'line' | 'step' | 'stack',
//     yformat, whole, zero, ymax,    // of the values; zero: the axis begins at 0 (default)
//     lines: [{y, label}],           // reference lines
//     height, cursor,                // cursor: one crosshair for several charts
//     part,                          // extra elements for its head
//     row,                           // it is one of several on one axis: its title is beside it
//   })
//   c.update({
//     series: [{name, color, dash, faint, points: [[x, value | null], ...]}],  // faint: behind its series
//     marks: [{at, kind, text}], range: [from, to],
//     axis,                          // of x: time (default), or one like it
//     ticks,                         // of a row: label the axis
//     log,                           // the values by their logarithm
//   })
import { h, s, keep, show } from './dom.js';
import { duration, moment, number, short } from './format.js';
import { logScale, logTicks, scale, stack, thin, ticks, timeTicks, valueAt } from './scale.js';
import { hideTip, showTip, swatch, tipRows } from './tip.js';

const near = 7; // pixels from a mark that still mean it
const tableRows = 200;

// The axes of x: their name, a value in words, and the ticks.
const plainTicks = (print) => (from, to, count) => ticks(from, to, count).map((at) => ({ at, label: print(at) }));
export const time = { name: 'Time', print: (v) => moment(v), ticks: timeTicks };
export const progress = { name: 'Work done', print: (v) => number(v, 5) + ' done', ticks: plainTicks(short) };
export const step = { name: 'Step', print: (v) => 'step ' + number(v, 7), ticks: plainTicks(short) };
export const elapsed = { name: 'Time since the start', print: (v) => duration(v / 1000) + ' after the start', ticks: (from, to, count) => timeTicks(from, to, count, true) };

// sharedCursor is a crosshair that several charts show.
export function sharedCursor() {
  const listeners = [];
  return {
    at: null,
    on(f) { listeners.push(f); },
    set(at) { if (at !== this.at) { this.at = at; listeners.forEach((f) => f()); } },
  };
}

export function chart(options) {
  const o = { kind: 'line', yformat: number, zero: true, height: 190, lines: [], empty: 'No data yet.', cursor: sharedCursor(), row: false, part: [], ...options };
  const hidden = new Set();
  const plot = keep(h('div', { class: 'plot', vars: { 'min-height': o.height + 'px' } }));
  const legend = h('div', { class: 'legend', role: 'group', 'aria-label': 'Series of ' + o.title });
  const table = h('div', { class: 'scroll chart-table', hidden: true, tabindex: 0, role: 'region', 'aria-label': o.title + ' as a table' });
  const toggle = h('button', { type: 'button', class: 'quiet small', 'aria-pressed': 'false', 'aria-label': o.title + ' as a table', onclick: flip }, 'Table');
  const value = h('b', {}); // of a row: what it is now
  const element = keep(o.row
    ? h('figure', { class: 'chart row', 'aria-label': o.title }, h('figcaption', {}, h('span', {}, o.title), value, toggle), h('div', {}, plot, table))
    : h('figure', { class: 'card chart', 'aria-label': o.title }, h('div', { class: 'card-head' }, h('h3', {}, o.title), h('div', { class: 'card-part' }, o.part, toggle)), legend, plot, table, o.note && h('figcaption', { class: 'note' }, o.note)));
  const none = { series: [], marks: [], range: null, axis: time, log: false, ticks: !o.row };
  let data = none;
  let frame = null;

  function flip() {
    table.hidden = !table.hidden;
    plot.hidden = !table.hidden;
    toggle.setAttribute('aria-pressed', String(!table.hidden));
    draw();
  }
  const named = () => data.series.filter((x) => !x.faint);
  const shown = () => named().filter((x) => x.points.length && !hidden.has(x.name));
  const filled = () => data.series.some((x) => x.points.length);

  function update(next) {
    data = { ...none, ...next };
    show(legend, named().length > 1 && filled() ? named().map((x) => h('button', {
      key: x.name, type: 'button', 'aria-pressed': String(!hidden.has(x.name)), title: 'Hide or show',
      onclick: () => { if (!hidden.delete(x.name)) hidden.add(x.name); update(data); },
    }, swatch(x.color, o.kind === 'stack' ? 'block' : x.dash ? 'dashed' : ''), x.name)) : null);
    if (o.row) show(value, last());
    draw();
  }
  function last() {
    const points = named()[0]?.points || [];
    const p = points.findLast((q) => q[1] !== null);
    return p ? o.yformat(p[1]) : '–';
  }
  function draw() {
    toggle.hidden = !filled();
    if (!table.hidden) { drawTable(); return; }
    if (!filled()) {
      frame = null;
      plot.replaceChildren(h('p', { class: 'empty', vars: { 'min-height': o.height + 'px' } }, o.empty));
      return;
    }
    const width = Math.max(220, plot.clientWidth || 560);
    frame = layout(o, data, data.series.filter((x) => x.points.length && !hidden.has(x.name)), width);
    const focused = plot.contains(document.activeElement);
    const svg = paint(o, data, frame, width);
    listen(svg);
    if (focused) plot.firstChild.onblur = null; // it goes, but the reader stays
    plot.replaceChildren(svg);
    if (focused) svg.focus({ preventScroll: true });
    cross();
  }
  function drawTable() {
    const xs = [...new Set(shown().flatMap((x) => x.points.map((p) => p[0])))].sort((a, b) => b - a);
    show(table, h('table', { class: 'plain' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, data.axis.name), shown().map((x) => h('th', { scope: 'col', class: 'num' }, x.name)))),
      h('tbody', {}, xs.slice(0, tableRows).map((at) => h('tr', { key: at }, h('th', { scope: 'row' }, data.axis.print(at)),
        shown().map((x) => h('td', { class: 'num' }, printed(o, x, at))))))),
    xs.length > tableRows && h('p', { class: 'note' }, 'The last ' + tableRows + ' of ' + xs.length + ' moments.'));
  }
  function cross() {
    if (!frame) return;
    const { x, y, inner, layer, series } = frame;
    const at = o.cursor.at;
    layer.replaceChildren();
    if (at === null || at < x.domain[0] || at > x.domain[1]) return;
    layer.append(s('line', { x1: x.to(at), x2: x.to(at), y1: inner.top, y2: inner.bottom }));
    if (o.kind === 'stack') return;
    for (const line of series.filter((l) => !l.faint)) {
      const v = valueAt(line.points, at, o.kind === 'step');
      if (v !== null && frame.drawn(v)) layer.append(s('circle', { cx: x.to(at), cy: y.to(v), r: 3.5, vars: { '--c': line.color } }));
    }
  }
  function tell(clientX, clientY) {
    const at = o.cursor.at;
    const lines = shown().map((line) => [swatch(line.color, o.kind === 'stack' ? 'block' : ''), line.name, printed(o, line, at)]);
    const marks = data.marks.filter((m) => Math.abs(frame.x.to(m.at) - frame.x.to(at)) <= near);
    showTip({ x: clientX, y: clientY, right: element.getBoundingClientRect().right }, h('b', {}, data.axis.print(at)), tipRows(o.kind === 'stack' ? lines.reverse() : lines),
      marks.map((m) => h('p', { class: 'tip-mark' }, h('i', { class: 'mark-dot ' + m.kind }), m.text)));
  }
  function listen(svg) {
    const box = () => svg.getBoundingClientRect();
    const clamp = (px) => Math.min(Math.max(px, frame.inner.left), frame.inner.right);
    const away = () => { o.cursor.set(null); hideTip(); };
    svg.onpointermove = (e) => { o.cursor.set(frame.x.from(clamp(e.clientX - box().left))); tell(e.clientX, e.clientY); };
    svg.onpointerleave = away;
    svg.onblur = away;
    svg.onkeydown = (e) => {
      const move = { ArrowLeft: -8, ArrowRight: 8, Home: -1e6, End: 1e6 }[e.key];
      if (e.key === 'Escape') { away(); return; }
      if (!move) return;
      e.preventDefault();
      const px = clamp((o.cursor.at === null ? frame.inner.right : frame.x.to(o.cursor.at)) + move);
      o.cursor.set(frame.x.from(px));
      tell(box().left + px, box().top + 40);
    };
  }
  o.cursor.on(cross);
  let wide = 0;
  const watcher = new ResizeObserver(() => {
    if (plot.clientWidth && plot.clientWidth !== wide) { wide = plot.clientWidth; draw(); }
  });
  watcher.observe(plot);
  return { element, update, close: () => watcher.disconnect() };
}

function printed(o, line, at) {
  const v = valueAt(line.points, at, o.kind !== 'line');
  return v === null ? '–' : o.yformat(v);
}

const [left, right, below] = [50, 14, 24]; // margins in pixels; below: for the labels of the axis

// layout finds the scales for what is shown.
function layout(o, data, series, width) {
  const tall = o.height + (o.row && data.ticks ? below - 5 : 0);
  const inner = { left, right: width - right, top: o.row ? 9 : 14, bottom: tall - (data.ticks ? below : 5) };
  const xs = data.series.flatMap((x) => (x.points.length ? [x.points[0][0], x.points[x.points.length - 1][0]] : []));
  let [from, to] = data.range || [Math.min(...xs), Math.max(...xs)];
  if (!(to > from)) [from, to] = data.axis === progress || data.axis === step ? [from - 1, from + 1] : [from - 30000, from + 30000];
  const stacked = o.kind === 'stack' ? stack(series) : null;
  const drawn = (v) => v !== null && (!data.log || v > 0);
  let [low, high] = [Infinity, -Infinity];
  for (const line of stacked || series) {
    for (const p of stacked ? line.edges : line.points) {
      const v = stacked ? p[2] : p[1];
      if (drawn(v) && v < low) low = v;
      if (drawn(v) && v > high) high = v;
    }
  }
  for (const l of o.lines) { low = Math.min(low, l.y); high = Math.max(high, l.y); }
  if (!Number.isFinite(high)) [low, high] = data.log ? [1, 10] : [0, 1];
  const pixels = [inner.bottom, inner.top];
  const y = data.log ? logScale([low / 1.15, high * 1.15], pixels) : straight(o, low, high, pixels);
  return { tall, inner, series, stacked, drawn, x: scale([from, to], [inner.left, inner.right]), y, layer: s('g', { class: 'cross' }) };
}

function straight(o, low, high, pixels) {
  if (o.zero) low = Math.min(0, low);
  if (o.ymax !== undefined) high = o.ymax;
  const room = high - low || Math.abs(high) || 1;
  return scale([o.zero ? low : low - room * 0.06, o.ymax === undefined ? high + room * 0.08 : high], pixels);
}

function paint(o, data, frame, width) {
  const { x, y, inner, series, stacked, layer } = frame;
  const slots = Math.max(60, Math.round(inner.right - inner.left));
  return s('svg', {
    viewBox: '0 0 ' + width + ' ' + frame.tall, width: '100%', height: frame.tall, tabindex: 0, role: 'img',
    'aria-label': o.title + ' by ' + data.axis.name.toLowerCase() + ': ' + series.filter((l) => !l.faint).map((l) => l.name + ', last ' + printed(o, l, l.points[l.points.length - 1][0])).join('; ') + '. Arrow keys read values; the table button shows all.',
  },
  axes(frame, o, data),
  stacked ? stacked.map((l) => s('path', { class: 'area', d: areaPath(l.edges, x, y), vars: { '--c': l.color } })) : null,
  o.lines.map((l) => s('g', { class: 'ref' }, s('line', { x1: inner.left, x2: inner.right, y1: y.to(l.y), y2: y.to(l.y) }),
    s('text', { x: inner.right - 2, y: y.to(l.y) - 4, 'text-anchor': 'end' }, l.label))),
  data.marks.filter((m) => m.at >= x.domain[0] && m.at <= x.domain[1]).map((m) => s('g', { class: 'mark ' + m.kind },
    s('line', { x1: x.to(m.at), x2: x.to(m.at), y1: inner.top, y2: inner.bottom }), s('circle', { cx: x.to(m.at), cy: inner.top - 5, r: o.row ? 3 : 4 }))),
  stacked ? null : series.map((l) => s('path', {
    class: 'line' + (l.faint ? ' faint' : ''), d: linePath(thin(l.points, slots), frame, o.kind === 'step'), 'stroke-dasharray': l.dash || null, vars: { '--c': l.color },
  })),
  stacked ? null : series.filter((l) => l.points.length === 1 && frame.drawn(l.points[0][1])).map((l) => s('circle', { class: 'dot', cx: x.to(l.points[0][0]), cy: y.to(l.points[0][1]), r: 3, vars: { '--c': l.color } })),
  layer);
}

const p1 = (v) => Math.round(v * 10) / 10;

function linePath(points, { x, y, inner, drawn }, step) {
  let d = '';
  let open = false;
  for (const [px, py] of points) {
    const X = p1(Math.max(inner.left, x.to(px)));
    if (!drawn(py)) {
      if (step && open) d += 'H' + X;
      open = false;
    } else if (!open) {
      d += 'M' + X + ' ' + p1(y.to(py)) + (step ? '' : 'h.1'); // one value alone is a dot
      open = true;
    } else d += step ? 'H' + X + 'V' + p1(y.to(py)) : 'L' + X + ' ' + p1(y.to(py));
  }
  return step && open ? d + 'H' + p1(inner.right) : d;
}

// areaPath draws between two edges; values hold until the next moment.
function areaPath(edges, x, y) {
  let d = '';
  let back = '';
  edges.forEach(([at, low, high], i) => {
    const X = p1(x.to(at));
    const next = i + 1 < edges.length ? p1(x.to(edges[i + 1][0])) : p1(x.to(x.domain[1]));
    d += (i ? 'L' : 'M') + X + ' ' + p1(y.to(high)) + 'H' + next;
    back = 'L' + next + ' ' + p1(y.to(low)) + 'H' + X + back;
  });
  return d ? d + back + 'Z' : '';
}

function axes({ x, y, inner }, o, data) {
  const g = s('g', { class: 'axes' });
  const values = data.log ? logTicks(...y.domain) : ticks(y.domain[0], y.domain[1], o.row ? 3 : 5, o.whole);
  for (const t of values) {
    g.append(s('line', { x1: inner.left, x2: inner.right, y1: y.to(t), y2: y.to(t) }),
      s('text', { x: inner.left - 7, y: y.to(t) + 4, 'text-anchor': 'end' }, (o.yformat === number ? short : o.yformat)(t)));
  }
  const room = Math.max(2, Math.floor((inner.right - inner.left) / 74));
  for (const { at, label } of data.axis.ticks(x.domain[0], x.domain[1], room)) {
    const px = x.to(at);
    const half = label.length * 3.2;
    g.append(s('line', { class: 'faint', x1: px, x2: px, y1: inner.top, y2: inner.bottom }));
    if (!data.ticks || px - half < inner.left - 20 || px + half > inner.right + right) continue;
    g.append(s('text', { x: px, y: inner.bottom + 16, 'text-anchor': 'middle' }, label));
  }
  g.append(s('line', { class: 'base', x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }));
  return g;
}
