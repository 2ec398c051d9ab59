// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Stats: the statistics of a workload, from the data in the page.
(function (F) {
  const { html, section } = F;
  const data = JSON.parse(document.getElementById('data').textContent);
  const jobsColor = 'var(--s0)';
  const timeColor = 'var(--s1)';
  const paper = 'paper';
  function share(v) {
    if (v === null || v === undefined) return '–';
    if (v === 0) return '0 %';
    return v < 0.0005 ? '< 0.1 %' : (v * 100).toFixed(1) + ' %';
  }
  const known = data.jobs > data.unknown;
  const pending = []; // what needs the width of its element, and so the page

  const card = (...content) => html('article', { class: 'card' }, content);
  const empty = (text) => card(html('p', { class: 'empty' }, text));
  const sizeName = (size) => size.replace('-', '–') + (size === '1' ? ' GPU' : ' GPUs');
  const key = (...entries) => html('p', { class: 'lane-key' }, entries.filter(Boolean).map(([kind, text, color]) =>
    html('span', {}, html('i', { class: kind, vars: color ? { '--c': color } : {} }), text)));
  const paperKey = (any) => any && ['lane-tick', 'and grey figures: the paper’s Philly cluster'];
  const chart = (parent, options) => { const c = card(); parent.append(c); pending.push(() => F.chart(c, options)); };

  // shareColumns are the jobs and, where run times are known, the GPU time.
  const timed = (cells) => cells.slice(0, known ? 2 : 1);
  const shareColumns = (more) => timed([{ name: 'Jobs', color: jobsColor, format: share, ...more }, { name: 'GPU time', color: timeColor, format: share, ...more }]);

  // figures is a table to unfold, for reading off what charts show.
  function figures(label, head, rows) {
    return html('details', {}, html('summary', {}, 'Figures'), html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
      html('table', { class: 'plain figures' },
        html('thead', {}, html('tr', {}, head.map((t) => html('th', { scope: 'col' }, t)))),
        html('tbody', {}, rows.map((r) => html('tr', {}, r.map((v, i) => (i ? html('td', { class: head[i] === paper ? 'soft' : null }, v) : html('th', { scope: 'row' }, v)))))))));
  }

  // ---- Header.

  function header() {
    return html('header', {},
      html('p', { class: 'brand' }, 'Fairway', html('span', {}, 'workload statistics')),
      html('h1', {}, data.name || 'unnamed workload'),
      data.source && html('p', { class: 'source' }, data.source));
  }
  function headlines() {
    const { tenants, failures, demand, arrivals } = data;
    const cards = [
      ['Jobs', F.number(data.jobs), data.apps > 0 && data.apps < data.jobs ? 'in ' + F.plural(data.apps, 'app') : ''],
      ['GPU hours', F.number(data.gpu_hours),
        known ? `${F.number(demand.mean)} GPUs on average, ${F.number(demand.peak)} at peak, if no job ever waited` : data.jobs > 0 ? 'run times are not known' : ''],
      ['Submitted within', F.duration(data.span), arrivals.mean_gap > 0 ? `a job every ${F.duration(arrivals.mean_gap)} on average` : ''],
      ['Users', data.users > 0 ? F.number(data.users) : '–',
        tenants.count > 0 ? 'in ' + F.plural(tenants.count, 'virtual cluster') : 'no virtual clusters'],
      ['Failed attempts', F.number(failures.trials), failures.jobs > 0 ? `of ${F.plural(failures.jobs, 'job')} (${share(failures.jobs / data.jobs)})` : ''],
    ];
    return html('div', { class: 'headlines' }, cards.map(([ask, value, other]) => html('div', { class: 'headline', vars: { '--c': 'var(--accent)' } },
      html('span', { class: 'ask' }, ask), html('b', {}, value), other && html('span', { class: 'other' }, other))));
  }
  function warning() {
    if (data.unknown === 0) return null;
    return html('p', { class: 'warn' }, known ?
      `${F.number(data.unknown)} of ${F.plural(data.jobs, 'job')} train a model to completion: their run time is not known in advance, and figures that need it leave them out.` :
      'The jobs train a model to completion: their run times are not known in advance, and figures that need them are missing.');
  }

  // ---- Sizes and run times.

  function sizes() {
    const grid = html('div', { class: 'grid3' });
    const colors = data.sizes.map((z, i) => ({ name: sizeName(z.size), color: `var(--s${i % 8})` }));
    const shares = card(html('div', { class: 'chart-head' }, html('h3', {}, known ? 'Jobs and GPU time by size' : 'Jobs by size')));
    F.lanes(shares, {
      name: 'Size', columns: shareColumns({ largest: 1 }),
      rows: data.sizes.map((z, i) => ({
        name: colors[i].name, mark: F.swatch(colors[i]), cells: timed([{ value: z.share }, { value: z.gpu_time }]),
        lines: [['jobs', F.number(z.jobs)], ['mean run time', F.duration(z.mean)], ...z.exact.slice(0, 8).map(([g, n]) => ['– of ' + F.plural(g, 'GPU'), F.plural(n, 'job')])],
      })),
    });
    if (known) shares.append(quantiles());
    grid.append(shares);
    chart(grid, {
      title: 'Run time by size', xlog: true, xtime: true, xfloor: 1, step: true, before: 0, hold: true, ymax: 1, height: known ? 290 : 120,
      series: data.sizes.map((z, i) => Object.assign({}, colors[i], { points: z.x.map((x, k) => [x, z.y[k]]) })).filter((s) => s.points.length),
      xformat: (v) => F.duration(v), yformat: F.percent, xname: 'within', xlabel: 'run time of all attempts', ylabel: 'share of the size’s jobs',
      empty: 'no run time is known', note: 'Share of the jobs of each size that run no longer.',
    });
    return section('sizes', 'Job sizes and run times', grid);
  }
  function quantiles() {
    return html('div', { class: 'inset', tabindex: 0, role: 'region', 'aria-label': 'Run times by size' }, html('table', { class: 'plain figures' },
      html('thead', {}, html('tr', {}, ['Run time', 'p10', 'p50', 'p90', 'p95', 'p99', 'mean'].map((t) => html('th', { scope: 'col' }, t)))),
      html('tbody', {}, data.sizes.map((z) => html('tr', {}, html('th', { scope: 'row' }, sizeName(z.size)),
        [z.p10, z.p50, z.p90, z.p95, z.p99, z.mean].map((v) => html('td', {}, F.duration(v))))))));
  }

  // ---- Demand.

  function demand() {
    const d = data.demand;
    const view = F.view(0, d.jobs.length * d.step || 1);
    const stack = html('div', { class: 'grid1' });
    const each = d.step === 3600 ? 'hour' : F.duration(d.step);
    const add = (title, ylabel, values, more) => chart(stack, Object.assign({
      title, ylabel, series: [{ name: title, color: 'var(--s0)', points: values.map((v, i) => [i * d.step, v]) }], height: 210, step: true, hold: true, ywhole: true,
      view, xtime: true, xformat: F.moment, xname: 'from', xlabel: 'time since the start of the workload', empty: 'nothing over time',
    }, more));
    add('GPUs in use if no job ever waited', 'GPUs', d.gpus, {
      height: known ? 210 : 90, empty: 'no run time is known', lines: d.mean > 0 ? [{ y: d.mean, label: `mean ${F.number(d.mean)}` }] : [],
      note: `Mean of every ${each}; what the jobs would hold on an unlimited cluster.`,
    });
    add(`GPUs asked for by the jobs of each ${each}`, 'GPUs', d.submitted);
    add(`Jobs submitted in each ${each}`, 'jobs', d.jobs);
    return section('demand', 'Demand over time', html('p', { class: 'hint' }, 'Drag across a chart to zoom; double-click to reset. The charts share the zoom.'), stack);
  }

  // ---- Arrivals.

  function arrivals() {
    const { hours, days, mean_gap: mean, p50_gap: p50, p90_gap: p90, cv } = data.arrivals;
    const week = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
    const grid = html('div', { class: 'grid3' });
    const add = (values, title, names, labels, enough, note) => {
      const c = card();
      F.columns(c, {
        title, note: data.span < enough ? note : null, line: { value: 1 / values.length, label: 'even' },
        bars: values.map((v, i) => ({ name: names[i], label: labels[i], value: v || 0, lines: [['share of the jobs', share(v)], ['jobs', F.number(Math.round(v * data.jobs))]] })),
      });
      grid.append(c);
    };
    const clock = hours.map((_, h) => `${h}:00 to ${h}:59`);
    add(hours, 'Jobs by hour of the day', clock, hours.map((_, h) => (h % 3 ? '' : String(h))), 2 * 86400,
      `Submitted within ${F.duration(data.span)}: too short to show a pattern.`);
    add(days, 'Jobs by weekday', week, week.map((d) => d.slice(0, 3)), 28 * 86400,
      `Submitted within ${F.duration(data.span)}: the weekdays do not occur equally often.`);
    const facts = [['Mean gap', F.duration(mean)], ['Median gap', F.duration(p50)], ['p90 gap', F.duration(p90)], ['Variation (CV)', F.fixed(cv)]];
    return section('arrivals', 'Arrivals', html('p', { class: 'hint' }, 'Times of day are those of the workload. Gaps are the times between submissions; with a CV of 1 they are as irregular as a Poisson process, above 1 jobs arrive in bursts.'),
      html('dl', { class: 'facts gaps' }, facts.map(([k, v]) => html('div', {}, html('dt', {}, k), html('dd', {}, v)))), grid);
  }

  // ---- Tenants and models.

  const left = (list, what) => (list.count > list.list.length ? html('p', { class: 'note' }, `The first ${F.number(list.list.length)} of ${F.plural(list.count, what)}.`) : null);
  function tenants() {
    const t = data.tenants;
    const head = html('div', { class: 'chart-head' }, html('h3', {}, 'Virtual clusters'));
    if (!t.list.length) return card(head, html('p', { class: 'empty' }, 'the workload has no virtual clusters'));
    const c = card(head);
    if (t.quota > 0 && known) c.append(key(['lane-tick', 'and grey figures: its share of all quotas']));
    F.lanes(c, {
      name: 'Virtual cluster', against: 'quota',
      columns: shareColumns(),
      rows: t.list.map((x) => ({
        name: x.name, cells: timed([{ value: x.share }, { value: x.gpu_time, against: t.quota > 0 ? x.quota / t.quota : null }]),
        lines: [['jobs', F.number(x.jobs)], ['users', x.users > 0 ? F.number(x.users) : '–'], ['quota', x.quota > 0 ? F.plural(x.quota, 'GPU') : '–']],
      })),
    });
    const note = left(t, 'virtual cluster');
    if (note) c.append(note);
    return c;
  }
  function models() {
    const m = data.models;
    const head = html('div', { class: 'chart-head' }, html('h3', {}, 'Models'));
    if (!m.list.length) return card(head, html('p', { class: 'empty' }, 'the workload names no models'));
    const c = card(head);
    F.lanes(c, {
      name: 'Model', columns: [{ name: 'Jobs', color: jobsColor, format: share }],
      rows: m.list.map((x) => ({ name: x.name, cells: [{ value: x.share }], lines: [['jobs', F.number(x.jobs)]] })),
    });
    const note = left(m, 'model');
    if (note) c.append(note);
    return c;
  }

  // ---- Outcomes and utilisation.

  function outcomes() {
    const title = 'How jobs end';
    if (data.outcomes.filter((o) => o.jobs > 0).length < 2) return section('outcomes', title, empty('the workload records no outcomes: every job ends the same way'));
    const c = card(key(paperKey(true)));
    F.lanes(c, {
      name: 'Outcome', against: paper,
      columns: shareColumns({ largest: 1 }),
      rows: data.outcomes.map((o) => ({
        name: o.name, cells: timed([{ value: o.share, against: o.paper_share }, { value: o.gpu_time, against: o.paper_gpu_time }]), lines: [['jobs', F.number(o.jobs)]],
      })),
    });
    c.append(html('p', { class: 'note' }, 'Killed: ended by the user. Unsuccessful: the last attempt failed. Paper: table 6.'));
    return section('outcomes', title, c);
  }
  function utilisation() {
    const title = 'Utilisation of held GPUs';
    if (!data.util.length) return section('util', title, empty('the workload does not record GPU utilisation'));
    const c = card(key(paperKey(true)));
    F.lanes(c, {
      name: 'Size', against: paper, wide: true,
      columns: ['Passed', 'Killed', 'Unsuccessful', 'All'].map((name, i) => ({ name, color: i === 3 ? timeColor : jobsColor, format: share, largest: 1 })),
      rows: data.util.map((u) => ({
        name: u.gpus > 0 ? F.plural(u.gpus, 'GPU') : 'All sizes', lines: [['jobs', F.number(u.jobs)]],
        cells: u.util.map((v, i) => ({ value: v, against: u.paper.length ? u.paper[i] : null })),
      })),
    });
    c.append(html('p', { class: 'note' }, 'Means over GPU time. Only these sizes have a row, as in the paper’s table 3; “All sizes” includes every job with a value.'));
    return section('util', title, c);
  }

  // ---- Failures.

  const dots = [{ name: 'p50', color: 'var(--s0)' }, { name: 'p90', color: 'var(--s4)' }, { name: 'p95', color: 'var(--s1)' }];
  const times = (f) => (f ? [f.p50, f.p90, f.p95] : null);
  function failures() {
    const f = data.failures;
    const title = 'Failures';
    if (!(f.trials > 0)) return section('failures', title, empty('no attempt fails in this workload'));
    const compared = f.reasons.some((r) => r.paper);
    const c = card(
      html('dl', { class: 'facts gaps' }, [
        ['Failed attempts', F.number(f.trials)], ['Jobs with a failed attempt', `${F.number(f.jobs)} (${share(f.jobs / data.jobs)})`],
        ['Failed attempts of such a job', `${F.fixed(f.per_job)} (paper: ${F.fixed(f.paper_per_job, 2)})`],
      ].map(([k, v]) => html('div', {}, html('dt', {}, k), html('dd', {}, v)))),
      key(...dots.map((d) => ['lane-dot', d.name, d.color]), compared && ['lane-ring', 'the paper’s dots', 'var(--soft)'], paperKey(compared)));
    F.lanes(c, {
      name: 'Reason', against: paper, wide: true,
      columns: [
        { name: 'Attempts', title: 'Share of the failed attempts', color: jobsColor, format: share },
        { name: 'Per job', title: 'Failed attempts of a job that fails for the reason', color: 'var(--s3)', minor: true, format: (v) => F.fixed(v, 2) },
        { name: 'Run time to failure', dots },
        { name: 'Time', title: 'Share of the summed run time to failure', color: timeColor, format: share },
        { name: 'GPU time', title: 'Share of the summed run time to failure times GPUs', color: timeColor, minor: true, format: share },
      ],
      rows: f.reasons.map((r) => {
        const cell = (k) => ({ value: r.is[k], against: r.paper ? r.paper[k] : null });
        return {
          name: r.name || 'no reason given', cells: [cell('trials'), cell('per_job'), { values: times(r.is), against: times(r.paper) }, cell('time'), cell('gpu_time')],
          lines: [['attempts', F.number(r.trials)], ['jobs', F.number(r.jobs)], ['users', r.users > 0 ? F.number(r.users) : '–']],
        };
      }),
    });
    if (f.count > f.reasons.length) c.append(html('p', { class: 'note' }, `The first ${F.number(f.reasons.length)} of ${F.plural(f.count, 'reason')}.`));
    c.append(html('p', { class: 'note' }, 'Attempts: share of the failed attempts. Per job: failed attempts of a job that fails for the reason. Time, GPU time: share of the summed run time to failure, and of that times GPUs. Paper: table 7.'),
      failureFigures(f));
    return section('failures', title, c);
  }
  function failureFigures(f) {
    const head = ['Reason', 'Attempts', 'Jobs', 'Users', 'Per job', paper, 'p50', paper, 'p90', paper, 'p95', paper, 'Time', paper, 'GPU time', paper, '1 GPU', '2–4', '> 4'];
    return figures('Figures of failures', head, f.reasons.map((r) => {
      const pair = (k, print) => [print(r.is[k]), r.paper ? print(r.paper[k]) : '–'];
      const d = (v) => F.duration(v);
      return [r.name || 'no reason given', F.number(r.trials), F.number(r.jobs), r.users > 0 ? F.number(r.users) : '–', ...pair('per_job', (v) => F.fixed(v)),
        ...pair('p50', d), ...pair('p90', d), ...pair('p95', d), ...pair('time', share), ...pair('gpu_time', share), ...r.by_size.map((n) => F.number(n))];
    }));
  }

  // ---- The page.

  function terms() {
    return F.terms([
      ['Run time', 'Of all attempts of a job at the GPUs it asks for, failed ones included; waits are not.'],
      ['GPU time', 'Run time times GPUs: what a job would hold on a cluster of its own.'],
      ['Virtual cluster', 'A tenant: a group of users with a quota of GPUs.'],
      ['Attempt', 'One run of a job. After a failed attempt a job may be retried.'],
      ['Run time to failure', 'How long a failed attempt ran. p50: half of them ran at most this long.'],
    ], html('p', {}, 'Figures marked “paper”: M. Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, USENIX ATC 2019.'));
  }
  const body = data.jobs > 0 ?
    [headlines(), warning(), sizes(), demand(), arrivals(), section('who', 'Virtual clusters and models', html('div', { class: 'grid3' }, tenants(), models())), outcomes(), utilisation(), failures()] :
    [headlines(), section('nothing', 'Nothing to show', empty('the workload has no jobs'))];
  document.getElementById('app').replaceChildren(...[F.themeButton(() => {}), header(), html('main', { id: 'main' }, body), terms()]);
  pending.forEach((f) => f());
  document.body.dataset.ready = '1';
})(fairway);
