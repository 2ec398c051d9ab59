// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Chart: lines, steps and distribution curves in SVG, with a legend, a
// crosshair that reads all series, and a zoom that several charts can share.
//
//   fairway.chart(element, {
//     title, note,                  // above and below the plot
//     series: [{name, color, dash, points: [[x, y, low, high], ...]}],
//                                   // points by ascending x; low and high are optional
//     xlabel, ylabel, xformat, yformat,  // formats: functions of a number
//     xtime: true,                  // x is seconds: ticks in s, min, h, d
//     xlog, xfloor,                 // logarithmic x; values at or below xfloor sit on the left edge
//     ymax,                         // default: the largest value
//     ywhole: true,                 // y counts things: ticks at whole numbers only
//     step: true,                   // a value holds until the next point
//     before,                       // the value before the first point; default: none
//     lines: [{x | y, label}],      // reference lines
//     height, view, visible,        // shared state, see base.js; default: no zoom
//     empty,                        // text if there are no points
//   })
(function (F) {
  const margin = { top: 18, right: 16, bottom: 38, left: 52 };
  const timeSteps = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800,
    21600, 43200, 86400, 172800, 432000, 864000, 1728000, 4320000, 8640000, 31536000];
  const timeDecades = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000];
  let serial = 0;

  // ---- Scales and ticks.

  function niceStep(span, count) {
    const raw = span / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) || 10 * power;
  }
  F.linearTicks = function (from, to, count, time) {
    const span = to - from;
    let step = niceStep(span, Math.max(1, count));
    if (time) step = timeSteps.find((s) => span / s <= count) || step;
    const ticks = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) ticks.push(i * step + 0); // + 0: no -0
    ticks.step = step;
    return ticks;
  };
  F.logTicks = function (from, to, count, time) {
    if (time) return timeDecades.filter((t) => t >= from * 0.999 && t <= to * 1.001);
    const decades = Math.log10(to / from);
    const heads = decades > count ? [1] : decades > count / 3 ? [1, 3] : decades > 0.8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
    const ticks = [];
    for (let e = Math.floor(Math.log10(from)); e <= Math.ceil(Math.log10(to)); e++) {
      for (const h of heads) {
        const t = h * 10 ** e;
        if (t >= from * 0.999 && t <= to * 1.001) ticks.push(Number(t.toPrecision(3)));
      }
    }
    return ticks;
  };
  function scaleOf(domain, pixels, log) {
    const f = log ? Math.log : (v) => v;
    const [a, b] = [f(domain[0]), f(domain[1])];
    const to = (v) => pixels[0] + (f(log ? Math.max(v, domain[0]) : v) - a) / (b - a) * (pixels[1] - pixels[0]);
    const from = (p) => {
      const v = a + (p - pixels[0]) / (pixels[1] - pixels[0]) * (b - a);
      return log ? Math.exp(v) : v;
    };
    return { to, from, domain };
  }

  // ---- Points.

  // indexAt returns the last point at or before x; -1: none.
  function indexAt(points, x) {
    let low = -1;
    let high = points.length;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (points[mid][0] <= x) low = mid; else high = mid;
    }
    return low;
  }
  function valueAt(series, x, options) {
    const i = indexAt(series.points, x);
    if (i < 0) return options.before === undefined ? null : options.before;
    const [x0, y0] = series.points[i];
    const next = series.points[i + 1];
    if (options.step || !next) return options.step || x === x0 ? y0 : null;
    return y0 + (next[1] - y0) * (x - x0) / (next[0] - x0);
  }
  // condense turns steps that are closer than the screen can show into one
  // point for each slot of the screen: the mean over time, and the extremes.
  function condense(points, [from, to], slots) {
    const first = Math.max(0, indexAt(points, from));
    const last = Math.min(points.length - 1, indexAt(points, to) + 1);
    const visible = points.slice(first, last + 1);
    if (visible.length <= slots * 1.5) return { points: visible, dense: false };
    const width = (to - from) / slots;
    const out = [];
    let at = 0;
    for (let s = 0; s < slots; s++) {
      const [a, b] = [from + s * width, from + (s + 1) * width];
      if (b <= visible[0][0] || a >= visible[visible.length - 1][0]) continue;
      let [area, low, high, t] = [0, Infinity, -Infinity, Math.max(a, visible[0][0])];
      const begin = t;
      for (;; at++) {
        const p = visible[at];
        low = Math.min(low, p[2] === undefined ? p[1] : p[2]);
        high = Math.max(high, p[3] === undefined ? p[1] : p[3]);
        const until = at + 1 < visible.length ? Math.min(b, visible[at + 1][0]) : b;
        area += p[1] * Math.max(0, until - t);
        t = Math.max(t, until);
        if (at + 1 >= visible.length || visible[at + 1][0] > b) break;
      }
      out.push([(a + b) / 2, area / Math.max(t - begin, 1e-12), low, high]);
    }
    return { points: out, dense: true };
  }

  // ---- Paths.

  const p1 = (v) => Math.round(v * 10) / 10;
  function linePath(points, x, y, options, dense) {
    if (!points.length) return '';
    const step = options.step && !dense;
    let d = '';
    if (options.before !== undefined && !dense) {
      d = `M${p1(x.to(x.domain[0]))} ${p1(y.to(options.before))}H${p1(x.to(points[0][0]))}V${p1(y.to(points[0][1]))}`;
    }
    for (const [px, py] of points) {
      if (!d) d = `M${p1(x.to(px))} ${p1(y.to(py))}`;
      else if (step) d += `H${p1(x.to(px))}V${p1(y.to(py))}`;
      else d += `L${p1(x.to(px))} ${p1(y.to(py))}`;
    }
    if (step && options.hold) d += `H${p1(x.to(x.domain[1]))}`;
    return d;
  }
  function bandPath(points, x, y) {
    const edge = (k) => points.map((p) => `${p1(x.to(p[0]))} ${p1(y.to(p[k]))}`);
    return 'M' + edge(3).join('L') + 'L' + edge(2).reverse().join('L') + 'Z';
  }

  // ---- The chart.

  F.chart = function (element, options) {
    const o = Object.assign({ height: 260, xformat: F.number, yformat: F.number, lines: [], empty: 'nothing to show' }, options);
    const id = 'clip' + (++serial);
    const visible = o.visible || F.visibility();
    const view = o.view;
    const all = o.series.filter((s) => s.points.length);
    const legend = F.legend(o.series, visible);
    const reset = view && F.html('button', { type: 'button', class: 'quiet', hidden: true, onclick: view.reset }, 'Reset zoom');
    const plot = F.html('div', { class: 'plot' });
    element.classList.add('chart');
    element.append(
      F.html('div', { class: 'chart-head' }, F.html('h3', {}, o.title), reset),
      all.length ? legend : '', plot, all.length && o.note ? F.html('p', { class: 'note' }, o.note) : '');
    if (!all.length) {
      plot.append(F.html('p', { class: 'empty', vars: { 'min-height': o.height + 'px' } }, o.empty));
      return { redraw() {} };
    }

    let frame = null; // the last drawing, for the pointer
    const state = { drag: null };

    function extent() {
      if (view) return view.range;
      let from = Infinity;
      let to = -Infinity;
      for (const s of all) {
        for (const [x] of s.points) {
          if (o.xlog && !(x > 0)) continue;
          from = Math.min(from, x);
          to = Math.max(to, x);
        }
      }
      if (o.xlog && o.xfloor) from = Math.max(Math.min(from, to / 10), o.xfloor);
      if (!Number.isFinite(from)) [from, to] = [o.xfloor || 1, (o.xfloor || 1) * 10];
      if (o.xlog) return to / from < 1.5 ? [from / 2, from * 2] : [from, to * 1.05];
      return to > from ? [from, to] : [from - 1, to + 1];
    }
    function draw() {
      const width = Math.max(240, plot.clientWidth || 600);
      const inner = { left: margin.left, right: width - margin.right, top: margin.top, bottom: o.height - margin.bottom };
      const x = scaleOf(extent(), [inner.left, inner.right], o.xlog);
      const lines = all.filter((s) => visible.shown(s.name)).map((s) => Object.assign(
        { series: s }, o.step && !o.xlog ? condense(s.points, x.domain, Math.round((inner.right - inner.left) / 2)) : { points: s.points, dense: false }));
      const top = o.ymax || Math.max(1e-9, ...lines.flatMap((l) => l.points.map((p) => Math.max(p[1], p[3] || 0))), ...o.lines.map((l) => l.y || 0));
      const y = scaleOf([0, o.ymax || top * 1.06], [inner.bottom, inner.top], false);
      frame = { x, y, inner, lines, cross: F.svg('g', { class: 'cross' }) };
      const svg = F.svg('svg', {
        viewBox: `0 0 ${width} ${o.height}`, width: '100%', height: o.height, tabindex: 0, role: 'img',
        'aria-label': `${o.title}. ${o.xlabel}; ${o.ylabel}. ` + lines.map((l) => l.series.name).join(', '),
      },
      F.svg('clipPath', { id }, F.svg('rect', { x: inner.left, y: inner.top - 3, width: inner.right - inner.left, height: inner.bottom - inner.top + 6 })),
      axes(frame, o),
      F.svg('g', { 'clip-path': `url(#${id})` },
        lines.map((l) => l.points.length && l.points[0][3] !== undefined && lines.length <= 4 &&
          F.svg('path', { class: 'band', d: bandPath(l.points, x, y), vars: { '--c': l.series.color } })),
        lines.map((l) => F.svg('path', {
          class: 'line', d: linePath(l.points, x, y, o, l.dense), 'stroke-dasharray': l.series.dash || null, vars: { '--c': l.series.color },
        }))),
      references(frame, o), frame.cross);
      listen(svg);
      const focused = plot.contains(document.activeElement);
      plot.replaceChildren(svg);
      if (focused) svg.focus({ preventScroll: true });
      if (reset) reset.hidden = !view.zoomed();
      mark();
    }

    // mark draws the crosshair and its dots at the cursor of the view.
    const pointer = view || { cursor: null, point(c) { this.cursor = c; mark(); } };
    function mark() {
      const { x, y, inner, lines, cross } = frame;
      cross.replaceChildren();
      if (state.drag) {
        const [a, b] = [state.drag.from, state.drag.to].sort((p, q) => p - q);
        cross.append(F.svg('rect', { class: 'brush', x: a, y: inner.top, width: b - a, height: inner.bottom - inner.top }));
      }
      const c = pointer.cursor;
      if (c === null || c < x.domain[0] || c > x.domain[1]) return;
      const px = x.to(c);
      cross.append(F.svg('line', { x1: px, x2: px, y1: inner.top, y2: inner.bottom }));
      for (const l of lines) {
        const v = valueAt(l.series, c, o);
        if (v !== null) cross.append(F.svg('circle', { cx: px, cy: y.to(v), r: 3.5, vars: { '--c': l.series.color } }));
      }
    }
    function tell(clientX, clientY) {
      const c = pointer.cursor;
      const lines = frame.lines.map((l) => [F.swatch(l.series), l.series.name, o.yformat(valueAt(l.series, c, o))]);
      F.showTip(clientX, clientY, F.html('b', {}, (o.xname ? o.xname + ' ' : '') + o.xformat(c)), F.tipTable(lines));
    }
    function listen(svg) {
      const local = (e) => {
        const box = svg.getBoundingClientRect();
        const { inner } = frame;
        return Math.min(Math.max((e.clientX - box.left) * (svg.viewBox.baseVal.width / box.width), inner.left), inner.right);
      };
      svg.addEventListener('pointermove', (e) => {
        const px = local(e);
        if (state.drag) state.drag.to = px;
        pointer.point(frame.x.from(px));
        if (state.drag) mark();
        tell(e.clientX, e.clientY);
      });
      svg.addEventListener('pointerleave', () => { if (!state.drag) { pointer.point(null); F.hideTip(); } });
      svg.addEventListener('blur', () => { pointer.point(null); F.hideTip(); });
      svg.addEventListener('keydown', (e) => key(e, svg));
      if (!view) return;
      svg.classList.add('zooms');
      svg.addEventListener('pointerdown', (e) => {
        if (e.button !== 0) return;
        svg.setPointerCapture(e.pointerId);
        state.drag = { from: local(e), to: local(e) };
      });
      svg.addEventListener('pointerup', () => {
        const drag = state.drag;
        state.drag = null;
        if (!drag) return;
        const [a, b] = [drag.from, drag.to].sort((p, q) => p - q);
        if (b - a > 5) view.set(frame.x.from(a), frame.x.from(b)); else mark();
      });
      svg.addEventListener('pointercancel', () => { state.drag = null; mark(); });
      svg.addEventListener('dblclick', view.reset);
    }
    // key lets the keyboard read and zoom: arrows move the crosshair.
    function key(e, svg) {
      const { x, inner } = frame;
      const at = pointer.cursor === null ? (inner.left + inner.right) / 2 : x.to(pointer.cursor);
      const move = { ArrowLeft: -10, ArrowRight: 10 }[e.key];
      if (move) {
        const px = Math.min(Math.max(at + move, inner.left), inner.right);
        pointer.point(x.from(px));
        const box = svg.getBoundingClientRect();
        tell(box.left + px, box.top + box.height / 2);
      } else if (e.key === 'Escape') {
        pointer.point(null);
        F.hideTip();
      } else if (view && (e.key === '+' || e.key === '=')) view.zoom(0.5, pointer.cursor === null ? undefined : pointer.cursor);
      else if (view && e.key === '-') view.zoom(2);
      else if (view && e.key === '0') view.reset();
      else return;
      e.preventDefault();
    }

    draw();
    F.onResize(plot, draw);
    visible.on(draw);
    if (view) view.on((what) => (what === 'cursor' ? mark() : draw()));
    return { redraw: draw };
  };

  function axes({ x, y, inner }, o) {
    const g = F.svg('g', { class: 'axes' });
    for (const t of F.linearTicks(y.domain[0], y.domain[1], 5, false).filter((v) => !o.ywhole || Number.isInteger(v))) {
      g.append(F.svg('line', { x1: inner.left, x2: inner.right, y1: y.to(t), y2: y.to(t) }),
        F.svg('text', { x: inner.left - 8, y: y.to(t) + 4, 'text-anchor': 'end' }, o.yformat(t)));
    }
    const room = Math.min(12, Math.max(2, Math.floor((inner.right - inner.left) / 64)));
    const ticks = o.xlog ? F.logTicks(x.domain[0], x.domain[1], room, o.xtime) : F.linearTicks(x.domain[0], x.domain[1], room, o.xtime);
    let free = -Infinity;
    for (const t of ticks) {
      const named = o.xtime && !o.xlog ? F.tick(t, ticks.step, x.domain[1]) : o.xformat(t);
      const text = (o.xlog && o.xfloor && t <= o.xfloor ? '≤ ' : '') + named;
      const half = text.length * 3.4;
      const px = x.to(t);
      g.append(F.svg('line', { class: 'faint', x1: px, x2: px, y1: inner.top, y2: inner.bottom }));
      if (px - half < free || px + half > inner.right + margin.right) continue;
      free = px + half + 8;
      g.append(F.svg('text', { x: px, y: inner.bottom + 16, 'text-anchor': 'middle' }, text));
    }
    g.append(F.svg('line', { class: 'base', x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }),
      F.svg('text', { class: 'label', x: (inner.left + inner.right) / 2, y: inner.bottom + 33, 'text-anchor': 'middle' }, o.xlabel));
    return g;
  }
  function references({ x, y, inner }, o) {
    return F.svg('g', { class: 'refs' }, o.lines.map((l) => {
      if (l.x !== undefined) {
        if (l.x <= x.domain[0] || l.x >= x.domain[1]) return null;
        return [F.svg('line', { x1: x.to(l.x), x2: x.to(l.x), y1: inner.top, y2: inner.bottom }),
          F.svg('text', { x: x.to(l.x), y: inner.top - 5, 'text-anchor': 'middle' }, l.label)];
      }
      return [F.svg('line', { x1: inner.left, x2: inner.right, y1: y.to(l.y), y2: y.to(l.y) }),
        F.svg('text', { x: inner.right - 4, y: y.to(l.y) - 5, 'text-anchor': 'end' }, l.label)];
    }));
  }

  // legend is a row of buttons, one for each series, that hide and show it.
  F.legend = function (series, visible) {
    const buttons = series.map((s) => F.html('button', {
      type: 'button', 'aria-pressed': 'true', title: 'Hide or show ' + s.name, onclick: () => visible.toggle(s.name),
    }, F.swatch(s), s.name));
    visible.on(() => buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(visible.shown(series[i].name)))));
    return F.html('div', { class: 'legend', role: 'group', 'aria-label': 'Series' }, series.length > 1 ? buttons : []);
  };
})(fairway);
