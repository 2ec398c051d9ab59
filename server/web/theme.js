// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Theme: the button that goes through automatic, light and dark.

const order = ['auto', 'light', 'dark'];
const names = { auto: 'Auto', light: 'Light', dark: 'Dark' };

export function themeButton(button) {
  const root = document.documentElement;
  const name = () => {
    const now = root.dataset.theme || 'auto';
    button.textContent = names[now];
    button.setAttribute('aria-label', 'Colours: ' + names[now].toLowerCase() + '. Change');
    button.title = 'Colours: automatic, light or dark';
  };
  button.addEventListener('click', () => {
    const next = order[(order.indexOf(root.dataset.theme || 'auto') + 1) % order.length];
    if (next === 'auto') delete root.dataset.theme; else root.dataset.theme = next;
    try { localStorage.setItem('fairway-theme', next); } catch { /* not kept */ }
    name();
  });
  name();
}
