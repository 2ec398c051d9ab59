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

// gpuGrid describes the grid. jobs: by id; at: [node, gpu] that has the focus
// among the cells; move: called with the new one.
export function gpuGrid({ nodes, jobs, now, at, move }) {
  const sizes = nodes.map((n) => n.slots.length);
  const row = Math.min(at[0], nodes.length - 1);
  const col = Math.min(at[1], (sizes[row] || 1) - 1);
  const go = (e, r, c) => {
    const to = { ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], Home: [r, 0], End: [r, sizes[r] - 1] }[e.key];
    if (e.key === 'Escape') { hideTip(); return; }
    if (!to || to[0] < 0 || to[0] >= nodes.length || to[1] < 0) return;
    e.preventDefault();
    to[1] = Math.min(to[1], sizes[to[0]] - 1);
    move(to);
    document.getElementById('gpu-' + to.join('-'))?.focus();
  };
  const cols = Math.min(16, Math.max(4, ...sizes));
  return h('div', { class: 'gpus', vars: { '--cols': String(cols) }, role: 'grid', 'aria-label': 'GPUs by node; arrow keys move, Enter opens the job' },
    nodes.map((node, r) => h('div', { class: 'gpu-row', role: 'row', key: node.name },
      h('div', { class: 'gpu-node', role: 'rowheader' }, h('b', {}, node.name),
        h('span', {}, node.gpus + ' × ' + kindOf(node), nodeState(node) === 'ready' ? null : h('em', { class: 'badge ' + nodeState(node) }, nodeState(node)))),
      h('div', { class: 'gpu-cells', role: 'presentation' }, node.slots.map((slot, c) => cell({
        node, slot, jobs, now, id: 'gpu-' + r + '-' + c, current: r === row && c === col, key: (e) => go(e, r, c), focus: () => move([r, c]),
      }))))));
}

// kindOf says what the slots of a node are.
export const kindOf = (node) => (!node.gpu_type || node.gpu_type === 'cpu' ? 'CPU slot' : String(node.gpu_type).toUpperCase());

function cell({ node, slot, jobs, now, id, current, key, focus }) {
  const held = (slot.jobs || []).map((j) => jobs.get(j) || { id: j });
  const use = slot.use;
  const card = (at) => showTip(at, gpuCard(node, slot, held, now));
  return h('a', {
    id, key: slot.index, role: 'gridcell', class: 'gpu' + (held.length ? '' : ' free') + (nodeState(node) === 'down' ? ' down' : ''), tabindex: current ? 0 : -1,
    href: held.length ? '#/jobs/' + encodeURIComponent(held[0].id) : null,
    'aria-label': spoken(node, slot, held),
    onpointermove: (e) => { if (e.pointerType !== 'touch') card({ x: e.clientX, y: e.clientY }); },
    onpointerleave: hideTip, onblur: hideTip, onkeydown: key,
    onfocus: (e) => { const b = e.target.getBoundingClientRect(); focus(); card({ x: b.right, y: b.top + b.height / 2, beside: b.left }); },
  },
  h('span', { class: 'gpu-fill' }, held.map((job) => h('i', { key: job.id, vars: { '--c': jobColour(job), 'flex-grow': String(milliOn(job, node)) } }))),
  h('span', { class: 'gpu-index' }, slot.index),
  h('span', { class: 'gpu-name' }, held.length === 0 ? idle(node) : held.length === 1 ? title(held[0]) : held.length + ' jobs'),
  use ? h('span', { class: 'gpu-use' }, h('i', { vars: { width: Math.round(use.util * 100) + '%' } })) : null);
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
