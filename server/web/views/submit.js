// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Submit: a job from a form or a job file. A check asks the daemon what it would do
// with it; nothing is submitted before that.
import { post } from '../api.js';
import { choice } from '../choice.js';
import { h, keep, show } from '../dom.js';
import { duration, number, plural, span, seconds } from '../format.js';
import { expected, jobLink } from '../jobs.js';
import { failure, panel } from '../panel.js';
import { choose, here } from '../url.js';

const mostChecked = 20;
const example = `name: my-training
command: [python, train.py, --epochs, "90"]
dir: /home/me/project
gpus: 1-4
`;

// The fields of the form: name, label, hint, and what it adds to a job.
const fields = [
  ['name', 'Name', 'what you will call it; default: its id', (v) => ({ name: v })],
  ['command', 'Command', 'python train.py --epochs 90', (v) => ({ command: words(v) })],
  ['dir', 'Working folder', 'full path; default: a new folder', (v) => ({ dir: v })],
  ['gpus', 'GPUs', '2, or 1-8 if the script can be resized', sizes],
  ['time_limit', 'Time limit', '2h; default: none', (v) => ({ time_limit: v })],
  ['estimate', 'Expected run time', '90m; default: unknown', (v) => ({ estimate: v })],
  ['tenant', 'Tenant', 'default: yours', (v) => ({ tenant: v })],
  ['env', 'Variables', 'NAME=value, one on each line', (v) => ({ env: Object.fromEntries(v.split('\n').filter((l) => l.trim()).map((l) => { const i = l.indexOf('='); return i < 0 ? [l.trim(), ''] : [l.slice(0, i).trim(), l.slice(i + 1)]; })) })],
];

// words splits a command as a shell would; what only a shell can do is left to one.
export function words(text) {
  if (/[|&;<>$`*?~(){}\n]/.test(text)) return ['bash', '-c', text];
  const out = [];
  for (const [, double, single, plain, glued] of text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|((?:[^\s"'\\]|\\.)+)|(\s+)/g)) {
    if (glued !== undefined) { out.push(null); continue; }
    const word = single ?? (double ?? plain).replace(/\\(.)/g, '$1');
    if (out.length && out[out.length - 1] !== null) out.push(out.pop() + word); else out.push(word);
  }
  return out.filter((w) => w !== null);
}

// sizes reads "4" or "1-8"; what is neither is sent as it is, for the daemon to refuse.
function sizes(text) {
  const [, least, most] = text.match(/^(\d+)(?:\s*[-–]\s*(\d+))?$/) || [null, text];
  if (Number(most) < Number(least)) return { gpus: text };
  if (most) return { gpus: Number(least), min_gpus: Number(least), max_gpus: Number(most) };
  return { gpus: Number.isFinite(Number(least)) ? Number(least) : least };
}

export function submitView({ state }) {
  let way = here().chosen.get('from') === 'file' ? 'file' : 'form';
  const inputs = Object.fromEntries(fields.map(([name, , hint]) => [name, h(name === 'env' || name === 'command' ? 'textarea' : 'input', {
    id: 'new-' + name, rows: 2, placeholder: hint, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', oninput: () => stale() })]));
  inputs.gpus.value = '1';
  const file = h('textarea', { id: 'job-file', class: 'file', rows: 14, spellcheck: 'false', autocapitalize: 'off', 'aria-label': 'Job file', oninput: () => stale() });
  file.value = example;
  const form = h('div', { class: 'fields' }, fields.map(([name, label]) => h('label', { for: 'new-' + name, class: name === 'command' || name === 'env' ? 'whole' : '' }, label, inputs[name])));
  const text = h('div', {}, file, h('p', { class: 'hint' }, 'YAML, one document for each job: the same file that ', h('code', {}, 'fairway submit -f'), ' reads.'));
  const body = keep(h('div', {}));
  const result = keep(h('div', { class: 'dry', 'aria-live': 'polite' }));
  const check = h('button', { type: 'submit', class: 'primary', id: 'check' }, 'Check');
  const send = h('button', { type: 'button', class: 'primary', id: 'send', disabled: true, onclick: () => submit() }, 'Submit');
  const p = panel('Submit a job', { part: [choice('From', [['Form', 'form'], ['Job file', 'file']], way, (v) => { way = v; choose({ from: v === 'file' ? v : '' }); stale(); show(body, way === 'file' ? text : form); })] });
  const whole = h('form', { onsubmit: (e) => { e.preventDefault(); look(); } }, body, h('div', { class: 'buttons' }, check, send), result);
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Submit'), p.element);
  let ready = null; // jobs that were checked

  // stale takes the check back: what would be submitted is not what was checked.
  function stale() {
    ready = null;
    send.disabled = true;
    for (const i of Object.values(inputs)) i.removeAttribute('aria-invalid');
  }
  const written = async () => (way === 'file' ? (await post(['jobfile'], { text: file.value })).jobs
    : [Object.assign({}, ...fields.map(([name, , , add]) => { const v = inputs[name].value.trim(); return v ? add(v) : {}; }))]);
  // busy does something that the daemon may refuse.
  async function busy(words, act) {
    check.disabled = send.disabled = true;
    show(result, h('p', { class: 'loading' }, words));
    try {
      show(result, await act());
    } catch (error) {
      show(result, failure(error));
      inputs[error.field?.replace(/^(min|max)_/, '').replace(/\[.*/, '')]?.setAttribute('aria-invalid', 'true');
      if (!error.code) throw error;
    } finally {
      check.disabled = false;
      send.disabled = !ready;
    }
  }
  const look = () => busy('Checking…', async () => {
    stale();
    const jobs = await written();
    const previews = [];
    for (const job of jobs.slice(0, mostChecked)) previews.push(await post(['preview'], job));
    ready = jobs.map((job) => ({ key: job.key || random(), ...job })); // submitting twice makes one job
    return [previews.map((x, i) => outcome(x, jobs[i], jobs.length > 1)), jobs.length > mostChecked ? h('p', { class: 'note' }, 'and ' + plural(jobs.length - mostChecked, 'job') + ' that were only read') : null];
  });
  const submit = () => busy('Submitting…', async () => {
    const made = [];
    for (const job of ready) made.push(await post(['jobs'], job));
    stale();
    return h('div', { class: 'callout good' }, 'Submitted: ', made.map((j, i) => [i ? ', ' : '', jobLink(j.id, j.name || j.id)]), '.');
  });
  function refresh() {
    if (state.mayControl()) p.show(whole);
    else p.empty('You may look, but not submit.', 'Ask an admin for a token with the role user.');
    return Promise.resolve();
  }
  show(body, way === 'file' ? text : form);
  return { title: 'Submit', element, refresh };
}

const random = () => 'web-' + [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, '0')).join('');

// outcome says what submitting a job would do.
function outcome(x, job, several) {
  const now = Date.parse(x.now);
  const starts = (size) => (size.starts ? 'now' : size.reason?.code === 'impossible' ? 'never on this cluster' : expected({ reason: size.reason }, now));
  return h('div', { class: 'callout' },
    h('h3', {}, several ? (job.name || 'a job') + ' would start ' : 'It would start ', starts(x.size), ', on ' + plural(x.size.gpus, 'GPU')),
    h('ul', {}, x.size.reason ? h('li', {}, x.size.reason.text) : null,
      x.run_time ? h('li', {}, 'It is expected to run for about ' + span(seconds(x.run_time.expected)) + '.') : null,
      (x.size.victims || []).map((v) => h('li', {}, jobLink(v.job), ' would make room: ' + (v.to_gpus ? 'it goes on with ' + plural(v.to_gpus, 'GPU') : 'it waits') + ', and loses up to ' + duration(v.lost_s) + ' of GPU time if it cannot save.')),
      (x.sooner || []).map((y) => h('li', {}, 'With ' + plural(y.gpus, 'GPU') + ' it would start ', starts(y), '.')),
      x.cut ? h('li', {}, x.cut) : null), h('p', { class: 'note' }, 'Under ' + x.policy + ', as things are now. Nothing has been submitted.'));
}
