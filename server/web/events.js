// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Events: a record of the journal as a line for people.
import { h } from './dom.js';
import { jobOf, kindOf } from './feed.js';
import { exitText, jobLink } from './jobs.js';
import { moment, ms, plural } from './format.js';

// The kinds that the journal knows, for filters.
export const kinds = ['job-accepted', 'job-submitted', 'job-started', 'job-stopped', 'job-failed', 'job-ended', 'job-held', 'job-suspension', 'job-checkpoint', 'job-reported', 'job-noted', 'job-warned',
  'save-failed', 'attempt-ended', 'app-bid', 'app-staged', 'bidder-set', 'search-submitted', 'search-stepped', 'search-ended', 'node-joined', 'node-quarantined', 'node-released', 'node-withheld',
  'tenant-set', 'policy-set', 'token-set', 'journal-damaged', 'damage-acknowledged', 'epoch-begun', 'clock-set', 'note'];

// gpusIn counts the GPUs of a placement, whose sets are bit masks.
function gpusIn(placement) {
  let n = 0;
  for (const slice of placement || []) {
    for (let v = BigInt(slice.gpus || 0); v > 0n; v >>= 1n) n += Number(v & 1n);
  }
  return n;
}

// say tells a record in words.
export function say(r) {
  if (r.text) return r.text;
  const e = r.event;
  if (r.accepted) return 'accepted; it waits for other jobs';
  if (r.search) return 'search ' + r.search.id;
  if (r.bidder) return 'bidder of ' + r.bidder.app + (r.bidder.removed ? ' removed' : ' set');
  if (!e) return r.exit ? exitText(r.exit) : r.policy ? 'the policy is now ' + r.policy : r.token ? 'token ' + (r.token.name || r.token.id) + (r.token.revoked ? ' revoked' : ' set') : '';
  if (e.text) return e.text;
  switch (e.kind) {
    case 'job-submitted': return 'requests ' + plural(e.spec?.gpus || 0, 'GPU');
    case 'job-started': return gpusIn(e.placement) ? 'starts on ' + plural(gpusIn(e.placement), 'GPU') : 'starts';
    case 'job-stopped': return e.moving ? 'stopped to move or resize' : 'preempted';
    case 'job-failed': return 'an attempt failed';
    case 'job-ended': return e.phase === 'killed' ? 'cancelled' : e.phase || 'ended';
    case 'job-checkpoint': return 'saved a checkpoint';
    case 'job-reported': return 'reported';
    case 'node-joined': return 'node ' + (e.node?.name || '');
    case 'app-bid': return (e.bid ? 'bid of ' : 'no bid of ') + (e.app || '');
    case 'app-staged': return plural(e.stages?.length || 0, 'stage') + ' left of ' + (e.app || '');
    case 'tenant-set': return 'tenant ' + (e.tenant?.id || '');
    default: return '';
  }
}

const tones = { 'job-failed': 'bad', 'save-failed': 'bad', 'journal-damaged': 'bad', 'job-warned': 'warn', 'node-quarantined': 'bad', 'node-withheld': 'warn', note: 'warn', 'job-stopped': 'warn', 'job-started': 'good', 'policy-set': 'set' };

// eventRow is a line of a list of records; names: job names by id.
function eventRow(r, names) {
  const job = jobOf(r);
  const kind = kindOf(r);
  const bad = (r.exit && (r.exit.code || r.exit.signal) && !r.exit.yielded && !r.exit.noticed) || r.event?.phase === 'failed';
  return h('li', { key: r.seq, class: 'event ' + (bad ? 'bad' : tones[kind] || ''), sig: r.seq + (names?.get(job) || ''), fill: () => [
    h('time', { datetime: r.at, title: r.at }, moment(ms(r.at))), h('span', { class: 'event-kind' }, kind),
    h('span', { class: 'event-text' }, job ? [jobLink(job, names?.get(job) || r.task?.name || job), ' '] : null, say(r), r.actor ? h('span', { class: 'soft' }, ' · ' + r.actor) : null)] });
}

// namesIn returns the names of the jobs that were submitted in the records.
export const namesIn = (records) => new Map(records.filter((r) => r.task?.name).map((r) => [jobOf(r), r.task.name]));

export const eventList = (records, names) => h('ol', { class: 'events' }, records.map((r) => eventRow(r, names)));
