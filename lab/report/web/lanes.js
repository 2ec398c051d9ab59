// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Lanes: rows of bars and dots that are compared with figures from elsewhere,
// and columns, for shares of a cycle such as the hours of a day.
(function (F) {
  const { html } = F;
  const real = (v) => v !== null && v !== undefined && Number.isFinite(v);
  const percent = (v) => (v * 100).toFixed(2) + '%';

  // focusable makes an element show the same tooltip under the pointer and
  // the keyboard.
  function focusable(label, tell) {
    return {
      tabindex: 0, 'aria-label': label,
      onpointermove: (e) => tell(e.clientX, e.clientY), onpointerleave: F.hideTip,
      onfocus: (e) => { const b = e.target.getBoundingClientRect(); tell(b.left + b.width / 2, b.top + b.height / 2); },
      onblur: F.hideTip,
    };
  }

  // lanes draws one row for each thing.
  //
  //   fairway.lanes(element, {
  //     name,                                   // of the first column
  //     against,                                // what the figures from elsewhere are called
  //     wide: true,                             // folds already in a page of middling width
  //     columns: [{name, title, color, format, largest,      // a bar; largest fills it, default: of all rows
  //                minor: true}                              // left out on a phone
  //               {name, title, dots: [{name, color}]}],     // dots on a logarithmic axis of seconds
  //     rows: [{name, mark, lines: [[name, text]],           // lines: more for the tooltip
  //       cells: [{value, against} | {values: [...], against: [...]}]}],
  //   })
  //
  // A value that is null is not known; against may be left out.
  F.lanes = function (element, options) {
    const columns = options.columns.map((c, i) => (c.dots ? dotColumn : barColumn)(c, options.rows.map((r) => r.cells[i]), options.against));
    const folds = options.wide || columns.some((c) => c.compared);
    const template = {
      '--lane': 'minmax(110px, 165px) ' + columns.map((c) => (c.dots ? 'minmax(240px, 2fr)' : 'minmax(120px, 1fr)')).join(' '),
      '--narrow': '94px ' + columns.map(() => '1fr').join(' '),
    };
    element.append(html('div', { class: 'lanes' + (options.wide ? ' wide' : '') + (folds ? ' folds' : '') },
      html('div', { class: 'lane lane-head', 'aria-hidden': 'true', vars: template }, html('span', { class: 'lane-name' }, options.name), columns.map((c) => c.head())),
      options.rows.map((row) => {
        const lines = columns.flatMap((c, i) => c.lines(row.cells[i])).concat((row.lines || []).map(([n, t]) => [null, n, t]));
        const tell = (x, y) => F.showTip(x, y, html('b', {}, row.name), F.tipTable(lines));
        const label = row.name + ': ' + lines.map(([, n, t]) => n + ' ' + t).join(', ');
        return html('div', Object.assign({ class: 'lane', role: 'img', vars: template }, focusable(label, tell)),
          html('span', { class: 'lane-name' }, row.mark, row.name), columns.map((c, i) => c.cell(row.cells[i])));
      })));
  };

  function barColumn(column, cells, against) {
    const compared = cells.some((c) => real(c.against));
    const largest = column.largest || Math.max(1e-12, ...cells.flatMap((c) => [c.value, c.against]).filter(real));
    const color = { color: column.color, block: true };
    const kind = 'lane-cell' + (column.minor ? ' minor' : '');
    return {
      compared,
      head: () => html('span', { class: kind, title: column.title },
        html('span', { class: 'lane-title' }, column.name), compared && html('span', { class: 'lane-against' }, against)),
      cell: (c) => html('span', { class: kind },
        html('span', { class: 'lane-label' }, column.name),
        html('span', { class: 'lane-track' },
          c.value > 0 && html('i', { class: 'lane-bar', vars: { '--c': column.color, width: percent(Math.min(1, c.value / largest)) } }),
          real(c.against) && html('i', { class: 'lane-tick', vars: { left: percent(Math.min(1, c.against / largest)) } })),
        html('span', { class: 'lane-value' }, column.format(c.value)),
        html('span', { class: 'lane-against' + (compared ? '' : ' lane-blank') }, real(c.against) ? column.format(c.against) : '')),
      lines: (c) => [[F.swatch(color), column.name, column.format(c.value) + (real(c.against) ? ` (${against}: ${column.format(c.against)})` : '')]],
    };
  }

  function dotColumn(column, cells, against) {
    const positive = cells.flatMap((c) => c.values.concat(c.against || [])).filter((v) => real(v) && v > 0);
    const from = positive.length ? Math.min(...positive) / 1.5 : 1;
    const to = positive.length ? Math.max(...positive) * 1.5 : 10;
    const at = (v) => percent(Math.log(Math.max(v, from) / from) / Math.log(to / from));
    const ticks = F.logTicks(from, to, 12, true);
    const rules = () => ticks.map((t) => html('i', { class: 'lane-rule', vars: { left: at(t) } }));
    const dots = (values, kind) => (values || []).map((v, i) => real(v) && html('i', { class: kind, vars: { left: at(v), '--c': column.dots[i].color } }));
    return {
      dots: true,
      head: () => html('span', { class: 'lane-cell lane-dots', title: column.title },
        html('span', { class: 'lane-title' }, column.name),
        html('span', { class: 'lane-axis' }, ticks.map((t) => html('span', { vars: { left: at(t) } }, F.duration(t))))),
      cell: (c) => html('span', { class: 'lane-cell lane-dots' },
        html('span', { class: 'lane-track' }, rules(), dots(c.against, 'lane-ring'), dots(c.values, 'lane-dot'))),
      lines: (c) => column.dots.map((d, i) => [F.swatch({ color: d.color, block: true }), d.name,
        F.duration(c.values[i]) + (c.against && real(c.against[i]) ? ` (${against}: ${F.duration(c.against[i])})` : '')]),
    };
  }

  // columns draws the shares of a cycle as upright bars.
  //
  //   fairway.columns(element, {title, note, height, bars: [{name, label, value, lines: [[name, text]]}], line: {value, label}})
  //
  // name is for the tooltip, label for the axis (may be empty).
  F.columns = function (element, { title, note, bars, line, height = 180 }) {
    const top = Math.max(1e-12, line.value, ...bars.map((b) => b.value)) * 1.08;
    const up = (v) => percent(v / top);
    element.append(
      html('div', { class: 'chart-head' }, html('h3', {}, title)),
      html('div', { class: 'columns', vars: { height: height + 'px' } },
        F.linearTicks(0, top, 4, false).map((t) => html('span', { class: 'columns-rule', vars: { bottom: up(t) } }, F.percent(t, 2))),
        bars.map((b) => {
          const tell = (x, y) => F.showTip(x, y, html('b', {}, b.name), F.tipTable(b.lines.map(([n, t]) => [null, n, t])));
          return html('span', Object.assign({ class: 'column', role: 'img' }, focusable(b.name + ': ' + b.lines.map((l) => l.join(' ')).join(', '), tell)),
            b.value > 0 && html('i', { vars: { height: up(b.value) } }));
        }),
        html('span', { class: 'columns-line', vars: { bottom: up(line.value) } }, html('span', {}, line.label))),
      html('div', { class: 'columns-labels', 'aria-hidden': 'true' }, bars.map((b) => html('span', {}, b.label))),
      note ? html('p', { class: 'note' }, note) : '');
  };
})(fairway);
