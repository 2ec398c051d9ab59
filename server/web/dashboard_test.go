// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// testLife is the life of a job on the page: it appears, starts, grows, and is
// cancelled; in between the daemon goes away and comes back.
func testLife(t *testing.T, w window) {
	f := newFake()
	f.nodes = []api.Node{node("box", 4, "h200")}
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	p.shows("No waiting jobs.", "fairway submit", "No running jobs.", "live")

	f.change("a job comes", func() { f.jobs = []api.Job{waiting("j-1", "first", 1)} })
	p.shows("first", "needs 1 GPUs on one node", "in 6 min")
	f.change("it starts", func() { f.jobs[0] = running("j-1", "first", 1); f.hold(&f.jobs[0], 0, 0, 1, 1000) })
	held := func(n int) {
		t.Helper()
		p.until(fmt.Sprintf("%d GPUs of first in the grid", n), fmt.Sprintf("[...document.querySelectorAll('.gpu-name')].filter((x) => x.textContent === 'first').length === %d", n))
		p.shows(fmt.Sprintf("%d of 4", n))
	}
	held(1)
	colour := eval[string](p, "getComputedStyle(document.querySelector('.gpu-fill i')).backgroundColor")
	f.change("it grows", func() { f.release(&f.jobs[0]); f.hold(&f.jobs[0], 0, 0, 4, 1000) })
	held(4)
	if got := eval[string](p, "getComputedStyle(document.querySelector('.gpu-fill i')).backgroundColor"); got != colour || got == "rgba(0, 0, 0, 0)" {
		t.Errorf("the colour of the job went from %s to %s; want one that stays", colour, got)
	}

	_ = f.server.Close()
	p.shows("reconnecting…", "first") // what was known stays
	f.change("nobody hears this", func() { f.jobs = append([]api.Job{waiting("j-2", "second", 2)}, f.jobs...) })
	f.open(t)
	p.shows("second", "live")

	p.visit("#/jobs/j-1")
	p.shows("Pause", "rank 0 of attempt", "Last checkpoint")
	p.click("#do-cancel")
	p.do(chromedp.WaitVisible("dialog[open]"))
	if got := eval[string](p, "document.activeElement.textContent"); got != "Back" {
		t.Errorf("the dialog puts the focus on %q; want the button that does nothing", got)
	}
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("Escape to close the dialog", "!document.querySelector('dialog')")
	if got := eval[string](p, "document.activeElement.id"); got != "do-cancel" {
		t.Errorf("the focus went to %q after the dialog; want it back on the button", got)
	}
	p.click("#do-cancel")
	p.click("dialog .danger")
	p.until("the job to be killed", "document.querySelector('h1 .badge')?.textContent === 'cancelled' && !document.querySelector('#do-cancel')")
	f.mu.Lock()
	if want := []string{"POST /v1/jobs/j-1/cancel 1"}; !slices.Equal(f.posts, want) {
		t.Errorf("the daemon got %q; want %q", f.posts, want)
	}
	f.mu.Unlock()
	p.sound()
	p.silent()
}

// testForecast: the pages say when a job is expected to start and how long it will run,
// and what that is worth.
func testForecast(t *testing.T, w window) {
	f := newFake()
	f.nodes = []api.Node{node("box", 4, "h200")}
	f.jobs = []api.Job{waiting("j-1", "first", 1)}
	f.jobs[0].Reason.Rough = "300 jobs wait or run"
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	p.shows("min, roughly")
	p.visit("#/jobs/j-1")
	p.shows("min, roughly", "Only a rough estimate: 300 jobs wait or run")
	for _, r := range []api.RunTime{
		{Basis: "reports"}, {Basis: "estimate"}, {Basis: "estimate", Jobs: 12}, {Basis: "similar", Jobs: 1}, {Basis: "all", Jobs: 3},
	} {
		r.Expected = sched.Duration(90 * time.Minute)
		f.change("another forecast", func() { f.explains["j-1"] = api.Explanation{RunTime: &r} })
		_, basis, _ := strings.Cut(r.Text(), ", ")
		p.shows("about 1 h 30 min, " + basis)
	}
	f.change("the queue is short", func() { f.jobs[0].Reason.Rough = "" })
	p.until("a forecast that is not rough", "!document.body.innerText.includes('rough')")
	p.sound()
	p.silent()
}

// testTroubles shows what the pages say when things are missing or refused.
func testTroubles(t *testing.T, w window) {
	f := newFake()
	f.nodes = []api.Node{node("box", 2, "")}
	f.secret = "fw_right"
	f.open(t)
	p := w.open(t, f)
	p.start("/#/events")
	p.shows("Sign in", "signed out")
	p.do(chromedp.SendKeys("#token", "fw_wrong\r"))
	p.shows("this token is not known")
	p.do(chromedp.SendKeys("#token", "fw_right\r"))
	p.shows("No events yet.")

	p.visit("#/jobs/no-such-job")
	p.shows("there is no job no-such-job", "see fairway ps")
	f.mu.Lock()
	f.broken, f.who.Role = "/nodes", api.Viewer
	f.mu.Unlock()
	p.visit("#/cluster")
	p.shows("the disk is full", "free some space")
	f.mu.Lock()
	f.broken = "/history"
	f.mu.Unlock()
	p.visit("#/cluster?again")
	p.until("the error in place of the charts, and the rest", "document.querySelectorAll('.failure').length === 1 && !document.body.innerText.includes('No history yet') && document.body.innerText.includes('No job holds GPUs.')")
	f.change("the disk has room again", func() {
		f.broken = ""
		f.jobs = []api.Job{running("j-1", hostile, 1)}
		f.hold(&f.jobs[0], 0, 0, 1, 1000)
	})
	p.shows("box", "CPU slot", hostile)
	p.do(chromedp.Reload())
	p.shows("box")
	for _, hash := range []string{"#/jobs/j-1", "#/", "#/jobs", "#/fairness", "#/events", "#/policy"} {
		p.visit(hash)
		p.until("the panels of "+hash, "!document.querySelector('[aria-busy=true]')")
		p.sound()
	}
	p.visit("#/jobs/j-1")
	p.until("the hostile name as text", fmt.Sprintf("document.querySelector('h1')?.textContent.includes(%q)", hostile))
	if eval[bool](p, "!!document.querySelector('#do-cancel')") {
		t.Error("a viewer is offered to cancel a job")
	}
	p.click("#leave")
	p.shows("Sign in", "signed out")
	p.silent()
}

// testHands goes over the pages with the keyboard, and switches policy and
// cordons a node.
func testHands(t *testing.T, w window) {
	f := newFake()
	richWorld(f)
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	p.shows("bert-finetune")
	p.until("the grid", "document.querySelector('#gpu-1-6')")
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			p.do(chromedp.KeyEvent(k))
		}
	}
	press(kb.Tab)
	if got := eval[string](p, "document.activeElement.id"); got != "skip" {
		t.Errorf("Tab first reaches %q; want the skip link", got)
	}
	press(kb.Enter)
	if got := eval[string](p, "document.activeElement.id"); got != "main" {
		t.Errorf("the skip link leads to %q; want the page", got)
	}
	for range 4 {
		press(kb.Tab)
		if eval[bool](p, "document.activeElement.classList.contains('gpu')") {
			break
		}
	}
	press(kb.ArrowRight, kb.ArrowRight, kb.ArrowDown, kb.End, kb.ArrowLeft)
	if got := eval[string](p, "document.activeElement.id"); got != "gpu-1-6" {
		t.Errorf("the arrows lead to %q; want gpu-1-6", got)
	}
	p.until("the card of a shared GPU", "!document.getElementById('tip').hidden && document.getElementById('tip').innerText.includes('notebook') && document.getElementById('tip').innerText.includes('utilisation')")
	press(kb.Escape)
	p.until("Escape to hide the card", "document.getElementById('tip').hidden")
	f.change("something", func() {}) // the focus survives what is drawn anew
	p.until("the new event", "document.querySelector('.events').innerText.includes('something')")
	if got := eval[string](p, "document.activeElement.id"); got != "gpu-1-6" {
		t.Errorf("a refresh moved the focus to %q", got)
	}
	press(kb.Enter)
	p.until("the page of the job", "location.hash === '#/jobs/j-0008'")

	p.visit("#/jobs/j-0003")
	p.until("five rows of the strip", "document.querySelectorAll('.strip .chart svg').length === 5")
	p.until("five marks in the row of GPUs", "document.querySelectorAll('.strip .chart:first-child .mark').length === 5")
	eval[bool](p, "document.querySelector('.strip svg').focus(), true")
	press(kb.ArrowLeft)
	p.until("the values at the crosshair", "!document.getElementById('tip').hidden && document.getElementById('tip').innerText.includes('GPUs')")
	p.until("the crosshair in all rows", "document.querySelectorAll('.strip .cross line').length === 5")
	eval[bool](p, "document.querySelector('.strip svg').dataset.old = 'yes', true")
	f.change("something else", func() {}) // the values stay when the rows are drawn anew
	p.until("the rows drawn anew", "!document.querySelector('.strip svg').dataset.old")
	if !eval[bool](p, "!document.getElementById('tip').hidden && document.querySelectorAll('.strip .cross line').length === 5") {
		t.Error("a refresh took the values at the crosshair away")
	}
	p.click(".strip .chart button")
	p.until("the table of a chart", "document.querySelectorAll('.chart-table:not([hidden]) tbody tr').length === 6")

	p.visit("#/policy")
	p.shows("gandiva")
	p.do(chromedp.SendKeys("#policy-spec", "las\r"))
	p.shows("las would now", "move bert-finetune from 8 to 2 GPUs")
	p.click("#policy-switch")
	p.click("dialog .primary")
	p.shows("The policy is now las.")
	p.visit("#/cluster")
	p.shows("workstation")
	p.until("no GPU that is called free where no job may start", "document.querySelector('#gpu-2-0').innerText.includes('cordoned') && document.querySelector('#gpu-3-0').innerText.includes('down')")
	p.click(".node .quiet")
	p.click("dialog .primary")
	p.until("two cordoned nodes", "document.querySelectorAll('.badge.cordoned').length === 2")
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := []string{"PUT /v1/policy 1", "PUT /v1/policy 1", "PUT /v1/nodes/dgx-1 1"}; !slices.Equal(f.posts, want) {
		t.Errorf("the daemon got %q; want %q", f.posts, want)
	}
	p.silent()
}

// testManyJobs opens the pages with 10,000 jobs in the queue and 200 running.
func testManyJobs(t *testing.T, w window) {
	f := newFake()
	for i := range 26 {
		f.nodes = append(f.nodes, node(fmt.Sprintf("box-%02d", i), 8, "h200"))
	}
	for i := range 10_000 {
		f.jobs = append(f.jobs, waiting(fmt.Sprintf("j-%05d", 10_000-i), fmt.Sprintf("job %05d", 10_000-i), 1+i%8))
	}
	for i := range 200 {
		f.jobs = append(f.jobs, running(fmt.Sprintf("r-%03d", i), fmt.Sprintf("busy %03d", i), 1))
		f.hold(&f.jobs[len(f.jobs)-1], i/8, i%8, 1, 1000)
	}
	f.open(t)
	p := w.open(t, f)
	p.measure()
	p.start("/")
	p.shows("job 10000", "25 of 10,000 shown")
	f.change("a change", func() { f.jobs[0] = running("j-10000", "job 10000", 1); f.hold(&f.jobs[0], 25, 0, 1, 1000) })
	p.until("the job in the grid", "document.querySelector('#gpu-25-0 .gpu-name').textContent === 'job 10000'")
	another := func(n int) { f.jobs[5+n].Reason.Text = fmt.Sprint("something else, number ", n) }
	p.light("the overview with 10,000 jobs", 0.1, f, another)
	p.click(".more")
	p.shows("50 of 9,999 shown")
	p.visit("#/jobs")
	p.shows("10,200")
	p.light("the list of 10,000 jobs", 0.1, f, another)
	p.do(chromedp.SendKeys("#search", "00042"))
	p.until("one job that fits", "document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody').innerText.includes('job 00042')")
	p.silent()
}

// testModules tests functions of the modules where they run.
func testModules(t *testing.T, w window) {
	f := newFake()
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	for _, c := range []struct{ module, call, want string }{
		{"format", "m.number(1234567)", `"1,234,567"`},
		{"format", "m.number(0.012345)", `"0.0123"`},
		{"format", "m.number(undefined)", `"–"`},
		{"format", "m.short(12345)", `"12.3k"`},
		{"format", "m.duration(0)", `"0 s"`},
		{"format", "m.duration(0.25)", `"250 ms"`},
		{"format", "m.duration(59.6)", `"1 min"`},
		{"format", "m.duration(7500)", `"2 h 5 min"`},
		{"format", "m.duration(-61)", `"−1 min 1 s"`},
		{"format", "m.duration(200 * 86400)", `"200 d"`},
		{"format", "m.span(3725)", `"1 h 2 min"`},
		{"format", "m.seconds('1h2m3.5s')", `3723.5`},
		{"format", "m.seconds('250ms')", `0.25`},
		{"format", "m.bytes(141 * 2 ** 30)", `"141 GiB"`},
		{"format", "m.percent(0.9981)", `"99.8 %"`},
		{"format", "m.ago(1000, 61000 + 30000)", `"1 min ago"`},
		{"format", "m.ago(90000, 0)", `"in 1 min"`},
		{"format", "m.ago(NaN, 0)", `"–"`},
		{"format", "m.sizes({gpus: 4, min_gpus: 1, max_gpus: 8})", `"1–8"`},
		{"format", "m.sizes({gpus: 1, milli_gpu: 500})", `"1 × 0.5"`},
		{"scale", "m.ticks(0, 1.02, 5)", `[0,0.5,1]`},
		{"scale", "m.ticks(0, 3, 5, true)", `[0,1,2,3]`},
		{"scale", "m.ticks(5, 5, 5)", `[5]`},
		{"scale", "m.scale([0, 10], [100, 0]).to(2.5)", `75`},
		{"scale", "m.scale([0, 10], [100, 0]).from(75)", `2.5`},
		{"scale", "m.scale([3, 3], [0, 100]).to(3)", `0`},
		{"scale", "[0, 1, 2.5, 9].map((x) => m.indexAt([[1, 0], [2, 0], [3, 0]], x))", `[-1,0,1,2]`},
		{"scale", "m.valueAt([[0, 0], [10, 10]], 4)", `4`},
		{"scale", "m.valueAt([[0, 0], [10, 10]], 4, true)", `0`},
		{"scale", "m.valueAt([[0, 1], [5, null], [10, 10]], 7)", `null`},
		{"scale", "m.stack([{points: [[0, 1], [2, 3]]}, {points: [[1, 5]]}]).map((s) => s.edges)", `[[[0,0,1],[1,0,1],[2,0,3]],[[0,1,1],[1,1,6],[2,3,8]]]`},
		{"scale", "[m.thin(Array.from({length: 9000}, (_, i) => [i, i === 4321 ? 99 : 0]), 100)].map((a) => [a.length <= 400, Math.max(...a.map((p) => p[1]))])", `[[true,99]]`},
		{"scale", "m.timeTicks(Date.UTC(2026, 0, 5, 10, 2), Date.UTC(2026, 0, 5, 11), 4).length", `4`},
		{"scale", "m.logTicks(0.03, 40)", `[0.1,1,10]`},
		{"scale", "m.logTicks(0.4, 3)", `[0.5,1,2]`},
		{"scale", "[1, 10, 100].map((v) => Math.round(m.logScale([1, 100], [200, 0]).to(v)))", `[200,100,0]`},
		{"scale", "m.smooth([[0, 4], [1, null], [2, 0]], 0.5).map((p) => p[1])", `[4,null,1.3333333333333333]`},
		{"scale", "m.advancing([[1, 'a'], [2, 'b'], [3, 'c'], [2, 'd'], [4, 'e']]).map((p) => p[1]).join('')", `"ade"`},
		{"scale", "m.timeTicks(0, 3600000, 4, true).map((t) => t.label)", `["0 s","15 min","30 min","45 min","1 h"]`},
		{"sortable", "m.sorted([{v: 2}, {}, {v: 10}, {v: 1}], '-v', (r, k) => r[k]).map((r) => r.v ?? 0)", `[10,2,1,0]`},
		{"sortable", "m.sorted([{v: 'b'}, {v: 'a10'}, {v: 'a9'}], 'v', (r, k) => r[k]).map((r) => r.v)", `["a9","a10","b"]`},
		{"parallel", "[0.001, 0.01, 0.1].map((v) => Math.round(m.axisScale({log: true}, [0.1, null, 0.001]).to(v)))", `[246,136,26]`},
		{"parallel", "[m.axisScale({values: ['b', 'a']}, ['a', 'x']).ticks, m.axisScale({}, [3, 3]).to(3)]", `[[["b","b"],["a","a"],["x","x"]],136]`},
		{"url", "m.href(['jobs', 'a/b?c'], {sort: '-gpus', search: ''})", `"#/jobs/a%2Fb%3Fc?sort=-gpus"`},
		{"histogram", "m.bins([0, 0.9, 1, 1.3, 5]).filter((b) => b.n).map((b) => [b.from.toFixed(2), b.n])", `[["0.71",1],["1.00",2],["4.00",1]]`},
		{"cluster", "m.forecast({held: 4, all: 8, now: 0, until: 1e7, running: [{left_s: 60, held: [{gpus: [0, 1]}]}, {held: [{gpus: [2]}]}], waiting: [{gpus: 8, min_gpus: 3, reason: {until: '1970-01-01T00:02:00Z'}}, {gpus: 1}]})", `[[0,4],[60000,2],[120000,5]]`},
		{"cluster", "m.forecast({held: 4, all: 8, now: 0, until: 1e7, running: [], waiting: []})", `null`},
		{"views/submit", "[m.words('a  \\'b c\\'d \"e\\\\\"f\" g'), m.words('a && b')]", `[["a","b cd","e\"f","g"],["bash","-c","a && b"]]`},
		{"colour", "m.jobColour({id: 'a'}) === m.jobColour({id: 'a', app: 'a'})", `true`},
		{"colour", "new Set(Array.from({length: 23}, (_, i) => m.jobColour({id: 'x' + i}))).size", `23`},
		{"api", "m.path(['jobs', 'a/b?c'], {state: ['x', 'y'], after: ''})", `"/v1/jobs/a%2Fb%3Fc?state=x&state=y"`},
		{"feed", "m.kindOf({exit: {job: 'j'}}) + m.jobOf({event: {kind: 'job-submitted', spec: {id: 'j'}}})", `"attempt-endedj"`},
		{"dom", "(() => { const d = document.createElement('b'); m.show(d, m.knobs('las:a=1@share')); return [d.innerHTML, d.textContent]; })()", `["las\u003cwbr\u003e:a=1\u003cwbr\u003e@share","las:a=1@share"]`},
		{"dom", "(() => { const d = document.createElement('div'); m.show(d, m.h('b', {key: 1}, 'a'), m.h('b', {key: 2}, 'b')); const b = d.lastChild; m.show(d, m.h('b', {key: 2}, '<i>'), m.h('b', {key: 3}, 'c')); return [b === d.firstChild, d.innerHTML]; })()", `[true,"\u003cb\u003e\u0026lt;i\u0026gt;\u003c/b\u003e\u003cb\u003ec\u003c/b\u003e"]`},
	} {
		got := eval[string](p, fmt.Sprintf("import('/%s.js').then((m) => JSON.stringify(%s))", c.module, c.call))
		if want := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(c.want); got != want {
			t.Errorf("%s: %s = %s; want %s", c.module, c.call, got, want)
		}
	}
	p.silent()
}

// TestStatesOfNodes keeps the numbers that the page knows in step with the core.
func TestStatesOfNodes(t *testing.T) {
	if got := [...]sched.NodeState{sched.Ready, sched.Cordoned, sched.Down}; got != [...]sched.NodeState{0, 1, 2} {
		t.Errorf("the states of a node are %v; grid.js counts them from 0", got)
	}
}
