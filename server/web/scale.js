// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Scale: from values to pixels, and where the ticks go.
import { clock, day, duration } from './format.js';

// scale maps a domain to pixels, straight.
export function scale([a, b], [p, q]) {
  const k = b === a ? 0 : (q - p) / (b - a);
  return { to: (v) => p + (v - a) * k, from: (x) => (k === 0 ? a : a + (x - p) / k), domain: [a, b] };
}

// logScale maps a domain of positive values to pixels by their logarithm.
export function logScale([a, b], range) {
  const line = scale([Math.log(a), Math.log(b)], range);
  return { to: (v) => line.to(Math.log(v)), from: (x) => Math.exp(line.from(x)), domain: [a, b] };
}

// logTicks returns powers of ten in a domain, and 2 and 5 times them if there are few.
export function logTicks(from, to) {
  const few = Math.log10(to / from) < 2.5;
  const out = [];
  for (let e = Math.floor(Math.log10(from)); 10 ** e <= to; e++) {
    for (const m of few ? [1, 2, 5] : [1]) {
      const v = Number((m * 10 ** e).toPrecision(12));
      if (v >= from && v <= to) out.push(v);
    }
  }
  return out;
}

// smooth averages a series with what came before: weight 0 leaves it as it is, near
// 1 forgets slowly. The first values are not pulled towards 0.
export function smooth(points, weight) {
  let [mean, whole] = [0, 0];
  return points.map(([x, y]) => {
    if (y === null) return [x, y];
    mean = mean * weight + y * (1 - weight);
    whole = whole * weight + 1 - weight;
    return [x, mean / whole];
  });
}

// advancing drops what was done twice: after work was lost, the second time counts.
export function advancing(points) {
  const out = [];
  for (const p of points) {
    while (out.length && out[out.length - 1][0] >= p[0]) out.pop();
    out.push(p);
  }
  return out;
}

// ticks returns round values in a domain, at most about count.
export function ticks(from, to, count, whole = false) {
  const span = to - from;
  if (!(span > 0)) return [from];
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 5, 10].map((m) => m * power).find((v) => v >= raw * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const out = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) out.push(Number((i * step).toPrecision(12)) + 0);
  return out;
}

const second = 1000;
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000].map((v) => v * second);

// timeTicks returns round moments of local time, or of the time since the start:
// [{at, label}].
export function timeTicks(from, to, count, since = false) {
  const span = to - from;
  const step = steps.find((v) => span / v <= Math.max(1, count)) || steps[steps.length - 1];
  const shift = since ? 0 : new Date(from).getTimezoneOffset() * 60 * second;
  const out = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
    if (since) { out.push({ at, label: duration(at / 1000) }); continue; }
    const d = new Date(at);
    const midnight = d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0;
    out.push({ at, label: step >= 86400 * second || (midnight && span > 6 * 3600 * second) ? day(at) : clock(at, step < 60 * second) });
  }
  return out;
}

// indexAt returns the last point at or before x; -1: none.
export function indexAt(points, x) {
  let [low, high] = [-1, points.length];
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (points[mid][0] <= x) low = mid; else high = mid;
  }
  return low;
}

// valueAt returns the value of a series at x: held for steps, else between the
// neighbours; null where there is none.
export function valueAt(points, x, step) {
  const i = indexAt(points, x);
  if (i < 0) return null;
  const [x0, y0] = points[i];
  const next = points[i + 1];
  if (step || x === x0 || y0 === null) return y0;
  if (!next || next[1] === null) return null;
  return y0 + (next[1] - y0) * (x - x0) / (next[0] - x0);
}

// thin leaves first, least, most and last of every slot, so that a path has a
// few points for each pixel and no peak is lost.
export function thin(points, slots) {
  if (points.length <= slots * 4) return points;
  const out = [];
  const size = points.length / slots;
  for (let i = 0; i < slots; i++) {
    const part = points.slice(Math.floor(i * size), Math.floor((i + 1) * size));
    const real = part.filter((p) => p[1] !== null);
    const pick = new Set([part[0], part[part.length - 1], ...part.filter((p) => p[1] === null).slice(0, 1)]);
    if (real.length) {
      pick.add(real.reduce((a, b) => (b[1] < a[1] ? b : a)));
      pick.add(real.reduce((a, b) => (b[1] > a[1] ? b : a)));
    }
    out.push(...part.filter((p) => pick.has(p)));
  }
  return out;
}

// stack puts series on each other: for every moment at which one changes, the
// lower and the upper edge of each.
export function stack(series) {
  const xs = [...new Set(series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
  const base = xs.map(() => 0);
  return series.map((s) => {
    let i = -1;
    const edges = xs.map((x, n) => {
      while (i + 1 < s.points.length && s.points[i + 1][0] <= x) i++;
      const low = base[n];
      base[n] = low + (i < 0 ? 0 : s.points[i][1] || 0);
      return [x, low, base[n]];
    });
    return { ...s, edges };
  });
}

// withGaps is a line with a gap where the ledger says that the job was away: from
// where it stopped to its next step. What its agent reported in between, while it
// was leaving or starting, is left out.
export function withGaps(points, ledger) {
  const out = [];
  let next = 0;
  let away = false;
  let back = -Infinity;
  const take = (e) => {
    away = e.to_gpus === 0;
    if (e.from_gpus === 0) return;
    const at = Date.parse(e.at);
    back = e.ongoing ? Infinity : at + 1000 * (e.away_s || 0) - 1;
    if (out.length) out.push([at, null]);
  };
  for (const [at, value] of points) {
    for (; next < ledger.length && Date.parse(ledger[next].at) <= at; next++) take(ledger[next]);
    if (!away && at >= back && Number.isFinite(value)) out.push([at, value]);
  }
  for (; next < ledger.length; next++) take(ledger[next]);
  return out;
}
