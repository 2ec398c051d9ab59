// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Fairness: what tenants and apps hold, and how late sharing makes them: rho is
// the time an app takes against the time it would take alone on its fair share.
import { get } from '../api.js';
import { chart, sharedCursor } from '../chart.js';
import { seriesColour, seriesDash } from '../colour.js';
import { h } from '../dom.js';
import { ago, ms, number, percent } from '../format.js';
import { fill, panel } from '../panel.js';

const mostLines = 10;

export function fairness({ state }) {
  const cursor = sharedCursor();
  const charts = {
    held: chart({ title: 'Allocated GPUs, by tenant', kind: 'stack', whole: true, cursor, empty: 'No history yet: samples are taken while the daemon runs.' }),
    tenants: chart({ title: 'Fairness (rho) by tenant, worst app', cursor, lines: [{ y: 1, label: 'fair' }], empty: 'No data yet: rho needs jobs with a known length.' }),
    apps: chart({ title: 'Fairness (rho) by app', cursor, lines: [{ y: 1, label: 'fair' }], empty: 'No data yet: rho needs jobs with a known length.' }),
    load: chart({ title: 'Running and waiting jobs', kind: 'step', whole: true, cursor, empty: 'No history yet.' }),
    util: chart({ title: 'Mean GPU utilisation', yformat: percent, ymax: 1.02, cursor, empty: 'Utilisation is not measured on this machine.' }),
  };
  const plots = panel('Over time', { plain: true });
  const grid = h('div', { class: 'charts' }, Object.values(charts).map((c) => c.element));
  const tenants = panel('Tenants');
  const apps = panel('Apps');
  const element = h('div', { class: 'page' }, h('div', { class: 'page-head' }, h('h1', {}, 'Fairness'),
    h('p', { class: 'hint' }, 'Rho, finish-time fairness, is the time an app takes divided by the time it would take alone on its fair share: 1 is fair, 2 takes twice as long, below 1 is faster.')),
  plots.element, tenants.element, apps.element);

  async function refresh() {
    await Promise.all([
      fill(plots, get(['history']), (x) => { plots.show(grid); drawCharts(x.samples || []); }),
      fill(tenants, get(['tenants']), (x) => drawTenants(x.tenants || [])),
      fill(apps, get(['apps']), (x) => drawApps(x.apps || [])),
    ]);
  }
  function drawCharts(samples) {
    const at = (x) => ms(x.at);
    const range = samples.length > 1 ? [at(samples[0]), at(samples[samples.length - 1])] : null;
    const series = (list, value) => {
      const byID = new Map();
      for (const sample of samples) {
        for (const one of sample[list] || []) {
          if (!byID.has(one.id)) byID.set(one.id, []);
          const v = value(one);
          if (Number.isFinite(v)) byID.get(one.id).push([at(sample), v]);
        }
      }
      return byID;
    };
    const lines = (byID, step) => [...byID].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, mostLines)
      .map(([name, points], n) => ({ name: name || '(none)', color: seriesColour(n), dash: step ? '' : seriesDash(n), points }));
    charts.held.update({ range, series: lines(gpusOf(samples), true) });
    charts.tenants.update({ range, series: lines(series('tenants', (x) => x.rho || NaN)).filter((l) => l.points.length) });
    charts.apps.update({ range, series: latest(series('apps', (x) => x.rho || NaN)) });
    charts.load.update({ range, series: [
      { name: 'Running', color: 'var(--s2)', points: samples.map((x) => [at(x), x.running]) },
      { name: 'Waiting', color: 'var(--s1)', dash: '5 3', points: samples.map((x) => [at(x), x.waiting]) }] });
    charts.util.update({ range, series: [{ name: 'Utilisation', color: 'var(--s0)', points: samples.filter((x) => x.util).map((x) => [at(x), x.util]) }] });
  }
  function drawTenants(list) {
    if (!list.length) { tenants.empty('No tenants yet.', 'Jobs without a tenant belong to the tenant default.'); return; }
    tenants.show(h('div', { class: 'scroll' }, h('table', { class: 'list figures' },
      h('thead', {}, h('tr', {}, [['Tenant', ''], ['GPUs', 'num'], ['Share', 'num'], ['Weight', 'num minor'], ['Quota', 'num minor'], ['Running', 'num'], ['Waiting', 'num'], ['Rho', 'num'], ['GPU hours', 'num minor']].map(([t, c]) => h('th', { scope: 'col', class: c }, t)))),
      h('tbody', {}, list.map((t) => h('tr', { key: t.id }, h('th', { scope: 'row' }, t.id), num(t.gpus), num(t.share), num(t.weight || 1, 'minor'),
        h('td', { class: 'num minor' }, t.quota ? number(t.quota) + (t.borrow ? ', may borrow' : '') : '–'), num(t.running), num(t.waiting), rho(t.rho), num(t.gpu_s / 3600, 'minor')))))));
  }
  function drawApps(list) {
    if (!list.length) { apps.empty('No apps yet.', 'Submit several jobs as one app: ', h('code', {}, 'fairway app submit')); return; }
    const active = (a) => a.running + a.waiting > 0;
    const sorted = [...list].sort((a, b) => active(b) - active(a) || ms(b.submitted) - ms(a.submitted));
    apps.show(h('div', { class: 'scroll' }, h('table', { class: 'list figures' },
      h('thead', {}, h('tr', {}, [['App', ''], ['Tenant', 'minor'], ['GPUs', 'num'], ['Running', 'num'], ['Waiting', 'num'], ['Finished', 'num minor'], ['Failed', 'num minor'], ['Rho', 'num'], ['Submitted', 'num minor']].map(([t, c]) => h('th', { scope: 'col', class: c }, t)))),
      h('tbody', {}, sorted.slice(0, 200).map((a) => h('tr', { key: a.id }, h('th', { scope: 'row' }, a.id), h('td', { class: 'minor' }, a.tenant || '–'), num(a.gpus), num(a.running), num(a.waiting),
        num(a.finished, 'minor'), num(a.failed + a.killed, 'minor'), rho(a.rho), h('td', { class: 'num nowrap minor' }, ago(ms(a.submitted), state.now()))))))),
    sorted.length > 200 ? h('p', { class: 'note' }, 'The first 200 of ' + number(sorted.length) + '.') : null);
  }
  return { title: 'Fairness', element, refresh, close: () => Object.values(charts).forEach((c) => c.close()) };
}

const num = (v, more = '') => h('td', { class: 'num ' + more }, number(v));
const rho = (v) => h('td', { class: 'num' + (v > 1.5 ? ' late' : '') }, v ? number(v) : '–');

// gpusOf returns what each tenant held, 0 where a sample does not name it.
function gpusOf(samples) {
  const ids = new Set(samples.flatMap((x) => (x.tenants || []).map((t) => t.id)));
  return new Map([...ids].map((id) => [id, samples.map((x) => [ms(x.at), (x.tenants || []).find((t) => t.id === id)?.gpus || 0])]));
}

// latest keeps the apps that were measured last, the worst first.
function latest(byID) {
  const last = (points) => points[points.length - 1];
  return [...byID].filter(([, p]) => p.length).sort(([, a], [, b]) => last(b)[0] - last(a)[0] || last(b)[1] - last(a)[1]).slice(0, mostLines)
    .sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, points], n) => ({ name, color: seriesColour(n), dash: seriesDash(n), points }));
}
