// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Policy: which one decides, what others there are, and what switching to one
// would do right now.
import { get, put } from '../api.js';
import { confirm } from '../dialog.js';
import { h, keep, show } from '../dom.js';
import { plural } from '../format.js';
import { failure, fill, panel } from '../panel.js';

export function policyView({ state, refreshSoon }) {
  let now = '';
  let list = [];
  const current = panel('Policy');
  const others = panel('All policies', { plain: true });
  const result = keep(h('div', { class: 'dry', 'aria-live': 'polite' }));
  const words = h('input', { id: 'policy-spec', list: 'policy-names', placeholder: 'tiresias:gittins', autocomplete: 'off', spellcheck: 'false', maxlength: 4096, 'aria-label': 'Policy name, variants and knobs' });
  const names = h('datalist', { id: 'policy-names' });
  const form = keep(h('form', { class: 'inline', onsubmit: (e) => { e.preventDefault(); dryRun(words.value.trim()); } },
    h('label', { for: 'policy-spec' }, 'Policy '), words, names, h('button', { type: 'submit', class: 'primary' }, 'Dry run')));
  const element = h('div', { class: 'page' }, h('h1', { class: 'sr' }, 'Policy'), current.element, others.element);

  async function refresh() {
    await Promise.all([
      fill(current, get(['policy']), (x) => {
        now = x.policy;
        current.show(h('p', { class: 'policy-now' }, h('code', {}, now)),
          state.isAdmin() ? [h('p', { class: 'hint' }, 'A policy is a name with variants and knobs after colons. A dry run shows what another policy would do now, without switching.'), form, result] : h('p', { class: 'hint' }, 'Admins can preview and switch policies here.'));
      }),
      list.length ? null : fill(others, get(['policies']), (x) => { list = x.policies || []; show(names, list.flatMap((p) => [p.name, ...variants(p).map((v) => p.name + ':' + v.name)]).map((n) => h('option', { value: n }))); }),
    ]);
    if (list.length) others.show(h('div', { class: 'policies' }, list.map(card)));
  }
  async function dryRun(spec) {
    if (!spec) { words.focus(); return; }
    show(result, h('p', { class: 'loading' }, 'Trying ' + spec + '…'));
    try {
      const change = await put(['policy'], { policy: spec, dry_run: true });
      show(result, outcome(change, spec));
    } catch (error) {
      show(result, failure(error));
      if (!error.code) throw error;
    }
  }
  function outcome(change, spec) {
    const actions = change.actions || [];
    return h('div', { class: 'callout' },
      h('h3', {}, (change.to || spec) + ' would now ', h('span', { class: 'sums' }, actions.length ? 'start ' + plural(change.starts, 'job') + ', stop ' + change.stops + ', move ' + change.moves : 'change nothing')),
      actions.length ? h('ul', {}, actions.slice(0, 50).map((a) => h('li', {}, a))) : null,
      actions.length > 50 ? h('p', { class: 'note' }, 'and ' + (actions.length - 50) + ' more') : null,
      h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary', id: 'policy-switch', onclick: () => switchTo(spec, change) }, 'Switch')));
  }
  function switchTo(spec, change) {
    confirm({
      title: 'Switch to ' + spec + '?', yes: 'Switch', no: 'Keep ' + (now || 'this one'),
      text: 'It takes effect at once and begins with ' + plural(change.starts, 'start') + ', ' + plural(change.stops, 'stop') + ' and ' + plural(change.moves, 'move') + '.',
      act: async () => { await put(['policy'], { policy: spec, dry_run: false }); show(result, h('p', { class: 'callout good' }, 'The policy is now ' + spec + '.')); refreshSoon(); },
    });
  }
  function card(p) {
    const mine = now.split(':')[0] === p.name;
    return h('article', { class: 'card policy' + (mine ? ' mine' : ''), key: p.name },
      h('div', { class: 'card-head' }, h('h3', {}, p.name, mine ? [' ', h('span', { class: 'badge running' }, 'now')] : null),
        p.oracle || !state.isAdmin() ? null : h('button', { type: 'button', class: 'quiet small', 'aria-label': 'Try ' + p.name, onclick: () => { words.value = p.name; dryRun(p.name); current.element.scrollIntoView({ block: 'nearest' }); } }, 'Try')),
      h('p', {}, p.summary), p.paper ? h('p', { class: 'sub' }, p.paper) : null, needs(p) ? h('p', { class: 'sub warn-text' }, needs(p)) : null,
      variants(p).length || (p.knobs || []).length ? h('details', {}, h('summary', {}, 'Variants and knobs'), h('dl', { class: 'knobs' },
        variants(p).map((v) => [h('dt', {}, ':' + v.name), h('dd', {}, v.summary)]),
        (p.knobs || []).map((k) => [h('dt', {}, k.name + '=' + k.default), h('dd', {}, k.help)]))) : null);
  }
  return { title: 'Policy', element, refresh };
}

// needs says what a policy has to know beyond what jobs ask for.
function needs(p) {
  if (p.oracle) return 'simulator only: an oracle that knows true step times and lengths';
  if (p.losses) return 'needs jobs whose agents report losses and step times';
  return p.agents ? 'needs jobs whose agents report training progress' : '';
}

const variants = (p) => p.variants || [];
