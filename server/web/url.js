// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Url: the address of a page: its path, and what is chosen on it, so that a link
// shows others what one sees.

// here returns the parts of the path and the choices.
export function here() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { parts: path.split('/').map(decode), chosen: new URLSearchParams(query) };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// href returns the address of a page; empty choices are left out.
export function href(parts, choices = {}) {
  const query = new URLSearchParams(Object.entries(choices).filter(([, v]) => v !== '' && v !== null && v !== undefined)).toString();
  return '#/' + parts.map(encodeURIComponent).join('/') + (query ? '?' + query : '');
}

// choose writes choices into the address of this page. Nothing is loaded anew.
export function choose(changes) {
  const { parts, chosen } = here();
  history.replaceState(null, '', href(parts, { ...Object.fromEntries(chosen), ...changes }));
}
