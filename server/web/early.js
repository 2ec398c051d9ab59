// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Runs before the page is drawn, so that a chosen theme does not flash.
(function () {
  try {
    const theme = localStorage.getItem('fairway-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // No storage, no memory of the choice.
  }
})();
