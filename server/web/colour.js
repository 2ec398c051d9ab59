// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Colour: every app has a hue of its own, its jobs differ in lightness. The hue
// follows from the name, so it is the same on every page and after a reload,
// unless two apps on the screen would share it: then the later one moves on.

const hues = 12;
const taken = new Map(); // app -> slot; slots from hues on are darker

function hash(text) {
  let v = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) v = Math.imul(v ^ text.charCodeAt(i), 0x01000193) >>> 0;
  // Names that differ in their last letter only must end up far apart.
  v = Math.imul(v ^ (v >>> 16), 0x85ebca6b) >>> 0;
  v = Math.imul(v ^ (v >>> 13), 0xc2b2ae35) >>> 0;
  return (v ^ (v >>> 16)) >>> 0;
}

function slotOf(app) {
  if (taken.has(app)) return taken.get(app);
  const used = new Set(taken.values());
  const first = hash(app) % hues;
  let slot = first;
  // 5 is prime to both numbers: every slot is tried, the light ones first.
  for (let i = 1; i < hues && used.has(slot); i++) slot = (first + i * 5) % hues;
  for (let i = 0; i < hues && used.has(slot); i++) slot = hues + (first + i * 5) % hues;
  if (used.has(slot)) slot = first;
  taken.set(app, slot);
  return slot;
}

// forget frees the hues of apps that are gone.
export function forget(present) {
  const names = new Set(present);
  for (const app of taken.keys()) if (!names.has(app)) taken.delete(app);
}

// jobColour returns the colour of a job.
export function jobColour(job) {
  const id = job.id || String(job);
  const app = job.app || id;
  const slot = slotOf(app);
  const level = -(app === id ? 0 : hash(id) % 3) * 0.05 - (slot >= hues ? 0.1 : 0);
  return 'oklch(calc(var(--job-l) + ' + level.toFixed(2) + ') var(--job-c) ' + (slot % hues) * (360 / hues) + ')';
}

// seriesColour returns the colour of the n-th line of a chart.
export const seriesColour = (n) => 'var(--s' + n % 8 + ')';
export const seriesDash = (n) => (n < 8 ? '' : n < 16 ? '6 3' : '2 3');
