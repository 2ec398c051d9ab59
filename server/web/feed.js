// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Feed: what happens, as it happens. One event stream feeds the whole page; it
// is opened again by itself after the daemon was away, and closed while nobody
// looks, because a browser allows only a few connections to one server.

const shortest = 500; // milliseconds until the next try
const longest = 5000;

// Feed calls record(r) for every record and state(s) when the stream is
// 'live' or 'lost'.
export class Feed {
  constructor({ record, state }) {
    Object.assign(this, { record, state, source: null, timer: 0, wait: shortest, last: 0, wanted: false });
    document.addEventListener('visibilitychange', () => this.look());
  }
  // start opens the stream behind a sequence number. A daemon that was started
  // anew may have begun another journal: then the stream is opened anew too.
  start(after, anew) {
    if (anew) this.close();
    this.last = anew ? after : Math.max(this.last, after);
    this.wanted = true;
    this.look();
  }
  stop() {
    this.wanted = false;
    this.look();
  }
  look() {
    if (!this.wanted || document.hidden) { this.close(); return; }
    if (!this.source && !this.timer) this.open();
  }
  close() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.source) this.source.close();
    this.source = null;
  }
  open() {
    const source = new EventSource('/v1/events/stream?after=' + this.last);
    this.source = source;
    source.addEventListener('open', () => {
      this.wait = shortest;
      this.state('live');
    });
    source.addEventListener('record', (e) => {
      const r = JSON.parse(e.data);
      this.last = Math.max(this.last, r.seq);
      this.record(r);
    });
    source.addEventListener('error', () => {
      if (this.source !== source) return;
      this.close();
      this.state('lost');
      this.timer = setTimeout(() => { this.timer = 0; this.look(); }, this.wait);
      this.wait = Math.min(longest, this.wait * 1.6);
    });
  }
}

// jobOf returns the job that a record is about; empty if none.
export const jobOf = (r) => r.event?.spec?.id || r.event?.job || r.accepted?.id || r.exit?.job || '';

// kindOf names what a record is about, as the filters of the API do.
export function kindOf(r) {
  if (r.quarantine) return r.quarantine.state === 'in-use' ? 'node-released' : 'node-' + r.quarantine.state;
  if (r.warning) return 'job-warned';
  if (r.save_failed) return 'save-failed';
  if (r.event) return r.event.kind;
  if (r.accepted) return 'job-accepted';
  if (r.exit) return 'attempt-ended';
  if (r.policy) return 'policy-set';
  if (r.token) return 'token-set';
  if (r.bidder) return 'bidder-set';
  if (r.search) return r.search.spec ? 'search-submitted' : r.search.state ? 'search-ended' : 'search-stepped';
  if (r.damage) return r.damage.text ? 'journal-damaged' : 'damage-acknowledged';
  if (r.epoch) return 'epoch-begun';
  if (r.set_back) return 'clock-set';
  return 'note';
}

// chatty kinds come all the time and say little to a person.
const chatty = new Set(['job-reported', 'job-noted', 'job-checkpoint']);
export const isChatty = (r) => chatty.has(kindOf(r));
