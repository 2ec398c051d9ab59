// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Cluster: the nodes and their GPUs: who holds what since when, until when, and how
// busy they were and will be.
import { get, put } from '../api.js';
import { chart, sharedCursor } from '../chart.js';
import { forecast, gpuPanel } from '../cluster.js';
import { confirm } from '../dialog.js';
import { h } from '../dom.js';
import { ago, bytes, moment, ms, number, percent, plural, title } from '../format.js';
import { heldGPUs, kindOf, meter, nodeState } from '../grid.js';
import { holding, jobLink, stateBadge } from '../jobs.js';
import { fill, panel } from '../panel.js';
import { heads, sorted } from '../sortable.js';
import { choose, here } from '../url.js';

const ahead = 4 * 3600000; // milliseconds of the forecast
const cards = () => (matchMedia('(max-width: 640px)').matches ? 2 : 16); // nodes that are shown in full
const rowsShown = 100;
const nodesShown = 30;

export function clusterView({ state, refreshSoon }) {
  const { chosen } = here();
  let sort = chosen.get('sort') || 'free';
  let nodeSort = chosen.get('nodes') || 'name';
  let room = nodesShown;
  const cursor = sharedCursor();
  const gpus = gpuPanel('GPUs');
  const held = chart({ title: 'GPUs held, and expected', kind: 'step', whole: true, cursor, empty: 'No history yet: samples are taken while the daemon runs.' });
  const util = chart({ title: 'Mean GPU utilisation', yformat: percent, ymax: 1.02, cursor, empty: 'No utilisation measured yet.' });
  const plots = panel('Over time', { plain: true });
  const both = h('div', { class: 'charts' }, held.element, util.element);
  const holders = panel('Who holds what');
  const word = h('input', { type: 'search', placeholder: 'Node, type, rack or state', 'aria-label': 'Filter nodes', autocomplete: 'off', spellcheck: 'false', value: chosen.get('node') || '', oninput: () => { room = nodesShown; choose({ node: word.value.trim() }); refreshSoon(); } });
  const list = panel('Nodes', { part: [word] });
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Cluster'), gpus.element, plots.element, holders.element, list.element);

  async function refresh() {
    const asked = [get(['nodes']), get(['jobs'], { state: holding, limit: 1000 })];
    const rest = [get(['history']), get(['overview']), get(['jobs'], { state: ['waiting'], sort: 'submitted', limit: 200 })];
    await Promise.all([
      fill(gpus, Promise.all(asked), ([n, r]) => { gpus.draw(n.nodes || [], r.jobs || [], state.now()); drawNodes(n.nodes || [], r.jobs || []); }),
      fill(holders, asked[1], drawHolders),
      fill(list, asked[0], () => {}),
      fill(plots, Promise.all([...rest, asked[1]]), ([x, o, w, r]) => drawCharts(x.samples || [], o, w.jobs || [], r.jobs || [])),
    ]);
  }
  function drawCharts(samples, o, waiting, running) {
    const now = state.now();
    const at = (x) => ms(x.at);
    const next = forecast({ held: o.held, all: o.gpus, running, waiting, now, until: now + ahead });
    const first = samples.length ? at(samples[0]) : now - 60000;
    const range = [first, next ? now + ahead : now];
    plots.show(both);
    if (!samples.length && !next) { held.update({ series: [] }); util.update({ series: [] }); return; }
    held.update({
      range, marks: [{ at: now, kind: 'now', text: 'now' }], series: [
        { name: 'Held', color: 'var(--s0)', points: [...samples.map((x) => [at(x), x.held]), [now, o.held], [now + 1, null]] },
        { name: 'All', color: 'var(--s7)', dash: '2 3', points: [...samples.map((x) => [at(x), x.gpus]), [now, o.gpus]] },
        ...(next ? [{ name: 'Expected, as far as lengths are known', color: 'var(--s1)', dash: '5 3', points: next }] : [])] });
    util.update({ range, series: [{ name: 'Utilisation', color: 'var(--s0)', points: samples.filter((x) => x.util).map((x) => [at(x), x.util]) }] });
  }
  function drawHolders(page) {
    const now = state.now();
    const jobs = page.jobs || [];
    holders.title('Who holds what', h('span', { class: 'count' }, number(page.total)));
    if (!jobs.length) { holders.empty('No job holds GPUs.'); return; }
    const value = (j, key) => ({ job: title(j), user: j.user, tenant: j.tenant, gpus: heldGPUs(j), since: -ms(j.status.since), free: j.left_s || null })[key];
    holders.show(h('div', { class: 'scroll tall' }, h('table', { class: 'list' },
      heads([['job', 'Job'], ['user', 'User', 'minor'], ['tenant', 'Tenant', 'minor'], ['gpus', 'GPUs', 'num'], ['', 'Where', 'minor'], ['since', 'Since', 'num minor'], ['free', 'Expected free', 'num']], sort, (v) => { sort = v; choose({ sort }); refreshSoon(); }),
      h('tbody', {}, sorted(jobs, sort, value).slice(0, rowsShown).map((j) => h('tr', { key: j.id, sig: JSON.stringify(j) + Math.floor(now / 5000), fill: () => [
        h('th', { scope: 'row', class: 'job-name' }, jobLink(j.id, title(j)), ' ', j.state === 'running' ? null : stateBadge(j)), h('td', { class: 'owner minor' }, j.user || '–'), h('td', { class: 'owner minor' }, j.tenant || '–'),
        h('td', { class: 'num' }, number(heldGPUs(j))), h('td', { class: 'minor' }, where(j)), h('td', { class: 'num nowrap minor' }, ago(ms(j.status.since), now)),
        h('td', { class: 'num nowrap' }, j.left_s > 0 ? ago(now + 1000 * j.left_s, now) : h('span', { class: 'soft' }, 'unknown'))] }))))),
    jobs.length > rowsShown ? h('p', { class: 'note' }, 'The first ' + rowsShown + ' of ' + number(page.total) + ' in this order.') : null);
  }
  function drawNodes(all, jobs) {
    const names = new Map(jobs.map((j) => [j.id, title(j)]));
    const text = word.value.trim().toLowerCase();
    const nodes = all.filter((n) => !text || [n.name, kindOf(n), n.rack, nodeState(n)].join(' ').toLowerCase().includes(text));
    list.title('Nodes', h('span', { class: 'count' }, number(nodes.length)));
    if (!all.length) list.empty('No nodes yet.', 'The daemon detects GPUs when it starts; without GPUs it offers CPU slots.');
    else if (!nodes.length) list.empty('No matching nodes.', 'Try another text.');
    else if (nodes.length <= cards()) list.show(h('div', { class: 'nodes' }, nodes.map((n) => card(n, names))));
    else list.show(table(nodes), nodes.length > room ? h('div', { class: 'pager' }, h('span', { class: 'soft' }, number(room) + ' of ' + number(nodes.length) + ' shown'), h('button', { type: 'button', class: 'quiet', onclick: () => { room += rowsShown; refreshSoon(); } }, 'Show more')) : null);
  }
  // table is a line for each node; a filter that leaves few shows them in full.
  function table(nodes) {
    const free = (n) => (nodeState(n) === 'ready' ? n.slots.filter((s) => !s.jobs?.length).length : 0);
    const busy = (n) => { const use = n.slots.filter((s) => s.use); return use.length ? use.reduce((v, s) => v + s.use.util, 0) / use.length : null; };
    const value = (n, key) => ({ name: n.name, state: nodeState(n), type: kindOf(n), rack: n.rack, free: free(n), gpus: n.gpus, busy: busy(n) })[key];
    return h('div', { class: 'scroll' }, h('table', { class: 'list figures fold' },
      heads([['name', 'Node'], ['state', 'State'], ['type', 'Type', 'minor'], ['rack', 'Rack', 'minor'], ['gpus', 'GPUs', 'num'], ['free', 'Free', 'num'], ['busy', 'Utilisation', 'num'], ['', '', 'num']], nodeSort, (v) => { nodeSort = v; choose({ nodes: v }); refreshSoon(); }),
      h('tbody', {}, sorted(nodes, nodeSort, value).slice(0, room).map((n) => h('tr', { key: n.name, sig: JSON.stringify([n.name, nodeState(n), n.quarantine, free(n), busy(n), state.isAdmin()]), fill: () => [
        h('th', { scope: 'row' }, n.name), h('td', {}, h('span', { class: 'badge ' + nodeState(n) }, nodeState(n)), n.quarantine ? h('span', { class: 'sub' }, n.quarantine.why) : null), h('td', { class: 'minor' }, kindOf(n)), h('td', { class: 'minor' }, n.rack || '–'),
        h('td', { class: 'num', 'data-label': 'GPUs' }, n.gpus), h('td', { class: 'num', 'data-label': 'free' }, free(n)), h('td', { class: 'num', 'data-label': 'busy' }, busy(n) === null ? '–' : percent(busy(n))), h('td', { class: 'num' }, cordon(n))] })))));
  }
  function card(node, names) {
    const now = nodeState(node);
    const facts = [node.gpus + ' × ' + kindOf(node), node.gpu_memory ? bytes(node.gpu_memory) + ' each' : null, node.cpus ? plural(node.cpus, 'CPU') : null,
      node.memory ? bytes(node.memory) + ' memory' : null, node.rack ? 'rack ' + node.rack : null].filter(Boolean);
    return h('article', { class: 'node', key: node.name, 'aria-label': 'Node ' + node.name },
      h('div', { class: 'card-head' }, h('div', {}, h('h3', {}, node.name, ' ', h('span', { class: 'badge ' + now }, now)), h('p', { class: 'sub' }, facts.join(' · '))), cordon(node)),
      accused(node),
      h('div', { class: 'slots' }, node.slots.map((slot) => gpu(node, slot, names))));
  }
  // accused says what is held against a node on which jobs fail.
  function accused(node) {
    const q = node.quarantine;
    if (!q) return null;
    const out = nodeState(node) === 'cordoned';
    return h('p', { class: 'callout' + (out ? ' bad' : '') }, h('b', {}, out ? 'Quarantined until ' + moment(ms(q.until)) + ': ' : 'Looks faulty but stays in use: '), q.why);
  }
  function cordon(node) {
    const now = nodeState(node);
    if (!state.isAdmin() || now === 'down') return null;
    const cordoned = now === 'cordoned';
    return h('button', {
      type: 'button', class: 'quiet small', 'aria-label': (cordoned ? 'Uncordon ' : 'Cordon ') + node.name,
      onclick: () => confirm({
        title: cordoned ? 'Take ' + node.name + ' back?' : 'Cordon ' + node.name + '?', yes: cordoned ? 'Uncordon' : 'Cordon', no: 'Cancel',
        text: cordoned ? 'New jobs may start on it again.' : 'Running jobs stay; no new jobs start until it is uncordoned.',
        act: async () => { await put(['nodes', node.name], { state: cordoned ? 'ready' : 'cordoned' }); refreshSoon(); },
      }),
    }, cordoned ? 'Uncordon' : 'Cordon');
  }
  function gpu(node, slot, names) {
    const use = slot.use;
    const strangers = (use?.processes || []).filter((p) => !p.job);
    return h('div', { class: 'slot', key: slot.index },
      h('div', { class: 'slot-head' }, h('b', {}, (kindOf(node) === 'CPU slot' ? 'Slot ' : 'GPU ') + slot.index),
        h('span', { class: 'slot-jobs' }, (slot.jobs || []).length ? slot.jobs.map((j, i) => [i ? ', ' : '', jobLink(j, names.get(j))]) : h('span', { class: 'soft' }, nodeState(node) === 'down' ? '' : 'free')),
        use && (use.power_w || use.temp_c) ? h('span', { class: 'sub' }, [use.power_w ? number(use.power_w) + ' W' : null, use.temp_c ? number(use.temp_c) + ' °C' : null].filter(Boolean).join(' · ')) : null),
      use ? [meter('busy', use.util, percent(use.util)), use.memory_total ? meter('memory', use.memory_used / use.memory_total, bytes(use.memory_used) + ' / ' + bytes(use.memory_total)) : null] : h('p', { class: 'sub' }, nodeState(node) === 'down' ? 'not there' : 'not measured'),
      strangers.length ? h('p', { class: 'sub warn-text' }, plural(strangers.length, 'process', 'processes') + ' not started by Fairway: ' + strangers.slice(0, 4).map((p) => p.pid + ' (' + bytes(p.memory) + ')').join(', ')) : null);
  }
  return { title: 'Cluster', element, refresh, close() { gpus.close(); held.close(); util.close(); } };
}

const where = (job) => {
  const list = (job.held || []).map((x) => x.node + ' × ' + x.gpus.length);
  return list.slice(0, 3).join(', ') + (list.length > 3 ? ' and ' + plural(list.length - 3, 'node') : '');
};
