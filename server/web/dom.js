// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Dom: elements from descriptions, and changing what is shown into what should
// be shown with as few touches as possible, so that focus, selection and
// scroll stay where they are. Data only ever enters as text nodes and
// attributes, never as markup.

// h makes an element. Attributes: on* are handlers, vars are style properties,
// key names a child among its siblings, sig spares a node whose description
// did not change, fill makes the children only if they are needed; true is an
// empty attribute, null and false are none.
export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

// s makes an SVG element.
export const s = (tag, attributes, ...children) => build(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

// knobs is the name of a policy, which breaks between its knobs if it has to.
export const knobs = (name) => name.split(/(?=[:@])/).flatMap((part, i) => (i ? [h('wbr'), part] : [part]));

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'key') node.key = value;
    else if (name === 'sig') node.sig = value;
    else if (name === 'fill') node.fill = value;
    else if (value === null || value === undefined || value === false) continue;
    else if (name.startsWith('on')) handle(node, name, value);
    else if (name === 'vars') for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...nodes(children));
  return node;
}

function handle(node, name, f) {
  node[name] = f;
  (node.handlers ||= new Set()).add(name);
}

function nodes(children) {
  const out = [];
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    out.push(child.nodeType ? child : document.createTextNode(String(child)));
  }
  return out;
}

// fill makes the children that were put off.
function fill(node) {
  if (!node.fill) return;
  node.append(...nodes([node.fill()]));
  node.fill = null;
}
function fillAll(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  fill(node);
  for (const child of node.querySelectorAll('*')) fill(child);
}

// keep marks a node as a component that looks after its own inside.
export function keep(node) {
  node.kept = true;
  return node;
}

// show makes the children of a node look like those given.
export function show(node, ...children) {
  patchChildren(node, nodes(children));
}

function patchChildren(parent, wanted) {
  const keys = new Set(wanted.map((w) => w.key).filter((k) => k !== undefined));
  const known = new Map();
  for (const child of [...parent.childNodes]) {
    if (child.key === undefined) continue;
    if (keys.has(child.key)) known.set(child.key, child);
    else child.remove();
  }
  let at = parent.firstChild;
  for (const want of wanted) {
    let old = null;
    if (want.parentNode === parent) old = want;
    else if (want.key !== undefined) old = known.get(want.key) || null;
    else if (at && at.key === undefined && !at.kept) old = at;
    if (old && old !== want && (!alike(old, want) || old.kept || want.kept)) {
      if (old.key !== undefined) { if (at === old) at = old.nextSibling; old.remove(); }
      old = null;
    }
    if (!old) { fillAll(want); parent.insertBefore(want, at); continue; }
    if (old === at) at = at.nextSibling; else parent.insertBefore(old, at);
    if (old !== want) patch(old, want);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName;

function patch(old, want) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== want.data) old.data = want.data;
    return;
  }
  if (want.sig !== undefined && old.sig === want.sig) return;
  old.sig = want.sig;
  fill(want);
  for (const { name } of [...old.attributes]) {
    if (name !== 'style' && name !== 'open' && !want.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (name !== 'style' && name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== want.style.cssText) old.style.cssText = want.style.cssText;
  for (const name of old.handlers || []) if (!want.handlers || !want.handlers.has(name)) old[name] = null;
  for (const name of want.handlers || []) handle(old, name, want[name]);
  patchChildren(old, [...want.childNodes]);
}
