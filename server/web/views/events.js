// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Events: the journal, newest first, live, by kind, job and word, which are in the address.
import { get } from '../api.js';
import { h } from '../dom.js';
import { eventList, kinds, namesIn, say } from '../events.js';
import { isChatty, jobOf, kindOf } from '../feed.js';
import { number } from '../format.js';
import { fill, panel } from '../panel.js';
import { choose, here } from '../url.js';

const page = 500;
const most = 2000; // kept
const shownAtOnce = 300;

export function eventsView({ refreshSoon }) {
  let records = [];
  let first = 0; // of what was asked for
  let oldest = 1;
  let room = shownAtOnce;
  const { chosen } = here();
  const kind = h('select', { id: 'event-kind', onchange: () => { choose({ kind: kind.value }); reload(); } }, h('option', { value: '' }, 'important'), h('option', { value: '*' }, 'everything'), kinds.map((k) => h('option', { value: k }, k)));
  const word = h('input', { type: 'search', placeholder: 'Job id or text', 'aria-label': 'Filter by job id or text', autocomplete: 'off', spellcheck: 'false', maxlength: 200, value: chosen.get('search') || '', oninput: () => { room = shownAtOnce; choose({ search: word.value.trim() }); draw(); } });
  if (['*', ...kinds].includes(chosen.get('kind'))) kind.value = chosen.get('kind');
  const list = panel('Events', { part: [h('label', {}, 'Kind ', kind), word] });
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Events'), list.element);
  const wanted = () => (kind.value === '*' ? '' : kind.value);

  function reload() {
    records = [];
    room = shownAtOnce;
    refreshSoon();
  }
  async function refresh() {
    const last = records.length ? records[records.length - 1].seq : 0;
    await fill(list, last ? ask(last) : get(['overview']).then((o) => { first = Math.max(0, o.seq - page); return ask(first); }), (p) => { take(p.records || []); oldest = p.oldest || 1; draw(); });
  }
  const ask = (after) => get(['events'], { after: after || undefined, kind: wanted(), limit: page });
  const older = () => {
    const to = first;
    first = Math.max(0, first - page);
    return fill(list, get(['events'], { after: first || undefined, kind: wanted(), limit: page }), (p) => { take((p.records || []).filter((r) => r.seq <= to)); room += page; draw(); });
  };
  function take(more) {
    const bySeq = new Map(records.map((r) => [r.seq, r]));
    for (const r of more) if (!wanted() || kindOf(r) === wanted()) bySeq.set(r.seq, r);
    records = [...bySeq.values()].sort((a, b) => a.seq - b.seq).slice(-most);
  }
  function draw() {
    const text = word.value.trim().toLowerCase();
    const fits = (r) => (kind.value || !isChatty(r)) && (!text || (jobOf(r) + ' ' + (r.task?.name || '') + ' ' + say(r) + ' ' + (r.actor || '')).toLowerCase().includes(text));
    const found = records.filter(fits).reverse();
    list.title('Events', h('span', { class: 'count' }, number(found.length)));
    const more = first >= oldest ? h('div', { class: 'pager' }, h('button', { type: 'button', class: 'quiet', onclick: older }, 'Older events')) : null;
    if (found.length) list.show(eventList(found.slice(0, room), namesIn(records)), found.length > room ? h('div', { class: 'pager' }, h('button', { type: 'button', class: 'quiet', onclick: () => { room += shownAtOnce; draw(); } }, 'Show more')) : more);
    else if (text || kind.value) list.show(h('div', { class: 'empty' }, h('p', {}, 'No matching events.'), h('p', { class: 'hint' }, 'Try another text or kind.')), more);
    else list.show(h('div', { class: 'empty' }, h('p', {}, 'No events yet.')), more);
  }
  return { title: 'Events', element, refresh };
}
