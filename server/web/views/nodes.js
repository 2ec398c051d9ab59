// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Nodes: the machines and how busy each of their GPUs is.
import { get, put } from '../api.js';
import { confirm } from '../dialog.js';
import { h } from '../dom.js';
import { bytes, moment, ms, number, percent, plural, title } from '../format.js';
import { kindOf, meter, nodeState } from '../grid.js';
import { holding, jobLink } from '../jobs.js';
import { fill, panel } from '../panel.js';

export function nodesView({ state, refreshSoon }) {
  const list = panel('Nodes', { plain: true });
  let named = new Map(); // job names by id
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Nodes'), list.element);

  async function refresh() {
    const names = get(['jobs'], { state: holding, limit: 1000 }).then((p) => new Map((p.jobs || []).map((j) => [j.id, title(j)])), () => new Map());
    await fill(list, Promise.all([get(['nodes']), names]), ([x, known]) => {
      named = known;
      const nodes = x.nodes || [];
      list.title('Nodes', h('span', { class: 'count' }, number(nodes.length)));
      if (nodes.length) list.show(h('div', { class: 'nodes' }, nodes.map(card)));
      else list.empty('No nodes yet.', 'The daemon detects GPUs when it starts; without GPUs it offers CPU slots.');
    });
  }
  function card(node) {
    const now = nodeState(node);
    const facts = [node.gpus + ' × ' + kindOf(node), node.gpu_memory ? bytes(node.gpu_memory) + ' each' : null, node.cpus ? plural(node.cpus, 'CPU') : null,
      node.memory ? bytes(node.memory) + ' memory' : null, node.rack ? 'rack ' + node.rack : null].filter(Boolean);
    return h('article', { class: 'card node', key: node.name, 'aria-label': 'Node ' + node.name },
      h('div', { class: 'card-head' }, h('div', {}, h('h3', {}, node.name, ' ', h('span', { class: 'badge ' + now }, now)), h('p', { class: 'sub' }, facts.join(' · '))),
        state.isAdmin() && now !== 'down' ? cordon(node, now === 'cordoned') : null),
      accused(node),
      h('div', { class: 'slots' }, node.slots.map((slot) => gpu(node, slot))));
  }
  // accused says what is held against a node on which jobs fail.
  function accused(node) {
    const q = node.quarantine;
    if (!q) return null;
    const out = nodeState(node) === 'cordoned';
    return h('p', { class: 'callout' + (out ? ' bad' : '') }, h('b', {}, out ? 'Quarantined until ' + moment(ms(q.until)) + ': ' : 'Looks faulty but stays in use: '), q.why);
  }
  function cordon(node, cordoned) {
    const to = cordoned ? 'ready' : 'cordoned';
    return h('button', {
      type: 'button', class: 'quiet',
      onclick: () => confirm({
        title: cordoned ? 'Take ' + node.name + ' back?' : 'Cordon ' + node.name + '?', yes: cordoned ? 'Uncordon' : 'Cordon', no: 'Cancel',
        text: cordoned ? 'New jobs may start on it again.' : 'Running jobs stay; no new jobs start until it is uncordoned.',
        act: async () => { await put(['nodes', node.name], { state: to }); refreshSoon(); },
      }),
    }, cordoned ? 'Uncordon' : 'Cordon');
  }
  function gpu(node, slot) {
    const use = slot.use;
    const strangers = (use?.processes || []).filter((p) => !p.job);
    return h('div', { class: 'slot', key: slot.index },
      h('div', { class: 'slot-head' }, h('b', {}, (kindOf(node) === 'CPU slot' ? 'Slot ' : 'GPU ') + slot.index),
        h('span', { class: 'slot-jobs' }, (slot.jobs || []).length ? slot.jobs.map((j, i) => [i ? ', ' : '', jobLink(j, named.get(j))]) : h('span', { class: 'soft' }, nodeState(node) === 'down' ? '' : 'free')),
        use && (use.power_w || use.temp_c) ? h('span', { class: 'sub' }, [use.power_w ? number(use.power_w) + ' W' : null, use.temp_c ? number(use.temp_c) + ' °C' : null].filter(Boolean).join(' · ')) : null),
      use ? [meter('busy', use.util, percent(use.util)), use.memory_total ? meter('memory', use.memory_used / use.memory_total, bytes(use.memory_used) + ' / ' + bytes(use.memory_total)) : null] : h('p', { class: 'sub' }, nodeState(node) === 'down' ? 'not there' : 'not measured'),
      strangers.length ? h('p', { class: 'sub warn-text' }, plural(strangers.length, 'process', 'processes') + ' not started by Fairway: ' + strangers.slice(0, 4).map((p) => p.pid + ' (' + bytes(p.memory) + ')').join(', ')) : null);
  }
  return { title: 'Nodes', element, refresh };
}
