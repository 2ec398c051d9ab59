// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Log: what a job prints, by attempt and rank, followed while it runs.
import { path, request } from './api.js';
import { h, show } from './dom.js';
import { panel } from './panel.js';

const tail = 1000; // lines asked for
const most = 400000; // characters kept on the page
// Colours of a terminal mean nothing here.
const escapes = /\u001b\[[0-9;?]*[A-Za-z]/g;

export function logViewer(id) {
  const choices = { attempt: select('Attempt'), rank: select('Rank'), stream: select('Stream') };
  options(choices.stream, [['', 'both'], ['stdout', 'stdout'], ['stderr', 'stderr']]);
  const word = h('input', { type: 'search', placeholder: 'Only lines with', 'aria-label': 'Only lines that match a regular expression', autocomplete: 'off', spellcheck: 'false', onchange: () => open() });
  const save = h('a', { class: 'quiet', download: true }, 'Download');
  const follow = h('input', { type: 'checkbox', id: 'log-follow', checked: true, onchange: () => { if (follow.checked) bottom(); open(); } });
  const text = h('pre', { class: 'log', tabindex: 0, role: 'log', 'aria-label': 'Log', 'aria-live': 'off' });
  const p = panel('Log', { part: [...Object.values(choices).map((c) => c.label), word, h('label', { for: 'log-follow' }, follow, ' Follow'), save] });
  for (const c of Object.values(choices)) c.node.onchange = () => open();
  let stream = null;
  let seen = ''; // what the job was when the log was opened
  let retry = 0;
  let ended = false;

  const none = () => p.empty(...ended ? ['No log.', 'The job never started, or its log is no longer kept.'] : ['No log yet.', 'The log appears when the job starts.']);
  function bottom() { text.scrollTop = text.scrollHeight; }
  // which says what is chosen; all stands for every attempt or rank.
  const which = () => {
    const [attempt, rank] = [choices.attempt.node.value, choices.rank.node.value];
    return { attempt: attempt === 'all' ? '' : attempt, all_attempts: attempt === 'all' ? '1' : '', rank: rank === 'all' ? '' : rank, all_ranks: rank === 'all' ? '1' : '', stream: choices.stream.node.value, grep: word.value, collapse: '1' };
  };
  const query = () => ({ ...which(), tail, follow: follow.checked ? '1' : '' });

  async function open() {
    stream?.abort();
    clearTimeout(retry);
    const mine = stream = new AbortController();
    save.href = path(['jobs', id, 'logs'], { ...which(), download: '1' });
    let fresh = true;
    try {
      const response = await request(path(['jobs', id, 'logs'], query()), { signal: mine.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (fresh) { text.replaceChildren(); fresh = false; p.show(text); }
        if (done) break;
        append(value);
      }
      if (!text.textContent) p.empty('No output.', word.value ? 'No line matches.' : 'The job has printed nothing.');
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.code === 'unknown') { none(); return; }
      if (error.code && error.code !== 'offline') { p.fail(error); return; }
      retry = setTimeout(open, 3000); // the daemon is away, or cut the line
    }
  }
  function append(chunk) {
    const stick = follow.checked || text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
    text.append(chunk.replace(escapes, ''));
    if (text.childNodes.length > 200 || text.textContent.length > most) {
      const all = text.textContent;
      text.textContent = all.length > most ? all.slice(all.indexOf('\n', all.length - most) + 1) : all;
    }
    if (stick && follow.checked) bottom();
  }
  p.follow = (job) => {
    const starts = job.status.starts || 0;
    const ranks = job.single ? 1 : Math.max(1, job.status.most_gpus || job.gpus || 1);
    options(choices.attempt, [['', 'last'], ...(starts > 1 ? [['all', 'all']] : []), ...Array.from({ length: Math.min(starts, 100) }, (_, i) => [String(starts - i), String(starts - i)])]);
    options(choices.rank, [...Array.from({ length: Math.min(ranks, 1024) }, (_, i) => [String(i), String(i)]), ...(ranks > 1 ? [['all', 'all']] : [])]);
    const now = starts + (job.ended || '');
    if (now === seen) return;
    seen = now;
    ended = Boolean(job.ended);
    if (starts) open(); else none();
  };
  p.close = () => { stream?.abort(); clearTimeout(retry); };
  return p;
}

function select(name) {
  const node = h('select', {});
  return { node, label: h('label', {}, name + ' ', node), listed: '' };
}

// options fills a choice without losing what is chosen.
function options(choice, list) {
  const key = list.join();
  if (choice.listed === key) return;
  choice.listed = key;
  const chosen = choice.node.value;
  show(choice.node, list.map(([value, text]) => h('option', { key: value, value }, text)));
  choice.node.value = list.some(([v]) => v === chosen) ? chosen : list[0][0];
}
