// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Format: numbers, sizes and times for people.

const dash = '–';
const thousands = new Intl.NumberFormat('en-US'); // toLocaleString makes one for each number
const missing = (v) => v === null || v === undefined || !Number.isFinite(v);

// number prints up to digits significant digits, and thousands apart.
export function number(v, digits = 3) {
  if (missing(v)) return dash;
  const a = Math.abs(v);
  if (a >= 10 ** (digits - 1) || Number.isInteger(v)) return thousands.format(Math.round(v));
  if (a < 1e-4) return v.toExponential(1);
  return String(Number(v.toPrecision(digits)));
}

// short is number for axes: 12k, 3.4M, 1e-4.
export function short(v) {
  if (missing(v)) return dash;
  const a = Math.abs(v);
  for (const [size, name] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (a >= size) return number(v / (name === 'k' ? 1e3 : size)) + name;
  }
  return a > 0 && a < 1e-3 ? Number(v.toPrecision(3)).toExponential() : number(v);
}

export function percent(v) {
  if (missing(v)) return dash;
  return (v > 0.995 && v < 1 ? (v * 100).toFixed(1) : String(Math.round(v * 100))) + ' %';
}

export function bytes(v) {
  if (missing(v)) return dash;
  for (const [name, size] of [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (Math.abs(v) >= size) return number(v / size) + ' ' + name;
  }
  return number(v) + ' B';
}

const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

// duration prints seconds with at most two units: "2 h 5 min".
export function duration(seconds) {
  if (missing(seconds)) return dash;
  if (seconds < 0) return '−' + duration(-seconds);
  if (seconds < 1) return seconds === 0 ? '0 s' : number(seconds * 1000, 2) + ' ms';
  if (seconds < 10) return number(seconds, 2) + ' s';
  let left = Math.round(seconds);
  const at = units.findIndex(([, size]) => left >= size);
  const [name, size] = units[at];
  const whole = Math.floor(left / size);
  left -= whole * size;
  const next = units[at + 1];
  const rest = next ? Math.floor(left / next[1]) : 0;
  return whole + ' ' + name + (rest && whole < 100 ? ' ' + rest + ' ' + next[0] : '');
}

// seconds reads a duration of the API: "1h2m3.5s" or a number of seconds.
export function seconds(text) {
  if (typeof text === 'number') return text;
  const size = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, 'µs': 1e-6, ns: 1e-9 };
  let sum = 0;
  for (const [, n, unit] of String(text || '').matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)/g)) sum += Number(n) * size[unit];
  return sum;
}

export const plural = (n, one, many) => number(n) + ' ' + (n === 1 ? one : many || one + 's');

// ms reads a time of the API; NaN if there is none.
export const ms = (text) => (text ? Date.parse(text) : NaN);

const two = (v) => String(v).padStart(2, '0');

// clock prints the local time of day.
export function clock(at, withSeconds = true) {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return dash;
  return two(d.getHours()) + ':' + two(d.getMinutes()) + (withSeconds ? ':' + two(d.getSeconds()) : '');
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
export const day = (at) => { const d = new Date(at); return d.getDate() + ' ' + months[d.getMonth()]; };

// moment prints a point in time, with the day unless it is the day of now.
export function moment(at, now = Date.now()) {
  if (!Number.isFinite(at)) return dash;
  const same = new Date(at).toDateString() === new Date(now).toDateString();
  return (same ? '' : day(at) + ' ') + clock(at);
}

// span is duration without what nobody reads: no seconds from a minute on, no
// minutes from a day on.
export function span(s) {
  const step = s >= 86400 ? 3600 : s >= 60 ? 60 : 1;
  return duration(Math.floor(s / step) * step);
}

// ago prints the time since a point: "5 min ago", "in 20 s".
export function ago(at, now) {
  if (!Number.isFinite(at)) return dash;
  const s = (now - at) / 1000;
  if (Math.abs(s) < 2) return 'now';
  const text = span(Math.abs(s));
  return s > 0 ? text + ' ago' : 'in ' + text;
}

// sizes prints how many GPUs a job asks for: "4" or "1–8".
export function sizes(job) {
  const least = job.min_gpus || job.gpus;
  const most = job.max_gpus || job.gpus;
  const n = least === most || !job.max_gpus ? String(job.gpus) : least + '–' + most;
  const milli = job.milli_gpu || 1000;
  return milli < 1000 ? n + ' × ' + milli / 1000 : n;
}

// title is what people call a job.
export const title = (job) => job.name || job.id;
