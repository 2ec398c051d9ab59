// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Login: asks for a token when the daemon does not know who asks.
import { login } from '../api.js';
import { h, show } from '../dom.js';
import { failure } from '../panel.js';

export function loginView(done) {
  const trouble = h('div', {});
  const token = h('input', { id: 'token', name: 'token', type: 'password', autocomplete: 'current-password', required: true, maxlength: 400, placeholder: 'fw_…' });
  const go = h('button', { type: 'submit', class: 'primary' }, 'Sign in');
  const form = h('form', { class: 'card login', method: 'post', action: '/login' },
    h('h1', {}, 'Sign in'), h('p', { class: 'hint' }, h('code', {}, 'fairway dashboard'), ' prints a link that signs you in, at any time. Or paste a token; an admin creates one with ', h('code', {}, 'fairway token create'), '.'),
    trouble, h('input', { name: 'username', autocomplete: 'username', value: 'fairway', hidden: true, tabindex: -1 }), h('label', { for: 'token' }, 'Token'), token, go);
  form.onsubmit = async (e) => {
    e.preventDefault();
    go.disabled = true;
    try {
      await login(token.value.trim());
      done();
    } catch (error) {
      show(trouble, failure(error));
      token.select();
      if (!error.code) throw error;
    } finally {
      go.disabled = false;
    }
  };
  return { title: 'Sign in', element: h('div', { class: 'page narrow' }, form), refresh: async () => {}, focus: () => token.focus() };
}
