// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// App: the report of simulations, from the data in the page.
(function (F) {
  const { html, section } = F;
  const data = JSON.parse(document.getElementById('data').textContent);
  const { runs } = data;
  const dashes = ['', '', '', '', '7 4', '2 3', '9 3 2 3', '4 2'];
  const styles = runs.map((r, i) => ({
    name: r.label, color: `var(--s${i % 8})`, dash: dashes[i % 8] || (i >= 8 ? '1 4' : ''),
  }));
  const visible = F.visibility();
  const time = F.view(0, data.end || 1);
  const compare = runs.length > 1;

  // ---- Header.

  function header() {
    const distinct = (f) => [...new Set(runs.map(f))];
    const clusters = distinct((r) => [
      F.plural(r.cluster.gpus, 'GPU'), 'on ' + F.plural(r.cluster.nodes, 'node'),
      r.cluster.racks > 1 ? 'in ' + F.plural(r.cluster.racks, 'rack') : '',
      r.cluster.types.filter(Boolean).length ? '(' + r.cluster.types.filter(Boolean).join(', ') + ')' : '',
    ].filter(Boolean).join(' '));
    const list = (values) => (values.length > 3 ? values.slice(0, 3).join('; ') + `; and ${values.length - 3} more` : values.join('; '));
    const facts = [
      ['Cluster', list(clusters)],
      ['Jobs', list(distinct((r) => F.number(r.summary.jobs)))],
      [compare ? 'Policies' : 'Policy', compare ? String(runs.length) : runs[0].label],
      ['Seed', list(distinct((r) => r.summary.seed))],
      ['Estimates', list(distinct((r) => r.summary.estimates).filter(Boolean))],
      ['Simulated time', F.duration(data.end)],
    ];
    return html('header', {},
      html('p', { class: 'brand' }, 'Fairway', html('span', {}, 'simulation report')),
      html('h1', {}, list(distinct((r) => r.summary.workload || 'unnamed workload'))),
      html('dl', { class: 'facts' }, facts.map(([k, v]) => html('div', {}, html('dt', {}, k), html('dd', {}, v)))));
  }

  // ---- Comparison.

  // A metric is null if nothing was measured, for example if no job ended.
  const ended = (key) => (r) => (r.ended > 0 ? r.summary[key] : null);
  const fair = (key) => (r) => (r.summary.avg_rho > 0 ? r.summary[key] : null);
  const always = (key) => (r) => r.summary[key];
  const metrics = [
    ['Job completion time', 'Mean', 'low', 'duration', ended('avg_jct'), 'Mean time from submission to end, of the jobs that ended'],
    ['Job completion time', 'p50', 'low', 'duration', ended('p50_jct'), 'Half of the jobs that ended took at most this long'],
    ['Job completion time', 'p90', 'low', 'duration', ended('p90_jct'), 'Nine in ten jobs that ended took at most this long'],
    ['Job completion time', 'p99', 'low', 'duration', ended('p99_jct'), '99 in 100 jobs that ended took at most this long'],
    ['Wait', 'Mean', 'low', 'duration', (r) => (r.started > 0 ? r.summary.avg_wait : null), 'Mean time from submission to the first start'],
    ['Finish-time fairness ρ', 'Mean', 'low', 'number', fair('avg_rho'), 'Time an app took over the time on its fair share alone; lower is better, 1 is fair'],
    ['Finish-time fairness ρ', 'p99', 'low', 'number', fair('p99_rho'), '99 in 100 apps were at or below this'],
    ['Finish-time fairness ρ', 'Max', 'low', 'number', fair('max_rho'), 'The worst-off app'],
    ['Finish-time fairness ρ', 'Jain', 'high', 'number', fair('jain_rho'), 'Jain’s index of ρ: 1 if all apps have the same ρ'],
    ['Cluster', 'Makespan', 'low', 'duration', ended('makespan'), 'First submission to last end'],
    ['Cluster', 'Allocation', 'high', 'percent', always('allocation'), 'GPU time held by jobs, of all GPU time'],
    ...(runs.some((r) => r.summary.ettr) ? [['Cluster', 'Effective training', 'high', 'percent', always('ettr'), 'Time since their first start in which jobs made progress that was kept']] : []),
    ['Jobs', 'Restarts', 'low', 'count', always('restarts'), 'Starts after the first one'],
    ['Jobs', 'Failed', 'low', 'count', always('failed'), 'Ended with an error'],
    ['Jobs', 'Unfinished', 'low', 'count', always('unfinished'), 'Pending or running at the end of the simulation'],
  ].map(([group, name, better, kind, value, title]) => ({ group, name, better, kind, value, title }));

  // headlines names the best policy for the main measures.
  function headlines() {
    const asked = [
      [0, 'Shortest mean completion', 'Mean completion time'], [3, 'Shortest p99 completion', 'p99 completion time'],
      [7, 'Fairest to the worst-off', 'Worst fairness'], [10, 'Highest GPU allocation', 'GPU allocation'],
    ];
    const cards = asked.map(([at, contest, alone]) => {
      const metric = metrics[at];
      const real = runs.map((r, i) => [metric.value(r), i]).filter(([v]) => v !== null && Number.isFinite(v));
      if (!real.length) return null;
      const sign = metric.better === 'low' ? 1 : -1;
      real.sort((a, b) => sign * (a[0] - b[0]));
      const [best, worst] = [real[0], real[real.length - 1]];
      const print = { duration: F.duration, percent: (v) => F.percent(v), number: (v) => 'ρ ' + F.fixed(v) }[metric.kind];
      const tie = real.length > 1 && real[1][0] === best[0];
      return html('div', { class: 'headline', vars: { '--c': compare && !tie ? styles[best[1]].color : 'var(--soft)' } },
        html('span', { class: 'ask' }, compare ? contest : alone),
        html('b', {}, print(best[0])),
        compare && html('span', { class: 'who' }, tie ? F.plural(real.filter((x) => x[0] === best[0]).length, 'policy', 'policies') + ' alike' : styles[best[1]].name + unfinished(runs[best[1]])),
        compare && worst[0] !== best[0] && html('span', { class: 'other' }, `${print(worst[0])} with ${styles[worst[1]].name}`));
    });
    return html('div', { class: 'headlines' }, cards);
  }
  const unfinished = (r) => (r.summary.unfinished > 0 ? `, ${F.number(r.summary.unfinished)} unfinished` : '');
  function comparison() {
    const body = html('div', {});
    F.barTable(body, {
      caption: compare ? 'All policies, all measures. The best value of each column is marked; × compares with it.' : 'All measures of the run.',
      columns: metrics,
      rows: runs.map((r, i) => ({ name: r.label, mark: F.swatch(styles[i]), values: metrics.map((m) => m.value(r)) })),
    });
    const left = runs.filter((r) => r.summary.unfinished > 0);
    const warn = left.length > 0 && html('p', { class: 'warn' }, html('b', {}, 'Some jobs did not finish. '),
      left.map((r) => `${r.label} left ${F.number(r.summary.unfinished)} of ${F.number(r.summary.jobs)}`).join(', ') +
      '. Completion times are of the jobs that ended, so a policy with more unfinished jobs can look better than it is.');
    return section('comparison', compare ? 'Comparison' : 'Summary', body, warn);
  }

  // ---- Distributions.

  function curveSeries(key) {
    return runs.map((r, i) => Object.assign({}, styles[i], { points: r[key].x.map((x, k) => [x, r[key].y[k]]) }));
  }
  function distributions() {
    const grid = html('div', { class: 'grid3' });
    const partial = (key, what, fate) => {
      const short = runs.filter((r) => r[key].n < r[key].of);
      return short.length ? `Share of all ${what}. A curve that stays below 100 % has ${what} that ${fate}.` : `Share of all ${what}.`;
    };
    const shared = { step: true, before: 0, hold: true, xlog: true, ymax: 1, yformat: F.percent, visible, height: 280 };
    const add = (options) => { const card = html('article', { class: 'card' }); grid.append(card); pending.push(() => F.chart(card, Object.assign({}, shared, options))); };
    add({
      title: 'Job completion time', series: curveSeries('jct'), xtime: true, xformat: (v) => F.duration(v), xname: 'within',
      xlabel: 'time from submission to end', ylabel: 'share of jobs', empty: 'no job ended', note: partial('jct', 'jobs', 'did not end'),
    });
    add({
      title: 'Wait until the first start', series: curveSeries('wait'), xtime: true, xfloor: 1, xformat: (v) => F.duration(v), xname: 'within',
      xlabel: 'time from submission to first start', ylabel: 'share of jobs', empty: 'no job started', note: partial('wait', 'jobs', 'never started'),
    });
    add({
      title: 'Finish-time fairness ρ', series: curveSeries('rho'), xname: 'ρ up to', lines: [{ x: 1, label: 'fair share' }],
      xlabel: 'ρ of the app (lower is better)', ylabel: 'share of apps', empty: 'no app ended', note: partial('rho', 'apps', 'did not end'),
    });
    return section('distributions', 'Distributions', grid);
  }

  // ---- The cluster over time.

  function stepSeries(key) {
    return runs.map((r, i) => {
      const s = r[key];
      const points = s.t ? s.v.map((v, k) => [s.t[k], v]) :
        s.v.map((v, k) => [(s.from || 0) + k * s.step, v, s.lo[k], s.hi[k]]);
      return Object.assign({}, styles[i], { points });
    });
  }
  function overTime() {
    const stack = html('div', { class: 'grid1' });
    const gpus = [...new Set(runs.map((r) => r.cluster.gpus))].filter((n) => n > 0);
    const shared = {
      step: true, visible, view: time, xtime: true, xformat: F.moment, xname: 'at', xlabel: 'time since the start of the workload',
      empty: 'the run has no data over time', height: 220, ywhole: true,
    };
    const add = (options) => { const card = html('article', { class: 'card' }); stack.append(card); pending.push(() => F.chart(card, Object.assign({}, shared, options))); };
    add({ title: 'GPUs in use', series: stepSeries('used'), ylabel: 'GPUs', lines: gpus.map((n) => ({ y: n, label: F.number(n) + ' in the cluster' })) });
    add({ title: 'Jobs waiting', series: stepSeries('queued'), ylabel: 'jobs' });
    add({ title: 'GPUs that waiting jobs ask for', series: stepSeries('queued_gpus'), ylabel: 'GPUs' });
    return section('time', 'Over time', html('p', { class: 'hint' },
      'Drag across a chart to zoom; double-click to reset. The charts and the jobs below share the zoom.' +
      ' Where steps are too close together, the line is their mean, and the band (with up to four policies) their range.'), stack);
  }

  // ---- Jobs one by one.

  function rowsOf(r) {
    const { jobs, tick } = data;
    const out = [];
    for (let i = 0; i < jobs.id.length; i++) {
      const phase = r.rows.outcome[i];
      if (phase < 0 || jobs.submit[i] === null) continue;
      const bars = [];
      let at = jobs.submit[i];
      const raw = r.rows.bars[i];
      for (let k = 0; k < raw.length; k += 4) {
        at += raw[k];
        bars.push(at * tick, (at + raw[k + 1]) * tick, raw[k + 2]);
        at += raw[k + 1];
      }
      const end = r.rows.end[i];
      out.push({
        job: i, name: jobs.id[i], from: jobs.submit[i] * tick, to: end === null ? r.end : end * tick, bars, failed: data.phases[phase] === 'failed',
        text: [jobs.id[i], jobs.app[i], jobs.tenant[i], jobs.model[i]].join(' ').toLowerCase(),
      });
    }
    return out;
  }
  const causes = {
    ok: 'nothing', full: 'too few free GPUs', fragmented: 'free GPUs too far apart', 'over-quota': 'its tenant’s share used up', 'over-guarantee': 'tenant guarantee used up', behind: 'jobs ahead of it',
    'back-off': 'pause after a failure', impossible: 'the cluster cannot run it', turn: 'its turn',
  };
  function explainJob(run, row, at) {
    const { jobs, tick } = data;
    const i = row.job;
    const c = run.rows;
    const t = (column) => (column[i] === null ? null : column[i] * tick);
    const phase = data.phases[c.outcome[i]];
    let now = at >= row.from && at <= row.to ? 'waiting' : '';
    for (let k = 0; k < row.bars.length; k += 3) {
      if (at >= row.bars[k] && at <= row.bars[k + 1]) now = F.plural(row.bars[k + 2], 'GPU') + nodesOf(c.bars[i][k / 3 * 4 + 3]);
    }
    const counts = [['restart', c.restarts[i]], ['preemption', c.preemptions[i]], ['move', c.moves[i]], ['failure', c.failures[i]]]
      .filter(([, n]) => n > 0).map(([name, n]) => F.plural(n, name)).join(', ');
    const lines = [
      ['At ' + F.moment(at), now], ['App', jobs.app[i]], ['Tenant', jobs.tenant[i]], ['Model', jobs.model[i]], ['Asked for', F.plural(jobs.gpus[i], 'GPU')],
      ['Submitted', F.moment(row.from)],
      ['Waited', c.start[i] === null ? 'never started' : F.duration(t(c.wait)) + (t(c.queued) > t(c.wait) ? `, ${F.duration(t(c.queued))} in all` : '')],
      ['Mostly for', c.wait[i] > 0 ? causes[data.codes[c.wait_for[i]]] || data.codes[c.wait_for[i]] : ''],
      ['Ran', F.duration(t(c.ran))], ['GPU time', F.gpuTime(c.gpu_s[i])], ['Interrupted', counts],
      ['ρ of its app', c.rho[i] > 0 ? F.fixed(c.rho[i]) : ''],
    ].filter(([, v]) => v);
    const others = compare ? runs.map((r, k) => [r, k]).filter(([r]) => r.rows.outcome[i] >= 0).map(([r, k]) =>
      [F.swatch(styles[k]), styles[k].name, r.rows.jct[i] === null ? 'did not end' : F.duration(r.rows.jct[i] * tick)]) : [];
    return [html('b', {}, row.name), html('span', { class: 'phase ' + phase }, phase), F.tipTable(lines.map(([n, v]) => [null, n, v])),
      html('b', { class: 'rule' }, 'Completion time'), F.tipTable(others.length ? others : [[null, run.label, c.jct[i] === null ? 'did not end' : F.duration(t(c.jct))]])];
  }
  const nodesOf = (n) => (n > 0 ? ' on ' + F.plural(n, 'node') : '');

  function gantt() {
    const state = { run: 0, words: [] };
    const cache = runs.map(() => null);
    const current = () => {
      const all = cache[state.run] || (cache[state.run] = rowsOf(runs[state.run]));
      return state.words.length ? all.filter((r) => state.words.every((w) => r.text.includes(w))) : all;
    };
    let chart = null;
    const counted = html('span', { class: 'counted', role: 'status' });
    const refresh = () => chart.setRows(current());
    const count = (n) => { counted.textContent = `${F.number(n)} of ${F.plural(runs[state.run].summary.jobs, 'job')} shown`; };
    const search = html('input', {
      type: 'search', placeholder: 'Filter: job, app, tenant, model', 'aria-label': 'Filter the jobs by job, app, tenant or model',
      oninput: (e) => { state.words = e.target.value.toLowerCase().split(/\s+/).filter(Boolean); refresh(); },
    });
    const heights = F.choice('Height of rows', [['overview', 'Fit'], ['compact', 'Compact'], ['readable', 'Readable']], 'overview', (m) => chart.setHeight(m));
    const zoom = html('div', { class: 'choice', role: 'group', 'aria-label': 'Zoom' },
      html('button', { type: 'button', 'aria-label': 'Zoom in', onclick: () => time.zoom(0.5) }, '+'),
      html('button', { type: 'button', 'aria-label': 'Zoom out', onclick: () => time.zoom(2) }, '−'),
      html('button', { type: 'button', onclick: () => time.reset() }, 'All'));
    const body = html('div', { id: 'gantt', role: compare ? 'tabpanel' : null });
    const heaviest = Math.max(1, ...runs.flatMap((r) => r.rows.bars.map((b) => { let m = 1; for (let k = 2; k < b.length; k += 4) m = Math.max(m, b[k]); return m; })));
    pending.push(() => {
      chart = F.gantt(body, {
        view: time, label: 'Jobs over time', rows: current(), heaviest, changed: count,
        explain: (row, at) => explainJob(runs[state.run], row, at),
        empty: () => (state.words.length ? 'no job matches the filter' : time.zoomed() ? 'no job in this window' : 'the run had no jobs'),
      });
      repaint.push(chart.redraw);
    });
    return section('jobs', 'Job by job', html('article', { class: 'card' },
      compare && tabs(styles, (i) => { state.run = i; refresh(); }),
      html('div', { class: 'controls' }, search, heights, zoom, counted),
      scaleKey(heaviest), body, html('p', { class: 'note' }, limits())));
  }
  function limits() {
    const parts = ['Rows are jobs in order of submission. Drag along the time axis to zoom in, drag the rows to move, double-click to reset. Zoomed in, only the jobs of that time have a row.'];
    const shown = data.jobs.id.length;
    if (shown < data.all_jobs) {
      parts.push(`The page holds ${F.number(shown)} of ${F.number(data.all_jobs)} jobs: half are those with the most GPU time, the rest an even sample. The figures and curves above include all jobs.`);
    }
    if (data.bar_limit > 0) parts.push(`A job with more than ${F.number(data.bar_limit)} runs is drawn with that many bars, the closest ones joined.`);
    return parts.join(' ');
  }
  function scaleKey(heaviest) {
    return html('div', { class: 'key' },
      html('span', {}, html('i', { class: 'key-wait' }), 'waiting'),
      heaviest > 1 ? html('span', {}, '1 GPU', html('i', { class: 'key-ramp' }), F.plural(heaviest, 'GPU')) : html('span', {}, html('i', { class: 'key-one' }), '1 GPU'),
      html('span', {}, html('i', { class: 'key-bad' }), 'failed'));
  }
  function tabs(names, pick) {
    const buttons = names.map((s, i) => html('button', {
      type: 'button', role: 'tab', 'aria-selected': String(i === 0), tabindex: i === 0 ? 0 : -1, 'aria-controls': 'gantt',
      onclick: () => choose(i),
      onkeydown: (e) => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: names.length - 1 }[e.key];
        if (to === undefined) return;
        e.preventDefault();
        choose((to + names.length) % names.length);
      },
    }, F.swatch(s), s.name));
    function choose(i) {
      buttons.forEach((b, k) => { b.setAttribute('aria-selected', String(k === i)); b.tabIndex = k === i ? 0 : -1; });
      buttons[i].focus({ preventScroll: true });
      pick(i);
    }
    return html('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Policy' }, buttons);
  }

  // ---- Why jobs waited.

  function delays() {
    const any = runs.some((r) => r.summary.delays.length);
    if (!any) return section('delays', 'Why jobs waited', html('article', { class: 'card' }, html('p', { class: 'empty' }, 'no job waited')));
    const rank = (list, known) => [...new Set(list)].sort((a, b) => (known.indexOf(a) + 1 || 99) - (known.indexOf(b) + 1 || 99));
    const sizes = rank(runs.flatMap((r) => r.summary.delays.map((d) => d.size)), ['1', '2-4', '5-8', '>8']);
    const kinds = rank(runs.flatMap((r) => r.summary.delays.map((d) => d.cause)), data.codes);
    const colors = Object.fromEntries(kinds.map((k, i) => [k, { name: causes[k] || k, color: `var(--k${i % 8})`, block: true }]));
    const panels = runs.map(() => html('div', { class: 'stacks' }));
    const measures = {
      time: [(d) => d.time || 0, (v) => F.duration(v)],
      jobs: [(d) => d.jobs, (v) => F.plural(v, 'job')],
      share: [(d, sum) => (sum > 0 ? (d.time || 0) / sum : 0), (v, sum) => F.duration(sum)],
    };
    function show(kind) {
      const [measure, print] = measures[kind];
      const sum = (list, f) => list.reduce((a, d) => a + f(d), 0);
      const of = (r, size) => r.summary.delays.filter((d) => d.size === size).sort((a, b) => kinds.indexOf(a.cause) - kinds.indexOf(b.cause));
      const total = (r, size) => sum(of(r, size), (d) => d.time || 0);
      const largest = kind === 'share' ? 1 : Math.max(1e-9, ...runs.flatMap((r) => sizes.map((s) => sum(of(r, s), measure))));
      runs.forEach((r, i) => F.stacks(panels[i], {
        largest,
        rows: sizes.map((size) => ({
          name: size.replace('-', '–') + (size === '1' ? ' GPU' : ' GPUs'),
          text: of(r, size).length ? print(sum(of(r, size), measure), total(r, size)) : '–',
          parts: of(r, size).map((d) => ({
            color: colors[d.cause].color, block: true, name: colors[d.cause].name, value: measure(d, total(r, size)),
            lines: [['waited for it', F.duration(d.time)], ['of the wait', F.percent(d.time / total(r, size), 2)], ['main cause for', F.plural(d.jobs, 'job')], ['their mean wait', F.duration(d.wait)]],
          })),
        })),
      }));
    }
    show('time');
    return section('delays', 'Why jobs waited', html('article', { class: 'card' },
      html('div', { class: 'controls' },
        F.choice('Measure', [['time', 'Time waited'], ['jobs', 'Jobs'], ['share', 'Share of time']], 'time', show),
        html('div', { class: 'legend' }, kinds.map((k) => html('span', {}, F.swatch(colors[k]), colors[k].name)))),
      html('div', { class: 'grid2' }, runs.map((r, i) => html('div', {}, html('h3', {}, F.swatch(styles[i]), r.label), panels[i]))),
      html('p', { class: 'note' }, 'By the number of GPUs a job asked for. Time: total wait before the first start of all jobs of the size, by cause. Jobs: counted once, under the main cause of their wait.'),
      figures(kinds, sizes)));
  }
  function figures(kinds, sizes) {
    return html('details', {}, html('summary', {}, 'Figures'), html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Figures of why jobs waited' },
      html('table', { class: 'plain' },
        html('thead', {}, html('tr', {}, ['Policy', 'GPUs', 'Cause', 'Jobs', 'Time waited', 'Mean wait'].map((t) => html('th', { scope: 'col' }, t)))),
        html('tbody', {}, runs.map((r) => r.summary.delays.slice()
          .sort((a, b) => sizes.indexOf(a.size) - sizes.indexOf(b.size) || kinds.indexOf(a.cause) - kinds.indexOf(b.cause))
          .map((d) => html('tr', {}, [r.label, d.size, causes[d.cause] || d.cause, F.number(d.jobs), F.duration(d.time), F.duration(d.wait)].map((v) => html('td', {}, v)))))))));
  }

  // ---- The page.

  const pending = []; // what needs the width of its element, and so the page
  const repaint = []; // what does not follow the theme automatically
  function terms() {
    return F.terms([
      ['Completion time (JCT)', 'From a job’s submission to its end, waits and interruptions included; of jobs that ended.'],
      ['Wait', 'From submission to the first start.'],
      ['ρ (finish-time fairness)', 'Time an app took over the time it would have taken alone on its fair share. Above 1 it would have been better off alone.'],
      ['Jain', 'Jain’s index over the ρ of all apps: 1 if all are equal, close to 0 if few get everything.'],
      ['Allocation', 'GPU time held by jobs, of all GPU time until the last end. A held GPU is not necessarily busy.'],
      ['Makespan', 'From the first submission to the last end.'],
    ]);
  }

  document.getElementById('app').replaceChildren(F.themeButton(() => repaint.forEach((f) => f())), header(),
    html('main', { id: 'main' }, headlines(), comparison(), distributions(), overTime(), gantt(), delays()), terms());
  pending.forEach((f) => f());
  document.body.dataset.ready = '1';
})(fairway);
