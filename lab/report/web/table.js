// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Tables with bars, and stacked bars.
(function (F) {
  // barTable compares rows column by column.
  //
  //   fairway.barTable(element, {
  //     caption, rows: [{name, mark, values: [...]}],       // null: no value
  //     columns: [{group, name, title, better: 'low' | 'high' | '', kind: 'duration' | 'percent' | 'count' | 'number'}],
  //   })
  //
  // The best value of a column is marked where the column says what is better
  // and the rows do not all agree.
  F.barTable = function (element, { caption, columns, rows }) {
    const groups = [];
    for (const c of columns) {
      const last = groups[groups.length - 1];
      if (last && last.name === c.group) last.span++; else groups.push({ name: c.group, span: 1 });
    }
    const starts = (i) => i === 0 || columns[i].group !== columns[i - 1].group;
    const judged = columns.map((c, i) => judge(c, rows.map((r) => r.values[i])));
    element.append(F.html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
      F.html('table', { class: 'bars' },
        F.html('thead', {},
          F.html('tr', {}, F.html('td', {}), groups.map((g) => F.html('th', { colspan: g.span, scope: 'colgroup', class: 'first' }, g.name))),
          F.html('tr', {}, F.html('th', { scope: 'col' }, 'Policy'), columns.map((c, i) => F.html('th', { scope: 'col', title: c.title, class: starts(i) ? 'first' : null }, c.name)))),
        F.html('tbody', {}, rows.map((row, r) => F.html('tr', {},
          F.html('th', { scope: 'row' }, row.mark, row.name),
          columns.map((c, i) => cell(judged[i], r, starts(i)))))))),
    F.html('p', { class: 'note' }, caption));
  };

  // judge finds out how a column's values compare.
  function judge(column, values) {
    const real = values.filter((v) => v !== null && Number.isFinite(v));
    const unit = column.kind === 'duration' ? F.commonUnit(real) : null;
    const print = {
      duration: (v) => (v === 0 ? '0' : F.duration(v, unit)), percent: (v) => F.fixed(v * 100) + ' %', count: (v) => F.number(v), number: (v) => F.fixed(v),
    }[column.kind];
    const largest = Math.max(0, ...real);
    const differ = real.length > 1 && Math.max(...real) > Math.min(...real);
    const best = !column.better || !differ ? null : column.better === 'low' ? Math.min(...real) : Math.max(...real);
    return { values, print, largest, best, differ };
  }
  function cell({ values, print, largest, best, differ }, r, first) {
    const v = values[r];
    if (v === null || !Number.isFinite(v)) return F.html('td', { class: first ? 'first none' : 'none' }, '–');
    const top = best !== null && v === best;
    let versus = '';
    if (top) versus = 'best';
    else if (best !== null && best > 0 && v > 0) versus = '×' + F.fixed(v / best);
    return F.html('td', { class: (first ? 'first' : '') + (top ? ' best' : '') },
      F.html('span', { class: 'value' }, print(v)),
      differ && F.html('span', { class: 'bar' }, F.html('i', { vars: { width: (largest > 0 ? v / largest * 100 : 0).toFixed(1) + '%' } })),
      differ && F.html('span', { class: 'versus' }, versus));
  }

  // stacks draws rows of stacked bars that share a scale.
  //
  //   fairway.stacks(element, {
  //     rows: [{name, parts: [{color, name, value, lines: [[name, text]]}], text}],
  //     largest,  // the value that fills the width
  //   })
  F.stacks = function (element, { rows, largest }) {
    element.replaceChildren(...rows.map((row) => F.html('div', { class: 'stack' },
      F.html('span', { class: 'stack-name' }, row.name),
      F.html('span', { class: 'stack-track' }, row.parts.filter((p) => p.value > 0).map((p) => F.html('i', {
        tabindex: 0, role: 'img', 'aria-label': p.name + ': ' + p.lines.map((l) => l.join(' ')).join(', '),
        vars: { '--c': p.color, width: (p.value / largest * 100).toFixed(2) + '%' },
        onpointermove: (e) => explain(e.clientX, e.clientY, row, p),
        onpointerleave: F.hideTip,
        onfocus: (e) => { const b = e.target.getBoundingClientRect(); explain(b.right, b.top, row, p); },
        onblur: F.hideTip,
      }))),
      F.html('span', { class: 'stack-text' }, row.text))));
  };
  function explain(x, y, row, part) {
    F.showTip(x, y, F.html('b', {}, part.name), F.tipTable([[F.swatch(part), row.name, '']].concat(part.lines.map(([n, t]) => [null, n, t]))));
  }
})(fairway);
