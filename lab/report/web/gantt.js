// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Gantt: one row for each task, one bar for each stretch it ran, on a canvas
// that draws only the rows in sight.
//
//   fairway.gantt(element, {
//     view,                       // the window on time, see base.js
//     label,                      // for screen readers
//     rows: [{name, from, to, bars, failed}],
//                                 // bars: [from, to, weight, ...] by threes; in between the row waits
//     heaviest,                   // the largest weight: the darkest bar
//                                 // modes of height: overview (all rows fit), compact, readable
//     explain(row, time),         // content of the tooltip
//     changed(n),                 // called with the number of rows when it may have changed
//     empty(),                    // text if there are no rows
//   }) returns {setRows(rows), setHeight(mode), redraw()}
(function (F) {
  const axisHeight = 26;
  const tallest = 580;

  F.gantt = function (element, options) {
    const { view } = options;
    const canvas = F.html('canvas', {});
    const spacer = F.html('div', {});
    const scroll = F.html('div', {
      class: 'gantt', tabindex: 0, role: 'application', 'aria-label': options.label +
        '. Up and down choose a row, left and right move in time, plus and minus zoom, 0 shows all.',
    }, canvas, spacer);
    element.append(scroll);
    const screen = canvas.getContext('2d');
    const pen = F.html('canvas', {}).getContext('2d');
    const state = { all: options.rows, rows: options.rows, height: 0, mode: 'overview', hover: -1, drag: null, brush: null, ink: null };

    // ---- Layout.

    function rowHeight() {
      const fit = (tallest - axisHeight) / Math.max(1, state.rows.length);
      return { readable: 18, compact: 9 }[state.mode] || Math.min(18, fit);
    }
    function layout() {
      const [from, to] = view.range;
      state.rows = view.zoomed() ? state.all.filter((r) => r.from <= to && r.to >= from) : state.all;
      state.height = rowHeight();
      const total = axisHeight + state.rows.length * state.height + 4;
      const high = Math.max(120, Math.min(tallest, total));
      const wide = scroll.clientWidth || 800;
      const ratio = window.devicePixelRatio || 1;
      scroll.style.height = high + 'px';
      canvas.style.width = wide + 'px';
      canvas.style.height = high + 'px';
      canvas.width = pen.canvas.width = Math.round(wide * ratio);
      canvas.height = pen.canvas.height = Math.round(high * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      spacer.style.height = Math.max(0, total - high) + 'px';
      Object.assign(state, { wide, high, left: state.height >= 10 ? Math.min(150, Math.round(wide * 0.26)) : 10 });
      draw();
      options.changed(state.rows.length);
    }
    const toX = (t) => state.left + (t - view.range[0]) / (view.range[1] - view.range[0]) * (state.wide - state.left - 10);
    const toTime = (x) => view.range[0] + (x - state.left) / (state.wide - state.left - 10) * (view.range[1] - view.range[0]);

    // ---- Drawing.

    function inks() {
      // The colour of an element is the one property that comes back resolved.
      const probe = F.html('i', { hidden: true });
      scroll.append(probe);
      const css = getComputedStyle(probe);
      const get = (name) => { probe.style.color = `var(${name})`; return css.color; };
      const ramp = ['--gantt-few', '--gantt-some', '--gantt-many'].map((n) => parseColor(get(n)));
      const ink = { ramp, font: css.fontFamily };
      for (const name of ['soft', 'grid', 'card', 'bad', 'accent']) ink[name] = get('--' + name);
      ink.wait = get('--gantt-wait');
      probe.remove();
      return ink;
    }
    // draw renders the visible rows once; paint adds the marks of the pointer,
    // which is cheap enough for every move.
    function draw() {
      const ink = state.ink || (state.ink = inks());
      pen.fillStyle = ink.card;
      pen.fillRect(0, 0, state.wide, state.high);
      grid(ink);
      if (state.rows.length) rowsInSight(ink);
      else {
        pen.fillStyle = ink.soft;
        pen.font = '14px ' + ink.font;
        pen.textAlign = 'center';
        pen.fillText(options.empty(), state.wide / 2, state.high / 2 + 8);
      }
      paint();
    }
    function paint() {
      const ratio = window.devicePixelRatio || 1;
      screen.setTransform(1, 0, 0, 1, 0, 0);
      screen.drawImage(pen.canvas, 0, 0);
      screen.setTransform(ratio, 0, 0, ratio, 0, 0);
      screen.fillStyle = state.ink.accent;
      if (state.hover >= 0) {
        const y = top(state.hover);
        screen.globalAlpha = 0.16;
        if (y > axisHeight - state.height) screen.fillRect(0, Math.max(axisHeight, y - 1), state.wide, Math.max(3, state.height));
      }
      if (state.brush) {
        const [a, b] = [state.brush.from, state.brush.to].sort((p, q) => p - q);
        screen.globalAlpha = 0.2;
        screen.fillRect(a, 0, b - a, state.high);
      }
      screen.globalAlpha = 1;
    }
    function grid(ink) {
      pen.font = '11px ' + ink.font;
      pen.textAlign = 'center';
      pen.lineWidth = 1;
      const ticks = F.linearTicks(view.range[0], view.range[1], Math.min(12, Math.max(2, Math.floor((state.wide - state.left) / 64))), true);
      for (const t of ticks) {
        const x = Math.round(toX(t)) + 0.5;
        pen.strokeStyle = ink.grid;
        pen.beginPath();
        pen.moveTo(x, axisHeight - 4);
        pen.lineTo(x, state.high);
        pen.stroke();
        pen.fillStyle = ink.soft;
        const text = F.tick(t, ticks.step, view.range[1]);
        const half = pen.measureText(text).width / 2;
        if (x + half < state.wide) pen.fillText(text, Math.max(x, half + 1), axisHeight - 9);
      }
    }
    const top = (i) => axisHeight + i * state.height - scroll.scrollTop;
    function rowsInSight(ink) {
      const first = Math.floor(scroll.scrollTop / state.height);
      const last = Math.min(state.rows.length - 1, Math.ceil((scroll.scrollTop + state.high) / state.height));
      const high = state.height - (state.height >= 6 ? 2 : state.height >= 3 ? 0.6 : 0);
      clipped(state.left, () => { for (let i = first; i <= last; i++) row(state.rows[i], top(i), high, ink); });
      if (state.left < 20) return;
      pen.fillStyle = ink.soft;
      pen.font = Math.min(12, Math.max(9, high - 3)) + 'px ' + ink.font;
      pen.textAlign = 'left';
      clipped(0, () => {
        for (let i = first; i <= last; i++) pen.fillText(fitText(state.rows[i].name, state.left - 14), 4, top(i) + high / 2 + Math.min(4, high / 3.4));
      });
    }
    function clipped(left, work) {
      pen.save();
      pen.beginPath();
      pen.rect(left, axisHeight, state.wide - left - 8, state.high);
      pen.clip();
      work();
      pen.restore();
    }
    function row(r, y, high, ink) {
      const thin = state.height >= 8 ? Math.max(3, Math.round(high * 0.35)) : high;
      pen.fillStyle = ink.wait;
      span(r.from, r.to, y + (high - thin) / 2, thin);
      for (let k = 0; k < r.bars.length; k += 3) bar(r.bars[k], r.bars[k + 1], r.bars[k + 2], y, high, ink);
      if (!r.failed) return;
      pen.fillStyle = ink.bad;
      pen.fillRect(toX(r.to) - 1.5, y, 3, high);
    }
    function span(from, to, y, high) {
      const a = Math.max(toX(from), state.left - 2);
      const b = Math.min(toX(to), state.wide + 2);
      if (b < state.left - 1 || a > state.wide) return 0;
      pen.fillRect(a, y, Math.max(b - a, 0.8), high);
      return b - a;
    }
    function bar(from, to, weight, y, high, ink) {
      const share = Math.log2(Math.max(1, weight)) / Math.max(1, Math.log2(Math.max(2, options.heaviest)));
      const color = mix(ink.ramp, share);
      pen.fillStyle = color.css;
      const width = span(from, to, y, high);
      if (high < 12) return;
      const text = String(weight);
      if (width < 8 + text.length * 7) return;
      pen.fillStyle = color.light ? '#10202e' : '#ffffff';
      pen.font = '600 10.5px ' + ink.font;
      pen.textAlign = 'left';
      pen.fillText(text, Math.max(toX(from), state.left) + 4, y + high / 2 + 4);
    }
    function fitText(text, room) {
      if (pen.measureText(text).width <= room) return text;
      let cut = text.length;
      while (cut > 1 && pen.measureText(text.slice(0, cut) + '…').width > room) cut = Math.floor(cut * 0.9);
      return text.slice(0, cut) + '…';
    }

    // ---- The pointer.

    const rowAt = (y) => {
      const i = Math.floor((y - axisHeight + scroll.scrollTop) / state.height);
      return y < axisHeight || i >= state.rows.length ? -1 : i;
    };
    function hover(i, x, clientX, clientY) {
      if (i !== state.hover) { state.hover = i; paint(); }
      if (i < 0) F.hideTip();
      else F.showTip(clientX, clientY, options.explain(state.rows[i], toTime(x)));
    }
    canvas.addEventListener('pointermove', (e) => {
      const box = canvas.getBoundingClientRect();
      const x = e.clientX - box.left;
      scroll.classList.toggle('brushing', e.clientY - box.top < axisHeight);
      if (state.brush) {
        state.brush.to = Math.min(Math.max(x, state.left), state.wide - 10);
        paint();
        return;
      }
      if (state.drag) {
        const share = (state.drag.x - x) / (state.wide - state.left - 10);
        state.drag.x = x;
        if (share) view.pan(share);
        return;
      }
      hover(rowAt(e.clientY - box.top), x, e.clientX, e.clientY);
    });
    canvas.addEventListener('pointerdown', (e) => {
      if (e.button !== 0) return;
      const box = canvas.getBoundingClientRect();
      const x = e.clientX - box.left;
      if (e.clientY - box.top < axisHeight) state.brush = { from: Math.max(x, state.left), to: Math.max(x, state.left) };
      else if (view.zoomed()) state.drag = { x };
      else return;
      canvas.setPointerCapture(e.pointerId);
      scroll.classList.toggle('dragging', Boolean(state.drag));
      F.hideTip();
    });
    const drop = () => {
      const { brush, drag } = state;
      state.brush = state.drag = null;
      if (brush && Math.abs(brush.to - brush.from) > 5) view.set(toTime(Math.min(brush.from, brush.to)), toTime(Math.max(brush.from, brush.to)));
      if (!drag) return paint();
      scroll.classList.remove('dragging');
      layout();
    };
    canvas.addEventListener('pointerup', drop);
    canvas.addEventListener('pointercancel', drop);
    canvas.addEventListener('pointerleave', () => hover(-1));
    canvas.addEventListener('dblclick', view.reset);
    scroll.addEventListener('scroll', () => { state.hover = -1; F.hideTip(); draw(); });
    scroll.addEventListener('wheel', (e) => {
      if (e.ctrlKey || e.metaKey) {
        view.zoom(Math.exp(e.deltaY * 0.004), toTime(e.clientX - canvas.getBoundingClientRect().left));
      } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY) && view.zoomed()) view.pan(e.deltaX / state.wide);
      else return;
      e.preventDefault();
    }, { passive: false });
    scroll.addEventListener('keydown', (e) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[e.key];
      if (step && state.rows.length) choose(Math.min(Math.max(state.hover + step, 0), state.rows.length - 1));
      else if (e.key === 'ArrowLeft') view.pan(-0.1);
      else if (e.key === 'ArrowRight') view.pan(0.1);
      else if (e.key === '+' || e.key === '=') view.zoom(0.5);
      else if (e.key === '-') view.zoom(2);
      else if (e.key === '0') view.reset();
      else if (e.key === 'Escape') hover(-1);
      else return;
      e.preventDefault();
    });
    scroll.addEventListener('blur', () => hover(-1));
    function choose(i) {
      const above = i * state.height;
      if (above < scroll.scrollTop) scroll.scrollTop = above;
      const below = above + state.height + axisHeight - state.high;
      if (below > scroll.scrollTop) scroll.scrollTop = below;
      const box = canvas.getBoundingClientRect();
      const r = state.rows[i];
      const x = Math.min(Math.max(toX(r.from), state.left), state.wide - 20);
      // Scrolling clears the mark; the choice comes after it.
      requestAnimationFrame(() => hover(i, x, box.left + x, box.top + top(i)));
    }

    layout();
    F.onResize(element, layout);
    view.on((what) => { if (what === 'range') { if (state.drag) draw(); else layout(); } });
    const repaint = () => { state.ink = null; draw(); };
    for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', repaint);
    return {
      setRows(rows) { state.all = rows; state.hover = -1; layout(); },
      setHeight(mode) { state.mode = mode; layout(); },
      redraw: repaint,
    };
  };

  function parseColor(text) {
    const parts = (text.match(/[\d.]+/g) || []).map(Number);
    return parts.length >= 3 ? parts.slice(0, 3) : [136, 136, 136];
  }
  function mix(ramp, share) {
    const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
    const i = Math.min(Math.floor(at), ramp.length - 2);
    const c = ramp[i].map((v, k) => Math.round(v + (ramp[i + 1][k] - v) * (at - i)));
    return { css: `rgb(${c[0]},${c[1]},${c[2]})`, light: c[0] * 0.3 + c[1] * 0.59 + c[2] * 0.11 > 140 };
  }
})(fairway);
