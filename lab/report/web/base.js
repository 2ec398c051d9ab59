// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Base: the one namespace of the page, elements, numbers for people, state
// that several charts share, the tooltip, and the frame of a page.
'use strict';
const fairway = {};

window.addEventListener('error', () => {
  document.body.dataset.errors = String(Number(document.body.dataset.errors || 0) + 1);
});

(function (F) {
  // ---- Elements. Text only ever enters as text nodes, never as markup.

  function build(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
      else if (key === 'vars') for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
      else node.setAttribute(key, value === true ? '' : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child.nodeType ? child : document.createTextNode(String(child)));
    }
    return node;
  }
  F.html = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
  F.svg = (tag, attributes, ...children) =>
    build(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

  // ---- Numbers.

  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const dash = '–';

  // number prints up to `digits` significant digits, and thousands apart.
  F.number = function (v, digits = 3) {
    if (v === null || v === undefined || !Number.isFinite(v)) return dash;
    const a = Math.abs(v);
    if (a >= 10 ** (digits - 1) || Number.isInteger(v)) return Math.round(v).toLocaleString('en-US');
    if (a < 1e-4) return a === 0 ? '0' : v.toExponential(1);
    return String(Number(v.toPrecision(digits)));
  };
  // fixed is number with the zeros kept, for columns.
  F.fixed = function (v, digits = 3) {
    if (v === null || v === undefined || !Number.isFinite(v)) return dash;
    const a = Math.abs(v);
    if (a >= 10 ** (digits - 1)) return Math.round(v).toLocaleString('en-US');
    const before = a < 1 ? 1 : Math.floor(Math.log10(a)) + 1;
    return v.toFixed(Math.max(0, digits - before));
  };
  F.unitOf = function (seconds) {
    const a = Math.abs(seconds);
    if (a >= 2 * 86400) return units[0];
    if (a >= 3600) return units[1];
    if (a >= 60) return units[2];
    return units[3];
  };
  F.duration = function (seconds, unit) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return dash;
    if (seconds === 0) return '0 s';
    if (!unit && Math.abs(seconds) < 1) return F.number(seconds * 1000, 2) + ' ms';
    const [name, size] = unit || F.unitOf(seconds);
    return (unit ? F.fixed : F.number)(seconds / size) + ' ' + name;
  };
  // commonUnit returns the unit that suits all the values, or null when they
  // are too far apart for one.
  F.commonUnit = function (values) {
    const real = values.filter((v) => v !== null && Number.isFinite(v) && v > 0);
    if (!real.length) return null;
    const low = Math.min(...real);
    const unit = F.unitOf(Math.max(...real));
    if (low / unit[1] >= 0.095) return unit;
    const smaller = F.unitOf(low);
    return Math.max(...real) / smaller[1] < 200 ? smaller : null;
  };
  // moment prints a point in time: "2 d 7 h".
  F.moment = function (t) {
    const at = units.findIndex(([, size]) => t >= size);
    if (at < 0 || at === units.length - 1) return F.duration(t);
    const whole = Math.floor(t / units[at][1]);
    const rest = Math.floor((t - whole * units[at][1]) / units[at + 1][1]);
    return `${whole} ${units[at][0]}` + (rest ? ` ${rest} ${units[at + 1][0]}` : '');
  };
  // tick prints a point in time on an axis: step is how far its ticks are
  // apart and decides how fine it is, most is the end of the axis.
  F.tick = function (t, step, most) {
    const two = (v) => String(Math.floor(v)).padStart(2, '0');
    const as = (unit) => F.number(Number((t / unit).toFixed(6)), 6);
    const clock = (rest) => `${Math.floor(rest / 3600)}:${two(rest / 60 % 60)}` + (step < 60 ? ':' + two(rest % 60) : '');
    if (t < step / 1e6) return '0';
    if (most >= 2 * 86400) {
      if (step >= 43200) return as(86400) + ' d';
      const days = Math.floor(t / 86400 + 1e-9);
      const rest = Math.max(0, t - days * 86400);
      if (rest < step / 1e3) return days + ' d';
      return (days ? days + ' d ' : '') + (step >= 3600 ? Math.round(rest / 3600) + ' h' : clock(rest + 1e-6));
    }
    if (most >= 7200) return step >= 1800 ? as(3600) + ' h' : clock(t + 1e-6);
    if (most >= 120) return step >= 30 ? as(60) + ' min' : `${Math.floor(t / 60)}:${two(t % 60 + 1e-6)} min`;
    return as(1) + ' s';
  };
  F.gpuTime = (seconds) => (seconds === null || !Number.isFinite(seconds) ? dash : F.number(seconds / 3600) + ' GPU h');
  F.percent = function (v, digits = 3) {
    if (v === null || v === undefined || !Number.isFinite(v)) return dash;
    if (v === 0 || v === 1) return v * 100 + ' %';
    const p = v * 100;
    return (p > 99.9 && p < 100 ? p.toFixed(2) : F.number(p, digits)) + ' %';
  };
  F.plural = (n, one, many) => F.number(n) + ' ' + (n === 1 ? one : many || one + 's');

  // ---- State that several charts share.

  function signal(target) {
    const listeners = [];
    target.on = (f) => listeners.push(f);
    return (what) => listeners.forEach((f) => f(what));
  }
  // visibility remembers which series are hidden, by name.
  F.visibility = function () {
    const hidden = new Set();
    const self = { shown: (name) => !hidden.has(name) };
    const tell = signal(self);
    self.toggle = (name) => { if (!hidden.delete(name)) hidden.add(name); tell('shown'); };
    return self;
  };
  // view is a window on an axis, and where on it the reader points.
  F.view = function (from, to) {
    const full = [from, to > from ? to : from + 1];
    const self = { full, range: full.slice(), cursor: null };
    const tell = signal(self);
    self.zoomed = () => self.range[0] > full[0] || self.range[1] < full[1];
    self.set = function (a, b) {
      const least = (full[1] - full[0]) * 1e-5;
      const width = Math.min(Math.max(b - a, least), full[1] - full[0]);
      const start = Math.min(Math.max(a, full[0]), full[1] - width);
      self.range = [start, start + width];
      tell('range');
    };
    self.zoom = function (factor, around) {
      const [a, b] = self.range;
      const c = around === undefined ? (a + b) / 2 : around;
      self.set(c - (c - a) * factor, c + (b - c) * factor);
    };
    self.pan = (share) => { const d = share * (self.range[1] - self.range[0]); self.set(self.range[0] + d, self.range[1] + d); };
    self.reset = () => self.set(full[0], full[1]);
    self.point = (x) => { if (x !== self.cursor) { self.cursor = x; tell('cursor'); } };
    return self;
  };

  // ---- The tooltip: one for the page.

  const tip = F.html('div', { class: 'tip', role: 'status', hidden: true });
  document.body.append(tip);
  F.showTip = function (x, y, ...content) {
    tip.replaceChildren(...content.flat(Infinity).filter(Boolean));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const high = document.documentElement.clientHeight;
    let left = x + 16;
    if (left + box.width > wide - 8) left = x - box.width - 16;
    const top = Math.min(Math.max(8, y - box.height / 2), Math.max(8, high - box.height - 8));
    tip.style.left = Math.max(8, left) + 'px';
    tip.style.top = top + 'px';
  };
  F.hideTip = () => { tip.hidden = true; };
  // tipTable is a tooltip's body: lines of [mark or null, name, value].
  F.tipTable = (lines) => F.html('table', {}, lines.map(([mark, name, value]) =>
    F.html('tr', {}, F.html('td', {}, mark), F.html('td', {}, name), F.html('td', {}, value))));
  F.swatch = (series) => F.html('i', { class: 'swatch' + (series.dash ? ' dashed' : '') + (series.block ? ' block' : ''), vars: { '--c': series.color } });

  // choice is a row of buttons; one is on.
  F.choice = function (label, options, chosen, pick) {
    const buttons = options.map(([value, text]) => F.html('button', {
      type: 'button', 'aria-pressed': String(value === chosen),
      onclick: () => {
        buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(options[i][0] === value)));
        pick(value);
      },
    }, text));
    return F.html('div', { class: 'choice', role: 'group', 'aria-label': label }, buttons);
  };
  // onResize calls f when the width of the element changes, not at first.
  F.onResize = function (element, f) {
    let last = element.clientWidth;
    new ResizeObserver(() => {
      if (element.clientWidth === last || !element.clientWidth) return;
      last = element.clientWidth;
      f();
    }).observe(element);
  };

  // ---- The frame of a page.

  F.section = (id, title, ...content) =>
    F.html('section', { id, 'aria-labelledby': id + '-title' }, F.html('h2', { id: id + '-title' }, title), content);
  // themeButton switches between light and dark, then calls changed.
  F.themeButton = function (changed) {
    const dark = () => (document.documentElement.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
    const button = F.html('button', { type: 'button', class: 'quiet theme' });
    const name = () => { button.textContent = dark() ? 'Light' : 'Dark'; button.setAttribute('aria-label', button.textContent + ' colours'); };
    button.addEventListener('click', () => { document.documentElement.dataset.theme = dark() ? 'light' : 'dark'; name(); changed(); });
    name();
    return button;
  };
  // terms is the end of a page: what its words mean, as pairs.
  F.terms = (pairs, ...more) => F.html('footer', {}, F.html('details', {}, F.html('summary', {}, 'What the figures mean'),
    F.html('dl', {}, pairs.map(([k, v]) => [F.html('dt', {}, k), F.html('dd', {}, v)]))), more,
  F.html('p', {}, 'Made by Fairway. The page needs no network.'));
})(fairway);
