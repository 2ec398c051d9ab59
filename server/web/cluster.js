// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Cluster: the GPUs and who has them: a row of named cells for each node, or, where
// there are too many for that, a map. And what to expect of them.
import { choice } from './choice.js';
import { forget } from './colour.js';
import { h } from './dom.js';
import { gpuGrid, heldGPUs } from './grid.js';
import { clusterMap, colourings } from './map.js';
import { ms } from './format.js';
import { panel } from './panel.js';

const named = 40; // nodes that are drawn with names

export function gpuPanel(title) {
  const map = clusterMap();
  let by = 'job';
  let last = null;
  const colour = choice('Colour', Object.entries(colourings).map(([key, text]) => [text, key]), by, (v) => { by = v; if (last) map.draw({ ...last, by }); });
  const p = panel(title, { part: [colour] });
  let at = [0, 0]; // the cell of the grid that Tab reaches
  colour.hidden = true;
  p.close = () => map.close();
  p.draw = (nodes, jobs, now) => {
    forget(jobs.map((j) => j.app || j.id));
    colour.hidden = nodes.length <= named;
    last = { nodes, jobs: new Map(jobs.map((j) => [j.id, j])), now };
    const grid = () => gpuGrid({ latest: () => last, at, move: (to) => { if (to.join() !== at.join()) { at = to; p.show(grid()); } } });
    if (!nodes.length) p.empty('No nodes yet.', 'The daemon detects GPUs when it starts; without GPUs it offers CPU slots. See the log of fairway up.');
    else if (nodes.length <= named) p.show(grid());
    else { p.show(map.element); map.draw({ ...last, by }); }
  };
  return p;
}

// forecast returns how many GPUs are expected to be held: running jobs leave when
// they say, waiting ones come when they are expected; null: nobody knows anything.
export function forecast({ held, all, running, waiting, now, until }) {
  const changes = [
    ...running.filter((j) => j.left_s > 0).map((j) => [now + 1000 * j.left_s, -heldGPUs(j)]),
    ...waiting.filter((j) => ms(j.reason?.until) > 0).map((j) => [Math.max(now, ms(j.reason.until)), j.min_gpus || j.gpus]),
  ].filter(([at]) => at <= until).sort((a, b) => a[0] - b[0]);
  if (!changes.length) return null;
  const points = [[now, held]];
  for (const [at, n] of changes) points.push([at, Math.min(all, Math.max(0, points[points.length - 1][1] + n))]);
  return points;
}
