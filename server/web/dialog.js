// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Dialog: asks before something is done that cannot be taken back. The
// browser's own dialog keeps the focus inside, closes with Escape and gives the
// focus back.
import { h, show } from './dom.js';
import { failure } from './panel.js';

// confirm asks; act is called on yes and may fail, then the dialog says why
// and stays.
export function confirm({ title, text, yes, no = 'Keep', danger = false, act }) {
  const trouble = h('div', {});
  const go = h('button', { type: 'button', class: danger ? 'danger' : 'primary' }, yes);
  const leave = h('button', { type: 'button', class: 'quiet', autofocus: true, onclick: () => box.close() }, no);
  const box = h('dialog', { class: 'dialog', 'aria-labelledby': 'dialog-title', 'aria-describedby': 'dialog-text' },
    h('h2', { id: 'dialog-title' }, title), h('div', { id: 'dialog-text' }, text), trouble, h('div', { class: 'buttons' }, leave, go));
  go.onclick = async () => {
    go.disabled = true;
    try {
      await act();
      box.close();
    } catch (error) {
      show(trouble, failure(error));
      go.disabled = false;
      if (!error.code) throw error;
    }
  };
  box.addEventListener('close', () => box.remove());
  document.body.append(box);
  box.showModal();
}
