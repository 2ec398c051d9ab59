// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Metrics: how a job learns: its loss and whatever else it reports, by the work
// done or by time, smoothed, beside other jobs. The choices are in the address.
import { get } from './api.js';
import { choice, toggle } from './choice.js';
import { chart, elapsed, progress, step, time } from './chart.js';
import { seriesColour } from './colour.js';
import { h, keep, show } from './dom.js';
import { ms, title } from './format.js';
import { over } from './jobs.js';
import { advancing, smooth, withGaps } from './scale.js';
import { choose, here } from './url.js';

const mostCompared = 7;

// What every agent measures beside the loss, by the names people choose.
const measured = { 'goodput (examples/s)': 'goodput', 'throughput (examples/s)': 'throughput', 'learning rate': 'lr', 'gradient noise scale': 'noise' };

// readings returns what a job reported, by name: {steps, list: [[x, ms, value], ...]}.
// x is a step that the script named or, without steps, the work done.
export function readings({ points, metrics }) {
  const out = new Map(metrics.map((m) => [m.name, { steps: true, list: m.values.map((v, i) => [m.steps[i], 1000 * m.at[i], v]) }]));
  const add = (name, value) => {
    if (out.has(name)) return;
    const list = points.filter((p) => Number.isFinite(value(p))).map((p) => [p.done, ms(p.at), value(p)]);
    if (list.length) out.set(name, { steps: false, list });
  };
  add('loss', (p) => p.loss ?? NaN); // agents before series have it here
  for (const name of new Set(points.flatMap((p) => Object.keys(p.metrics || {})))) add(name, (p) => p.metrics?.[name] ?? NaN);
  for (const [name, field] of Object.entries(measured)) add(name, (p) => p[field] || NaN);
  return out;
}

export function metricsChart(id, cursor, changed) {
  const { chosen } = here();
  let metric = chosen.get('metric') || 'loss';
  let byTime = chosen.get('x') === 'time';
  let log = chosen.get('y') === 'log';
  let weight = Math.min(0.99, Math.max(0, Number(chosen.get('smooth')) || 0));
  let compared = (chosen.get('compare') || '').split(',').filter(Boolean).slice(0, mostCompared);
  let mine = null; // what was drawn last
  const others = new Map(); // by id: {job, points, metrics} or {error}

  const pick = h('select', { 'aria-label': 'Metric', onchange: () => { metric = pick.value; choose({ metric: metric === 'loss' ? '' : metric }); draw(); } });
  const axis = choice('Horizontal axis', [['Step', false], ['Time', true]], byTime, (v) => { byTime = v; choose({ x: v ? 'time' : '' }); draw(); });
  const logarithmic = toggle('Log', 'Logarithmic scale', log, (v) => { log = v; choose({ y: v ? 'log' : '' }); draw(); });
  const slider = h('input', { type: 'range', min: 0, max: 0.99, step: 0.01, value: weight, 'aria-label': 'Smoothing', oninput: () => { weight = Number(slider.value); choose({ smooth: weight || '' }); draw(); } });
  const known = h('datalist', { id: 'compare-with' });
  const box = h('input', { list: 'compare-with', placeholder: 'Compare with a job', 'aria-label': 'Compare with a job: its id', autocomplete: 'off', spellcheck: 'false', onfocus: offer, onchange: () => add(box.value.trim()) });
  const chips = keep(h('span', { class: 'chips' }));
  const plot = chart({
    title: 'Metrics', zero: false, height: 300, cursor, part: [pick, axis, logarithmic, h('label', { class: 'slide' }, 'Smooth ', slider)],
    empty: 'No training measurements yet: code that uses the fairway package reports every 30 seconds.',
  });
  const element = h('div', { class: 'metrics' }, plot.element);
  plot.element.append(h('div', { class: 'compare' }, box, known, chips));

  // offer lists jobs that one might compare with: those of the same app first.
  async function offer() {
    const app = mine?.job?.app;
    const pages = await Promise.all([app ? get(['jobs'], { app, limit: 100 }) : { jobs: [] }, get(['jobs'], { limit: 100 })]).catch(() => []);
    const byID = new Map(pages.flatMap((p) => p.jobs || []).filter((j) => j.id !== id && j.agent).map((j) => [j.id, j]));
    show(known, [...byID.values()].map((j) => h('option', { value: j.id }, title(j))));
  }
  function add(other) {
    box.value = '';
    if (!other || other === id || compared.includes(other) || compared.length >= mostCompared) return;
    compare([...compared, other]);
  }
  function compare(list) {
    compared = list;
    choose({ compare: list.join(',') });
    changed();
    draw();
  }
  // refresh asks for the jobs that are compared; those that have ended do not change.
  async function refresh() {
    await Promise.all(compared.filter((o) => !(over.includes(others.get(o)?.job?.state))).map(async (o) => {
      try {
        const [job, p, m] = await Promise.all([get(['jobs', o]), get(['jobs', o, 'points']), get(['jobs', o, 'metrics'])]);
        others.set(o, { job, points: p.points || [], metrics: m.metrics || [] });
      } catch (error) {
        if (!error.code) throw error;
        others.set(o, { error });
      }
    }));
  }
  // line is the series of one job, and what it is smoothed from.
  function line({ job, read, ledger, n, absolute }) {
    const list = read.get(metric)?.list || [];
    const start = list[0]?.[1];
    let raw = list.map(([x, at, v]) => [!byTime ? x : absolute ? at : at - start, v]);
    if (byTime && absolute) raw = withGaps(raw, ledger);
    else if (!byTime) raw = advancing(raw);
    const one = { name: title(job), color: seriesColour(n), points: weight ? smooth(raw, weight) : raw };
    return weight ? [{ ...one, name: one.name + ' raw', faint: true, points: raw }, one] : [one];
  }
  function draw() {
    if (!mine) return;
    const { job, ledger, marks, range } = mine;
    const read = readings(mine);
    const names = [...read.keys()];
    element.hidden = !names.length && !compared.length; // a plain script reports nothing
    if (names.length && !read.has(metric)) metric = names.includes('loss') ? 'loss' : names[0];
    show(pick, (names.length ? names : [metric]).map((name) => h('option', { key: name, value: name }, name)));
    pick.value = metric;
    const asked = compared.map((o) => ({ id: o, ...others.get(o) })).map((o) => ({ ...o, read: o.job && readings(o) }));
    const drawn = asked.filter((o) => o.read?.has(metric));
    const absolute = !drawn.length;
    const series = [{ job, read, ledger }, ...drawn].flatMap((o, n) => line({ ...o, n, absolute }));
    plot.update({ series, log, axis: byTime ? (absolute ? time : elapsed) : read.get(metric)?.steps ? step : progress, ...(byTime && absolute ? { marks, range } : {}) });
    show(chips, asked.map((o) => h('span', { class: 'chip', key: o.id }, o.error ? o.id + ': ' + o.error.message : title(o.job || o) + (o.read && !o.read.has(metric) ? ': has not reported ' + metric : ''),
      h('button', { type: 'button', 'aria-label': 'Do not compare with ' + o.id, onclick: () => compare(compared.filter((c) => c !== o.id)) }, '×'))));
  }
  return { element, refresh, draw: (next) => { mine = next; draw(); }, close: () => plot.close() };
}
