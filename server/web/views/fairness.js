// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Fairness: what tenants and apps hold, and how late sharing makes them: rho is
// the time an app takes against the time it would take alone on its fair share.
import { get } from '../api.js';
import { chart, sharedCursor } from '../chart.js';
import { seriesColour, seriesDash } from '../colour.js';
import { h } from '../dom.js';
import { ago, ms, number, plural } from '../format.js';
import { bins, histogram } from '../histogram.js';
import { fill, panel } from '../panel.js';
import { href } from '../url.js';

const mostLines = 10;
const appsShown = 50;

export function fairness({ state }) {
  const cursor = sharedCursor();
  const charts = {
    held: chart({ title: 'Allocated GPUs, by tenant', kind: 'stack', whole: true, cursor, empty: 'No history yet: samples are taken while the daemon runs.' }),
    tenants: chart({ title: 'Fairness (rho) by tenant, worst app', zero: false, cursor, lines: [{ y: 1, label: 'fair' }], empty: 'No data yet: rho needs jobs with a known length.' }),
    apps: chart({ title: 'Fairness (rho) by app', zero: false, cursor, lines: [{ y: 1, label: 'fair' }], empty: 'No data yet: rho needs jobs with a known length.' }),
    load: chart({ title: 'Running and waiting jobs', kind: 'step', whole: true, cursor, empty: 'No history yet.' }),
  };
  const shares = panel('Share against use, by tenant');
  const spread = panel('How late sharing makes apps');
  const plots = panel('Over time', { plain: true });
  const grid = h('div', { class: 'charts' }, Object.values(charts).map((c) => c.element));
  const tenants = panel('Tenants');
  const apps = panel('Apps');
  const element = h('div', { class: 'page' }, h('div', { class: 'page-head' }, h('h1', {}, 'Fairness'),
    h('p', { class: 'hint' }, 'Rho, finish-time fairness, is the time an app takes divided by the time it would take alone on its fair share: 1 is fair, 2 takes twice as long, below 1 is faster.')),
  shares.element, spread.element, plots.element, tenants.element, apps.element);

  async function refresh() {
    const asked = { tenants: get(['tenants']), apps: get(['apps']) };
    await Promise.all([
      fill(plots, get(['history']), (x) => { plots.show(grid); drawCharts(x.samples || []); }),
      fill(tenants, asked.tenants, (x) => drawTenants(x.tenants || [])), fill(shares, asked.tenants, (x) => drawShares(x.tenants || [])),
      fill(apps, asked.apps, (x) => drawApps(x.apps || [])), fill(spread, asked.apps, (x) => drawSpread(x.apps || [])),
    ]);
  }
  // drawShares sets what tenants hold against what is theirs: a bar and a mark.
  function drawShares(list) {
    const busy = inTree(list).filter((t) => t.gpus || t.waiting || t.running || t.share);
    if (!busy.length) { shares.empty('No tenant has jobs.', 'Jobs without a tenant belong to the tenant default.'); return; }
    const most = Math.max(1, ...busy.flatMap((t) => [t.gpus, t.share, t.quota || 0]));
    const at = (v) => v / most * 100 + '%';
    const verdict = (t) => (t.gpus > t.share * 1.05 ? number(t.gpus - t.share) + ' above its share' : t.gpus < t.share * 0.95 ? number(t.share - t.gpus) + ' below its share' + (t.waiting ? ', ' + plural(t.waiting, 'job') + ' waiting' : ', nothing waits') : 'at its share');
    shares.show(h('ul', { class: 'shares' }, busy.map((t, n) => h('li', { key: t.id },
      h('b', {}, nameOf(t)),
      h('div', { class: 'share', role: 'img', 'aria-label': number(t.gpus) + ' GPUs held; its share is ' + number(t.share) + (t.quota ? ', its quota ' + number(t.quota) : '') },
        h('i', { class: 'held', vars: { width: at(t.gpus), '--c': seriesColour(n) } }), t.share ? h('i', { class: 'due', vars: { left: at(t.share) }, title: 'share: ' + number(t.share) + ' GPUs' }) : null,
        t.quota ? h('i', { class: 'quota', vars: { left: at(t.quota) }, title: 'quota: ' + number(t.quota) + ' GPUs' }) : null),
      h('span', {}, number(t.gpus) + ' of ' + number(t.share) + ' GPUs'), h('span', { class: 'soft' }, verdict(t))))),
    h('p', { class: 'note' }, h('i', { class: 'key due' }), 'its share by weight ', busy.some((t) => t.quota) ? [h('i', { class: 'key quota' }), 'its quota'] : null));
  }
  function drawSpread(list) {
    const known = list.filter((a) => a.rho > 0);
    if (!known.length) { spread.empty('No app has a known rho.', 'It needs jobs with a known length.'); return; }
    const late = known.filter((a) => a.rho > 1.1).length;
    spread.show(h('p', {}, h('b', {}, number(known.length - late) + ' of ' + plural(known.length, 'app')), ' take at most a tenth longer than alone on their share; the worst takes ', h('b', {}, number(Math.max(...known.map((a) => a.rho))) + ' times'), ' as long.'),
      histogram(bins(known.map((a) => a.rho)), { what: 'app', label: 'Apps by rho', tone: (b) => (b.to <= 1.01 ? 'var(--busy)' : b.from < 1.4 ? 'var(--s4)' : 'var(--bad-text)') }),
      h('p', { class: 'note' }, 'Rho, on a logarithmic scale: left of 1 sharing cost the app nothing.'));
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
    charts.tenants.update({ range, log: true, series: lines(series('tenants', (x) => x.rho || NaN)).filter((l) => l.points.length) });
    charts.apps.update({ range, log: true, series: latest(series('apps', (x) => x.rho || NaN)) });
    charts.load.update({ range, series: [
      { name: 'Running', color: 'var(--s2)', points: samples.map((x) => [at(x), x.running]) },
      { name: 'Waiting', color: 'var(--s1)', dash: '5 3', points: samples.map((x) => [at(x), x.waiting]) }] });
  }
  function drawTenants(list) {
    if (!list.length) { tenants.empty('No tenants yet.', 'Jobs without a tenant belong to the tenant default.'); return; }
    tenants.show(h('div', { class: 'scroll' }, h('table', { class: 'list figures fold' },
      h('thead', {}, h('tr', {}, [['Tenant', ''], ['GPUs', 'num'], ['Share', 'num'], ['Weight', 'num minor'], ['Quota', 'num minor'], ['Running', 'num'], ['Waiting', 'num'], ['Rho', 'num'], ['GPU hours', 'num minor']].map(([t, c]) => h('th', { scope: 'col', class: c }, t)))),
      h('tbody', {}, inTree(list).map((t) => h('tr', { key: t.id }, h('th', { scope: 'row' }, nameOf(t)), h('td', { class: 'num', 'data-label': 'GPUs' }, number(t.gpus) + (t.gpus_below ? ' + ' + number(t.gpus_below) + ' below' : '')), num(t.share, '', 'share'), num(t.weight || 1, 'minor'),
        h('td', { class: 'num minor' }, t.quota ? number(t.quota) + (t.borrow ? ', may borrow' : '') : '–'), num(t.running, '', 'running'), num(t.waiting, '', 'waiting'), rho(t.rho), num(t.gpu_s / 3600, 'minor')))))),
    inTree(list).filter((t) => t.standing).map((t) => h('p', { class: 'note', key: t.id }, t.standing + '.')));
  }
  function drawApps(list) {
    if (!list.length) { apps.empty('No apps yet.', 'Submit several jobs as one app: ', h('code', {}, 'fairway app submit')); return; }
    const active = (a) => a.running + a.waiting > 0;
    const sorted = [...list].sort((a, b) => active(b) - active(a) || ms(b.submitted) - ms(a.submitted));
    apps.show(h('div', { class: 'scroll' }, h('table', { class: 'list figures fold' },
      h('thead', {}, h('tr', {}, [['App', ''], ['Tenant', 'minor'], ['GPUs', 'num'], ['Running', 'num'], ['Waiting', 'num'], ['Finished', 'num minor'], ['Failed', 'num minor'], ['Rho', 'num'], ['Submitted', 'num minor']].map(([t, c]) => h('th', { scope: 'col', class: c }, t)))),
      h('tbody', {}, sorted.slice(0, appsShown).map((a) => h('tr', { key: a.id }, h('th', { scope: 'row' }, h('a', { href: href(['apps', a.id]) }, a.id)), h('td', { class: 'minor' }, a.tenant || '–'), num(a.gpus, '', 'GPUs'), num(a.running, '', 'running'), num(a.waiting, '', 'waiting'),
        num(a.finished, 'minor'), num(a.failed + a.killed, 'minor'), rho(a.rho), h('td', { class: 'num nowrap minor' }, ago(ms(a.submitted), state.now()))))))),
    sorted.length > appsShown ? h('p', { class: 'note' }, 'The ' + appsShown + ' submitted last, those with jobs first; ', h('a', { href: '#/jobs?by=app' }, 'all ' + number(sorted.length)), '.') : null);
  }
  return { title: 'Fairness', element, refresh, close: () => Object.values(charts).forEach((c) => c.close()) };
}

const num = (v, more = '', label = null) => h('td', { class: 'num ' + more, 'data-label': label }, number(v));
const nameOf = (t) => t.path || t.id || '(none)';
// inTree lists tenants below their parents, before those whose names begin alike.
const pathOf = (t) => nameOf(t).replaceAll('/', '\u0000');
const inTree = (list) => [...list].sort((a, b) => (pathOf(a) < pathOf(b) ? -1 : 1));
const rho = (v) => h('td', { class: 'num' + (v > 1.5 ? ' late' : ''), 'data-label': 'rho' }, v ? number(v) : '–');

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
