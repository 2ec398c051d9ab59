// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Grid: the cluster, one row for each node and one cell for each GPU, coloured
// by the job that holds it. Arrow keys move, Enter opens the job, Escape hides
// the card.
import { h } from './dom.js';
import { jobColour } from './colour.js';
import { ago, bytes, ms, number, percent, title } from './format.js';
import { hideTip, showTip, swatch } from './tip.js';

const stateNames = ['ready', 'cordoned', 'down'];

// nodeState names the state of a node.
export const nodeState = (node) => (!node.up ? 'down' : stateNames[node.state] || node.state || 'ready');

// idle says how a GPU stands that no job holds: it is free only where jobs may start.
const idle = (node) => (nodeState(node) === 'ready' ? 'free' : nodeState(node));

// gpuGrid describes the grid. latest: returns the nodes, the jobs by id and the
// time that are known when it is asked; at: [node, gpu] that has the focus among
// the cells; move: called with the new one.
export function gpuGrid({ latest, at, move }) {
  const { nodes, jobs } = latest();
  const row = Math.min(at[0], nodes.length - 1);
  const col = Math.min(at[1], (nodes[row].slots.length || 1) - 1);
  const go = (e, r, c) => {
    if (e.key === 'Escape') { hideTip(); return; }
    const sizes = latest().nodes.map((n) => n.slots.length);
    const to = { ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], Home: [r, 0], End: [r, sizes[r] - 1] }[e.key];
    if (!to || to[0] < 0 || to[0] >= sizes.length || to[1] < 0) return;
    e.preventDefault();
    to[1] = Math.min(to[1], sizes[to[0]] - 1);
    move(to);
    document.getElementById('gpu-' + to.join('-'))?.focus();
  };
  const cols = Math.min(16, Math.max(4, ...nodes.map((n) => n.slots.length)));
  return h('div', { class: 'gpus', vars: { '--cols': String(cols) }, role: 'grid', 'aria-label': 'GPUs by node; arrow keys move, Enter opens the job' },
    nodes.map((node, r) => {
      const current = r === row ? col : -1;
      const cells = node.slots.map((slot) => face(node, slot, jobs));
      return h('div', { class: 'gpu-row', role: 'row', key: node.name, sig: JSON.stringify([r, current, node.gpus, node.gpu_type, nodeState(node), cells]), fill: () => [
        h('div', { class: 'gpu-node', role: 'rowheader' }, h('b', {}, node.name),
          h('span', {}, node.gpus + ' × ' + kindOf(node), nodeState(node) === 'ready' ? null : h('em', { class: 'badge ' + nodeState(node) }, nodeState(node)))),
        h('div', { class: 'gpu-cells', role: 'presentation' }, cells.map((face, c) => cell({
          face, down: nodeState(node) === 'down', id: 'gpu-' + r + '-' + c, current: c === current, key: (e) => go(e, r, c), focus: () => move([r, c]),
          card: () => { const now = latest(); const n = now.nodes[r]; return gpuCard(n, n.slots[c], holders(n.slots[c], now.jobs), now.now); },
        })))] });
    }));
}

// kindOf says what the slots of a node are.
export const kindOf = (node) => (!node.gpu_type || node.gpu_type === 'cpu' ? 'CPU slot' : String(node.gpu_type).toUpperCase());

const holders = (slot, jobs) => (slot.jobs || []).map((j) => jobs.get(j) || { id: j });

// face is what a cell shows of a GPU.
function face(node, slot, jobs) {
  const held = holders(slot, jobs);
  return {
    index: slot.index, spoken: spoken(node, slot, held), util: slot.use ? Math.round(slot.use.util * 100) : null,
    name: held.length === 0 ? idle(node) : held.length === 1 ? title(held[0]) : held.length + ' jobs',
    held: held.map((job) => [job.id, jobColour(job), milliOn(job, node)]),
  };
}

function cell({ face, down, id, current, key, focus, card }) {
  const tip = (at) => showTip(at, card());
  return h('a', {
    id, key: face.index, role: 'gridcell', class: 'gpu' + (face.held.length ? '' : ' free') + (down ? ' down' : ''), tabindex: current ? 0 : -1,
    href: face.held.length ? '#/jobs/' + encodeURIComponent(face.held[0][0]) : null,
    'aria-label': face.spoken,
    onpointermove: (e) => { if (e.pointerType !== 'touch') tip({ x: e.clientX, y: e.clientY }); },
    onpointerleave: hideTip, onblur: hideTip, onkeydown: key,
    onfocus: (e) => { const b = e.target.getBoundingClientRect(); focus(); tip({ x: b.right, y: b.top + b.height / 2, beside: b.left }); },
  },
  h('span', { class: 'gpu-fill' }, face.held.map(([job, colour, milli]) => h('i', { key: job, vars: { '--c': colour, 'flex-grow': String(milli) } }))),
  h('span', { class: 'gpu-index' }, face.index),
  h('span', { class: 'gpu-name' }, face.name),
  face.util === null ? null : h('span', { class: 'gpu-use' }, h('i', { vars: { width: face.util + '%' } })));
}

const milliOn = (job, node) => (job.held || []).find((x) => x.node === node.name)?.milli || 1000;

export function spoken(node, slot, held) {
  const who = held.length ? held.map((j) => title(j)).join(' and ') : idle(node);
  return node.name + ', ' + kindOf(node) + ' ' + slot.index + ': ' + who + (slot.use ? ', ' + percent(slot.use.util) + ' busy' : '');
}

// gpuCard is what the card of a GPU says.
export function gpuCard(node, slot, held, now) {
  const use = slot.use;
  return h('div', { class: 'gpu-card' },
    h('b', {}, node.name + ' · ' + kindOf(node) + ' ' + slot.index),
    held.length ? held.map((job) => h('div', { class: 'gpu-job' }, h('p', {}, swatch(jobColour(job), 'block'), h('strong', {}, title(job))), facts([
      ['job', title(job) === job.id ? null : job.id],
      ['who', [job.user, job.tenant].filter(Boolean).join(' · ')],
      ['app', job.app && job.app !== job.id ? job.app : null],
      ['state', job.state],
      ['since', ago(ms(job.status?.since), now)],
      ['GPUs', job.held ? number(heldGPUs(job)) + (milliOn(job, node) < 1000 ? ' × ' + milliOn(job, node) / 1000 : '') : null],
      ['batch', job.last?.batch ? number(job.last.batch) : null],
    ]))) : h('p', {}, idle(node)),
    use ? [meter('utilisation', use.util, percent(use.util)),
      use.memory_total ? meter('memory', use.memory_used / use.memory_total, bytes(use.memory_used) + ' of ' + bytes(use.memory_total)) : null,
      facts([['power', use.power_w ? number(use.power_w) + ' W' : null], ['temperature', use.temp_c ? number(use.temp_c) + ' °C' : null]])] : h('p', { class: 'soft' }, 'utilisation not measured'));
}

const facts = (lines) => h('table', {}, h('tbody', {}, lines.filter(([, v]) => v).map(([k, v]) => h('tr', {}, h('td', {}), h('td', {}, k), h('td', {}, v)))));

// meter is a bar from 0 to 1 with words.
export const meter = (name, value, text) => h('div', { class: 'meter' },
  h('span', {}, name), h('span', { class: 'meter-track' }, h('i', { vars: { width: Math.round(Math.min(1, Math.max(0, value)) * 100) + '%' } })), h('span', {}, text));

// heldGPUs counts the GPUs a job holds.
export const heldGPUs = (job) => (job.held || []).reduce((n, x) => n + x.gpus.length, 0);
