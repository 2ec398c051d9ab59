// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// App: the frame of the page: which view is shown, when it is asked to show
// what is new, and whether the daemon can be reached.
import { get, logout, onReach } from './api.js';
import { h, show } from './dom.js';
import { Feed, isChatty } from './feed.js';
import { ms, span } from './format.js';
import { themeButton } from './theme.js';
import { hideTip } from './tip.js';
import { here } from './url.js';
import { appView } from './views/app.js';
import { clusterView } from './views/cluster.js';
import { eventsView } from './views/events.js';
import { fairness } from './views/fairness.js';
import { jobView } from './views/job.js';
import { jobsView } from './views/jobs.js';
import { loginView } from './views/login.js';
import { overview } from './views/overview.js';
import { policyView } from './views/policy.js';
import { submitView } from './views/submit.js';

const soon = 500; // milliseconds between two refreshes when things change
const later = 2000; // when jobs only report how far they are
const poll = 5000;
const beat = 1000;
const longest = 1500; // until a page is shown though parts of it are missing

const pages = [
  ['', 'Overview', overview], ['jobs', 'Jobs', jobsView], ['cluster', 'Cluster', clusterView], ['fairness', 'Fairness', fairness],
  ['events', 'Events', eventsView], ['policy', 'Policy', policyView], ['submit', 'Submit', submitView],
];

const byID = (id) => document.getElementById(id);
const main = byID('main');

let view = null;
let who = null;
let skew = 0; // milliseconds that the daemon's clock is ahead of ours
let reach = 'opening'; // ok, lost, login
let stream = 'lost';
let started = ''; // when the daemon was, by its own words

const state = {
  now: () => Date.now() + skew,
  isAdmin: () => who?.role === 'admin',
  mayControl: () => who?.role === 'admin' || who?.role === 'user',
  overview(o) {
    if (reach === 'login') return;
    skew = ms(o.now) - Date.now();
    const problem = byID('problem');
    problem.hidden = !o.problem;
    show(problem, o.problem ? [h('b', {}, 'The daemon reports a problem: '), o.problem] : null);
    const warnings = byID('warnings');
    const failing = (o.deliveries || []).filter((d) => d.error).map((d) => 'notifications to ' + d.target + ' fail: ' + d.error);
    const told = [...(o.warnings || []), ...failing];
    warnings.hidden = !told.length;
    show(warnings, told.map((w) => h('p', {}, h('b', {}, 'Warning: '), w)));
    show(byID('foot'), 'Fairway, up for ' + span((state.now() - ms(o.started)) / 1000) + '. Times are local.' + (o.cpu_slots ? ' There is no GPU: CPU slots count as GPUs.' : ''));
    feed.start(o.seq, started !== '' && o.started !== started);
    started = o.started;
  },
};

// ---- Refreshing.

let busy = null; // the view that is being refreshed
let again = false;
let timer = 0;
let due = Infinity;
let last = 0;

async function refresh() {
  clearTimeout(timer);
  due = Infinity;
  if (busy === view) { again = true; return; }
  const mine = busy = view;
  last = Date.now();
  try {
    await mine.refresh();
    if (mine === view) document.title = mine.title + ' · Fairway';
  } finally {
    if (mine === view) {
      busy = null;
      if (again) { again = false; refreshIn(soon); }
    }
  }
}

// refreshIn asks for a refresh, not earlier than so many milliseconds after
// the last one began.
function refreshIn(gap) {
  const at = Math.max(Date.now(), last + gap);
  if (at >= due) return;
  clearTimeout(timer);
  due = at;
  timer = setTimeout(refresh, at - Date.now());
}

const feed = new Feed({
  record: (r) => refreshIn(isChatty(r) ? later : soon),
  state(s) {
    if (s !== stream) refreshIn(0); // back: what was missed; away: is it the stream or the daemon?
    stream = s;
    sayLink();
  },
});

// The clock of the page: asks again while the daemon is away, and now and then
// even if nothing seems to happen.
let beats = 0;
setInterval(() => {
  if (document.hidden || reach === 'login') return;
  if (reach === 'ok' && ++beats % (poll / beat)) return;
  if (!who) identify();
  if (view.title !== 'Overview') get(['overview']).then(state.overview, () => {});
  refreshIn(0);
}, beat);
document.addEventListener('visibilitychange', () => { if (!document.hidden && view) refreshIn(0); });

// ---- The state of the connection.

const links = { live: 'live', polling: 'every 5 s', lost: 'reconnecting…', opening: 'connecting…', login: 'signed out' };

function sayLink() {
  const now = reach === 'ok' ? (stream === 'live' ? 'live' : 'polling') : reach;
  const node = byID('link');
  if (node.dataset.state === now) return;
  node.dataset.state = now;
  node.textContent = links[now];
  node.title = { live: 'Live: changes appear at once.', polling: 'The event stream is down: the page polls every 5 seconds.', lost: 'The daemon does not answer. This is its last known state.' }[now] || '';
}

onReach((what) => {
  if (what === 'login' && reach !== 'login') { reach = what; askLogin(); }
  // Answers to what was asked before the sign-out come late; only a sign-in ends it.
  if (reach !== 'login') {
    const back = reach === 'lost' && what === 'ok';
    reach = what;
    if (back) refreshIn(0);
  }
  sayLink();
});

// ---- Routes.

function route() {
  let [name, id] = here().parts;
  if (name === 'nodes') name = 'cluster'; // as older links say
  if (name === 'jobs' && id) return { name, make: (c) => jobView(c, id) };
  if (name === 'apps' && id) return { name: 'jobs', make: (c) => appView(c, id) };
  const page = pages.find(([key]) => key === name) || pages[0];
  return { name: page[0], make: page[2] };
}

function open(next) {
  hideTip();
  view?.close?.();
  view = next;
  again = false;
  main.replaceChildren(next.element);
  document.title = next.title + ' · Fairway';
}

function go() {
  const { name, make } = route();
  show(byID('nav'), pages.map(([key, text]) => h('a', { href: '#/' + key, 'aria-current': key === name ? 'page' : null }, text)));
  const first = view === null;
  open(make({ state, refreshSoon: () => refreshIn(150) }));
  if (!first) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
  // Its parts come one after the other: it is shown when all are there, or after a while.
  const mine = view;
  const reveal = () => { if (view === mine) delete main.dataset.opening; };
  main.dataset.opening = '';
  setTimeout(reveal, longest);
  refresh().finally(reveal);
}

function askLogin() {
  feed.stop();
  who = null;
  show(byID('who'));
  byID('leave').hidden = true;
  delete main.dataset.opening;
  const form = loginView(() => { reach = 'opening'; identify(); go(); });
  open(form);
  form.focus();
}

async function identify() {
  try {
    const me = await get(['whoami']);
    if (reach === 'login') return;
    who = me;
    show(byID('who'), who.user + (who.role === 'admin' ? ' · admin' : who.tenant ? ' · ' + who.tenant : ''));
    byID('leave').hidden = false;
    if (view) refreshIn(0);
    state.overview(await get(['overview']));
  } catch (error) {
    if (!error.code) throw error;
  }
}

byID('skip').addEventListener('click', (e) => { e.preventDefault(); main.focus(); });
byID('leave').addEventListener('click', () => { logout().catch(() => {}); });
addEventListener('keydown', (e) => { if (e.key === 'Escape') hideTip(); });
addEventListener('hashchange', go);
themeButton(byID('theme'));
identify();
go();
