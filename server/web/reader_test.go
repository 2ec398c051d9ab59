// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// spokenTree is what Chromium tells screen readers about a page. The library's own types
// refuse what newer browsers say.
type spokenTree struct {
	Nodes []struct {
		Ignored    bool        `json:"ignored"`
		Role       spokenValue `json:"role"`
		Name       spokenValue `json:"name"`
		Properties []struct {
			Name  string      `json:"name"`
			Value spokenValue `json:"value"`
		} `json:"properties"`
	} `json:"nodes"`
}

type spokenValue struct {
	Value any `json:"value"`
}

// Roles of what is used, and of what is looked at: a reader needs a name for each.
var (
	usedRoles     = []string{"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton", "tab", "switch", "menuitem", "gridcell", "application", "dialog"}
	lookedAtRoles = []string{"image", "img", "graphics-document", "graphics-symbol", "Canvas", "figure", "meter", "progressbar", "grid", "region"}
	landmarks     = []string{"banner", "navigation", "main", "contentinfo"}
)

// testReader: on every page whatever can be used or looked at has a name for a screen reader,
// the headings are in order, and the keyboard reaches what a mouse does, visibly.
func testReader(t *testing.T, w window) {
	rich, large := newFake(), newFake()
	richWorld(rich)
	largeWorld(large, 200, 300)
	for _, world := range []struct {
		f     *fake
		pages []page
	}{{rich, pictured}, {large, []page{{"map", "#/cluster", "Who holds what", ""}}}} {
		world.f.open(t)
		p := w.open(t, world.f)
		p.start("/")
		for _, page := range world.pages {
			p.visit(page.hash)
			p.shows(page.words)
			p.until("all panels", "!document.querySelector('[aria-busy=true]')")
			eval[bool](p, page.script+"; true")
			p.heard(page.name)
			p.do(chromedp.KeyEvent(kb.Tab)) // from now on the keyboard is used
			if dark := eval[string](p, unseenFocus); dark != "" {
				t.Errorf("%s: the keyboard does not reach these, or they do not show it: %s", page.name, dark)
			}
			eval[bool](p, "document.querySelector('dialog')?.close(); true")
		}
		eval[bool](p, "document.getElementById('leave').click(); document.dispatchEvent(new Event('visibilitychange')); true") // what is asked meanwhile is answered late
		p.shows("Sign in", "signed out")
		p.heard("login")
		p.silent()
	}
}

// heard fails the test for what a screen reader could not say.
func (p *tab) heard(page string) {
	p.Helper()
	var tree spokenTree
	p.do(chromedp.ActionFunc(func(ctx context.Context) error { return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree) }))
	modal := eval[bool](p, "!!document.querySelector('dialog[open]')") // nothing else is told meanwhile
	roles, level := map[string]int{}, 0
	if modal {
		level = 1
	}
	for _, n := range tree.Nodes {
		role, name := fmt.Sprint(n.Role.Value), ""
		if s, ok := n.Name.Value.(string); ok {
			name = strings.TrimSpace(s)
		}
		if n.Ignored {
			continue
		}
		roles[role]++
		if name == "" && (slices.Contains(usedRoles, role) || slices.Contains(lookedAtRoles, role)) {
			p.Errorf("%s: %s %d has no name", page, role, roles[role])
		}
		for _, property := range n.Properties {
			if role != "heading" || property.Name != "level" {
				continue
			}
			next := int(property.Value.Value.(float64))
			if next > level+1 {
				p.Errorf("%s: %q is a heading of level %d below one of level %d", page, name, next, level)
			}
			level = next
		}
	}
	if modal {
		return
	}
	for _, role := range landmarks {
		if roles[role] != 1 {
			p.Errorf("%s: %d landmarks of role %s; want 1", page, roles[role], role)
		}
	}
	if roles["status"] == 0 {
		p.Errorf("%s: nothing speaks when the daemon goes away", page)
	}
}

// unseenFocus names what has a handler of clicks and no place in the order of Tab, and what
// looks the same with the focus as without.
const unseenFocus = `(() => {
	const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled;
	const name = (e) => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + '.' + e.className + ' ' + (e.ariaLabel || e.textContent || '').slice(0, 30);
	const usable = 'a[href], button, input, select, textarea, summary, [tabindex]';
	const out = [...document.querySelectorAll('body *')].filter((e) => e.onclick && seen(e) && !e.matches(usable) && !e.querySelector(usable) && !e.closest('label')).map((e) => 'no Tab: ' + name(e));
	const look = (e) => { const s = getComputedStyle(e); return [s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow, s.borderColor, s.backgroundColor].join(); };
	const top = document.querySelector('dialog[open]') || document;
	for (const e of top.querySelectorAll(usable)) {
		if (!seen(e) || e.tabIndex < 0) continue;
		document.activeElement.blur();
		const before = look(e);
		e.focus({ focusVisible: true });
		if (document.activeElement !== e) out.push('no focus: ' + name(e));
		else if (look(e) === before) out.push('not shown: ' + name(e));
	}
	return [...new Set(out)].join('; ');
})()`
