// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Map: a large cluster at one look: a tile for each node, a cell for each GPU. It is
// painted, because thousands of elements would keep the browser busy. Arrow keys
// move, Enter opens the job, Escape hides the card; a live region speaks.
import { jobColour } from './colour.js';
import { h, keep, show } from './dom.js';
import { number, percent, plural } from './format.js';
import { gpuCard, nodeState, spoken } from './grid.js';
import { natural } from './sortable.js';
import { hideTip, showTip, swatch } from './tip.js';

const across = 4; // cells of a tile beside each other
const largest = 14; // pixels of a cell
const smallest = 4;
const named = 12; // tenants that the key names

// The ways to colour a cell: of its holder, or by what is measured.
export const colourings = { job: 'Job', tenant: 'Tenant', use: 'Utilisation' };
const tenantColour = (tenant = '') => jobColour({ id: tenant, app: tenant });

export function clusterMap() {
  const canvas = h('canvas', { class: 'map', tabindex: 0, role: 'application', 'aria-roledescription': 'map of GPUs' });
  const probe = h('span', { hidden: true });
  const voice = h('p', { class: 'sr', 'aria-live': 'polite' });
  const key = h('div', { class: 'legend' });
  const element = keep(h('div', { class: 'map-box' }, canvas, key, probe, voice));
  let [colours, theme] = [new Map(), ''];
  let shown = null; // {nodes, jobs, now, by}
  let tiles = []; // {node, x, y}
  let size = largest;
  let at = null; // [tile, cell] of the keyboard

  // css resolves a colour of the style sheet to one that a canvas knows.
  function css(colour) {
    if (!colours.has(colour)) {
      probe.style.color = colour;
      colours.set(colour, getComputedStyle(probe).color);
    }
    return colours.get(colour);
  }
  const gap = () => (size > 6 ? 2 : 1);
  const pitch = () => size + gap();
  const rowsOf = (n) => Math.ceil(n / across);

  // layout finds the largest cells with which all tiles fit.
  function layout(width) {
    const most = Math.max(1, ...shown.nodes.map((n) => rowsOf(n.slots.length)));
    for (size = largest; ; size--) {
      const apart = Math.ceil(size / 2);
      const [wide, high] = [across * pitch() + apart, most * pitch() + apart];
      const row = Math.max(1, Math.floor((width - 2) / wide));
      const rows = Math.ceil(shown.nodes.length / row);
      tiles = shown.nodes.map((node, i) => ({ node, x: 1 + (i % row) * wide, y: 1 + Math.floor(i / row) * high, i }));
      if (size === smallest || rows * high <= (width < 640 ? 1000 : 560)) return { row, high: Math.ceil(rows * high) };
    }
  }
  let row = 1;
  function paint() {
    const width = element.clientWidth;
    if (!shown || !width) return;
    const now = (document.documentElement.dataset.theme || '') + matchMedia('(prefers-color-scheme: dark)').matches;
    if (now !== theme) [colours, theme] = [new Map(), now];
    const plan = layout(width);
    row = plan.row;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = plan.high * scale;
    canvas.style.height = plan.high + 'px';
    const g = canvas.getContext('2d');
    g.scale(scale, scale);
    const [free, bad, warn, line] = ['var(--grid)', 'var(--bad-text)', 'var(--s4)', 'var(--text)'].map(css);
    for (const tile of tiles) {
      const state = nodeState(tile.node);
      tile.node.slots.forEach((slot, c) => {
        const [x, y] = [tile.x + (c % across) * pitch(), tile.y + Math.floor(c / across) * pitch()];
        const [fill, strength] = colourOf(slot);
        g.globalAlpha = state === 'down' ? 0.35 : 1;
        if (strength < 1) {
          g.fillStyle = free;
          g.fillRect(x, y, size, size);
        }
        if (!strength) return;
        g.globalAlpha *= strength;
        g.fillStyle = fill;
        g.fillRect(x, y, size, size);
      });
      g.globalAlpha = 1;
      if (state === 'ready') continue;
      g.strokeStyle = state === 'down' ? bad : warn;
      g.strokeRect(tile.x - 0.5, tile.y - 0.5, across * pitch() - gap() + 1, rowsOf(tile.node.slots.length) * pitch() - gap() + 1);
    }
    if (at && document.activeElement === canvas) {
      const [x, y] = corner(at);
      g.strokeStyle = line;
      g.lineWidth = 2;
      g.strokeRect(x - 1, y - 1, size + 2, size + 2);
    }
  }
  const corner = ([t, c]) => [tiles[t].x + (c % across) * pitch(), tiles[t].y + Math.floor(c / across) * pitch()];

  // colourOf returns the colour of a slot and how strong it is; 0: free.
  function colourOf(slot) {
    if (shown.by === 'use') return slot.use ? [css('var(--busy)'), Math.max(0.06, slot.use.util)] : ['', 0];
    const id = slot.jobs?.[0];
    if (!id) return ['', 0];
    if (!shown.colours.has(id)) {
      const job = shown.jobs.get(id) || { id };
      shown.colours.set(id, css(shown.by === 'tenant' ? tenantColour(job.tenant) : jobColour(job)));
    }
    return [shown.colours.get(id), 1];
  }
  // explain says what the colours and the frames are.
  function explain() {
    const what = (mark, ...text) => h('span', {}, mark, ...text);
    const tenants = [...new Set([...shown.jobs.values()].filter((j) => j.held?.length).map((j) => j.tenant))].sort(natural);
    const held = {
      job: () => what(null, 'A colour for each job or app'), use: () => what(swatch('var(--busy)', 'block'), 'busy'),
      tenant: () => [tenants.slice(0, named).map((t) => what(swatch(tenantColour(t), 'block'), t || 'no tenant')), tenants.length > named ? what(null, 'and ' + number(tenants.length - named) + ' more') : null],
    }[shown.by]();
    const states = {};
    for (const node of shown.nodes) states[nodeState(node)] = (states[nodeState(node)] || 0) + 1;
    show(key, held, what(swatch('var(--grid)', 'block'), shown.by === 'use' ? 'idle' : 'free'),
      Object.keys(states).sort().filter((state) => state !== 'ready').map((state) => what(swatch(state === 'down' ? 'var(--bad-text)' : 'var(--s4)', 'frame'), state, ': ', plural(states[state], 'node'))));
  }
  const heldOn = (slot) => (slot.jobs || []).map((j) => shown.jobs.get(j) || { id: j });

  function find(e) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    const tile = tiles.findLast((t) => t.x <= x && t.y <= y); // the rows come one after the other
    if (!tile) return null;
    const c = Math.floor((x - tile.x) / pitch()) + across * Math.floor((y - tile.y) / pitch());
    return (x - tile.x) / pitch() < across && tile.node.slots[c] ? [tile.i, c] : null;
  }
  function card([t, c], where) {
    const { node } = tiles[t];
    showTip(where, gpuCard(node, node.slots[c], heldOn(node.slots[c]), shown.now));
  }
  function open([t, c]) {
    const id = tiles[t].node.slots[c].jobs?.[0];
    if (id) location.hash = '#/jobs/' + encodeURIComponent(id);
  }
  canvas.onpointermove = (e) => { const hit = find(e); canvas.style.cursor = hit ? 'pointer' : ''; if (hit) card(hit, { x: e.clientX, y: e.clientY }); else hideTip(); };
  canvas.onpointerleave = hideTip;
  canvas.onclick = (e) => { const hit = find(e); if (hit) open(hit); };
  canvas.onfocus = () => { at ||= [0, 0]; paint(); };
  canvas.onblur = () => { hideTip(); paint(); };
  canvas.onkeydown = (e) => {
    if (!tiles.length || !at) return;
    if (e.key === 'Escape') { hideTip(); return; }
    if (e.key === 'Enter') { open(at); return; }
    const [t, c] = at;
    const last = (n) => tiles[n].node.slots.length - 1;
    const to = {
      ArrowLeft: c > 0 ? [t, c - 1] : [t - 1, Infinity], ArrowRight: c < last(t) ? [t, c + 1] : [t + 1, 0],
      ArrowUp: c >= across ? [t, c - across] : [t - row, c], ArrowDown: c + across <= last(t) ? [t, c + across] : [t + row, c % across], Home: [0, 0], End: [tiles.length - 1, Infinity],
    }[e.key];
    if (!to || !tiles[to[0]]) return;
    e.preventDefault();
    at = [to[0], Math.min(to[1], last(to[0]))];
    paint();
    const box = canvas.getBoundingClientRect();
    const [x, y] = corner(at);
    const { node } = tiles[at[0]];
    voice.textContent = spoken(node, node.slots[at[1]], heldOn(node.slots[at[1]]));
    card(at, { x: box.left + x + size, y: box.top + y });
  };
  let width = 0;
  const watcher = new ResizeObserver(() => { if (element.clientWidth !== width) { width = element.clientWidth; paint(); } });
  watcher.observe(element);
  const repaint = new MutationObserver(() => { shown?.colours.clear(); paint(); });
  repaint.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  return {
    element,
    draw(next) {
      shown = { ...next, nodes: inOrder(next.nodes), colours: new Map() };
      if (at && !shown.nodes[at[0]]?.slots[at[1]]) at = null;
      const busy = shown.nodes.flatMap((n) => n.slots).filter((s) => s.jobs?.length).length;
      canvas.setAttribute('aria-label', number(shown.nodes.length) + ' nodes; ' + percent(busy / Math.max(1, shown.nodes.reduce((n, x) => n + x.slots.length, 0))) + ' of the GPUs are held. Arrow keys move, Enter opens the job.');
      explain();
      paint();
    },
    close() { watcher.disconnect(); repaint.disconnect(); },
  };
}

// inOrder puts nodes of one rack beside each other.
const inOrder = (nodes) => nodes.map((n) => [(n.rack || '') + '\u0000' + n.name, n]).sort(([a], [b]) => natural(a, b)).map(([, n]) => n);
