// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Panel: a part of a page that is loading, empty, broken or full, and says
// which. What is shown stays while the daemon is away.
import { h, keep, show } from './dom.js';

let serial = 0;

// panel makes one. part gives extra elements for its head.
export function panel(title, { part = [], plain = false, note = '' } = {}) {
  const id = 'panel-' + ++serial;
  const body = keep(h('div', { class: 'panel-body' }, h('p', { class: 'loading' }, 'Loading…')));
  const trouble = keep(h('div', {}));
  const heading = h('h2', { id }, title);
  const element = keep(h('section', { class: plain ? 'panel' : 'card panel', 'aria-labelledby': id, 'aria-busy': 'true' },
    h('div', { class: 'card-head' }, heading, h('div', { class: 'card-part' }, part)), note && h('p', { class: 'hint' }, note), trouble, body));
  let full = false;
  return {
    element,
    title: (...text) => show(heading, ...text),
    // show fills the panel.
    show(...content) {
      full = true;
      element.setAttribute('aria-busy', 'false');
      show(trouble);
      show(body, ...content);
    },
    // empty says that there is nothing, and what one could do.
    empty(text, ...hint) {
      this.show(h('div', { class: 'empty' }, h('p', {}, text), hint.length ? h('p', { class: 'hint' }, ...hint) : null));
    },
    // fail says what went wrong.
    fail(error) {
      element.setAttribute('aria-busy', 'false');
      if (full && error.code === 'offline') return; // the head of the page says so
      show(trouble, failure(error));
      if (!full) show(body);
    },
  };
}

// failure is an error for people.
export const failure = (error) => h('div', { class: 'failure', role: 'alert' },
  h('b', {}, (error.field ? error.field + ': ' : '') + error.message), error.remedy ? h('span', {}, ': ' + error.remedy + '.') : null);

// fill asks and shows the answer, or the error, in a panel.
export async function fill(target, ask, render) {
  try {
    render(await ask);
  } catch (error) {
    if (error.name === 'AbortError') return;
    if (!error.code) throw error; // a bug of ours: to the console
    target.fail(error);
  }
}
