// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// App: the jobs of one app. Of a search: its trials with their parameters and
// results, as lines and as a table, and where each was stopped.
import { get, post } from '../api.js';
import { chart, progress } from '../chart.js';
import { seriesColour, seriesDash } from '../colour.js';
import { confirm } from '../dialog.js';
import { h, keep, show } from '../dom.js';
import { number, plural } from '../format.js';
import { allTable, badge, jobLink, over } from '../jobs.js';
import { pager } from '../pager.js';
import { parallel } from '../parallel.js';
import { fill, panel } from '../panel.js';
import { heads, sorted } from '../sortable.js';
import { choose, here } from '../url.js';

const mostCurves = 10;

export function appView({ state, refreshSoon }, id) {
  let sort = here().chosen.get('sort') || '';
  const order = (v) => { sort = v; choose({ sort }); refreshSoon(); };
  const head = keep(h('div', { class: 'job-head' }));
  const trials = panel('Trials');
  const curves = chart({ title: 'Best trials', zero: false, height: 260, empty: 'No trial has reported yet.' });
  const paths = parallel('Parameters and results');
  const jobs = panel('Jobs');
  const pages = pager(() => refresh());
  const searched = keep(h('div', { class: 'page' }, h('h2', { class: 'sr' }, 'Results'), curves.element, paths.element, trials.element));
  const body = keep(h('div', {}, h('p', { class: 'loading' }, 'Loading…')));
  const element = h('div', { class: 'page' }, head, body);

  async function refresh() {
    const search = await get(['searches', id]).catch((error) => { if (!error.code) throw error; return null; });
    if (search) draw(search);
    else show(head, h('div', {}, h('p', { class: 'crumb' }, h('a', { href: '#/jobs?by=app' }, 'Apps')), h('h1', {}, id)));
    show(body, search ? searched : jobs.element);
    if (search) return;
    await fill(jobs, get(['jobs'], { app: id, sort, ...pages.query() }), (page) => {
      jobs.title('Jobs', h('span', { class: 'count' }, number(page.total)));
      if (page.total) jobs.show(h('div', { class: 'scroll' }, allTable(page.jobs, state.now(), { sort: sort || '-submitted', set: order })), pages.bar(page));
      else jobs.empty('No jobs.', 'There is no such app, or its jobs are no longer kept.');
    });
  }
  function draw(search) {
    const spec = search.spec;
    const metric = spec.metric?.name || 'loss';
    const more = spec.metric?.goal === 'maximise';
    const best = search.best === undefined ? null : search.trials[search.best];
    const early = search.trials.filter((t) => t.early).length;
    show(head, h('div', {}, h('p', { class: 'crumb' }, h('a', { href: '#/jobs?by=app' }, 'Apps'), ' / search'), h('h1', {}, id, ' ', badge(search.state)),
      h('p', { class: 'summary' }, plural(search.trials.length, 'trial') + (spec.trials ? ' of ' + number(spec.trials) : '') + ', ' + number(early) + ' stopped early. ',
        best ? ['The best so far: ', best.job ? jobLink(best.job, 'trial ' + best.number) : 'trial ' + best.number, ' with ' + metric + ' ' + number(best.value, 4) + '.'] : 'None has reported ' + metric + ' yet.', search.why ? ' ' + search.why : ''),
      h('p', { class: 'hint' }, [spec.method || 'random', 'stopping rule ' + (spec.stopping?.rule || 'none'), (more ? 'maximises ' : 'minimises ') + metric, [search.user, search.tenant].filter(Boolean).join(' · ')].filter(Boolean).join(', '))),
    over.includes(search.state) || !state.mayControl() ? null : h('div', { class: 'buttons' }, command(search.state === 'paused' ? 'resume' : 'pause'), command('cancel', true)));
    drawCurves(search, metric, more);
    drawPaths(search, metric, more);
    drawTrials(search, metric, more);
  }
  function command(verb, danger = false) {
    const name = verb[0].toUpperCase() + verb.slice(1);
    return h('button', { type: 'button', key: verb, class: danger ? 'danger' : 'quiet', onclick: () => confirm({
      title: name + ' ' + id + '?', text: name + ' all trials of the search.', yes: name, no: 'Back', danger, act: async () => { await post(['apps', id, verb]); refreshSoon(); },
    }) }, name);
  }
  function drawCurves(search, metric, more) {
    const told = search.trials.filter((t) => (t.curve || []).length && Number.isFinite(t.value));
    const list = sorted(told, more ? '-value' : 'value', (t) => t.value).slice(0, mostCurves);
    curves.update({ axis: progress, series: list.map((t, n) => ({ name: 'trial ' + t.number, color: seriesColour(n), dash: seriesDash(n), points: t.curve.map((c) => [c.done, c.value]) })) });
  }
  function drawPaths(search, metric, more) {
    const names = Object.keys(search.spec.parameters || {}).sort();
    const list = sorted(search.trials, more ? '-value' : 'value', (t) => t.value);
    const told = list.filter((t) => Number.isFinite(t.value)).length;
    paths.update({
      axes: [...names.map((name) => ({ name, log: search.spec.parameters[name].log, values: search.spec.parameters[name].values })), { name: 'rung' }, { name: metric }],
      lines: list.map((t, n) => ({ name: 'trial ' + t.number, says: outcome(t), dashed: t.early, rank: n < told ? n / Math.max(1, told - 1) : null,
        at: [...names.map((name) => (search.spec.parameters[name].values ? t.params?.[name] : numeric(t.params?.[name]))), t.rung || 0, t.value ?? null] })),
    });
  }
  function drawTrials(search, metric, more) {
    const names = Object.keys(search.spec.parameters || {}).sort();
    const by = sort || (more ? '-value' : 'value');
    const value = (t, key) => (key.startsWith('param:') ? numeric(t.params?.[key.slice(6)]) : key === 'rung' ? t.rung || 0 : key === 'outcome' ? outcome(t) : t[key]);
    trials.title('Trials', h('span', { class: 'count' }, number(search.trials.length)));
    if (!search.trials.length) { trials.empty('No trials yet.'); return; }
    trials.show(h('div', { class: 'scroll' }, h('table', { class: 'list figures fold trials' },
      heads([['number', 'Trial', 'num'], ...names.map((n) => ['param:' + n, n, 'num']), ['value', metric, 'num'], ['rung', 'Rung', 'num'], ['done', 'Work done', 'num minor'], ['outcome', 'Outcome']], by, order),
      h('tbody', {}, sorted(search.trials, by, value).map((t) => h('tr', { key: t.number, class: t.number === search.best ? 'best' : '' },
        h('td', { class: 'num', 'data-label': 'trial' }, t.job ? jobLink(t.job, String(t.number)) : t.number), names.map((n) => h('td', { class: 'num', 'data-label': n }, t.params?.[n] ?? '–')),
        h('td', { class: 'num', 'data-label': metric }, Number.isFinite(t.value) ? h('b', {}, number(t.value, 4)) : '–'), h('td', { class: 'num', 'data-label': 'rung' }, number(t.rung || 0)), h('td', { class: 'num minor' }, number(t.done || 0)),
        h('td', { class: 'outcome line-of-its-own' }, t.early ? null : [badge(t.state), ' '], outcome(t) === t.state ? null : h('span', { class: 'soft' }, outcome(t)))))))));
  }
  return { title: id, element, refresh, close: () => { curves.close(); paths.close(); } };
}

// outcome says where a trial stands, and where it was stopped.
function outcome(t) {
  if (t.early) return 'stopped early at rung ' + (t.rung || 0) + (t.why ? ': ' + t.why : '');
  if (t.held) return 'waits at rung ' + (t.rung || 0) + ' for others to come as far';
  return t.why || t.state;
}

// numeric sorts 1e-3 before 0.01, and words as words.
const numeric = (text) => (text !== undefined && text !== '' && Number.isFinite(Number(text)) ? Number(text) : text);
