// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/fairway-gpu/fairway/sched/num"
)

// patience is how long a page may take to show what is waited for.
// A machine with little time to spare starts a browser in a minute.
const patience = 3 * time.Minute

// browser finds Chromium, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium or Chrome is installed")
	return ""
}

// tab is a page in a window of its own.
type tab struct {
	*testing.T
	ctx  context.Context
	addr string
	mu   sync.Mutex
	// complaints is what the page wrote to the console or threw; that a server
	// which is down does not answer is no complaint.
	complaints []string
}

// TestDashboard runs everything that needs a browser in one, each part in a
// window of its own.
func TestDashboard(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	path := browser(t)
	// Not t.TempDir: the browser may still write to its profile when it is gone,
	// and that must not fail the test.
	profile, err := os.MkdirTemp("", "fairway-web")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(profile),
		chromedp.WindowSize(1360, 900), chromedp.WSURLReadTimeout(patience), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	quiet := func(string, ...any) {} // newer browsers send events that the library cannot read
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	t.Cleanup(func() { cancel(); stop(); _ = os.RemoveAll(profile) })
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		name string
		test func(*testing.T, window)
	}{
		{"life", testLife}, {"forecast", testForecast}, {"troubles", testTroubles}, {"hands", testHands}, {"metrics", testMetrics}, {"lists", testLists}, {"still", testStill}, {"submit", testSubmit}, {"large-cluster", testLargeCluster}, {"many-jobs", testManyJobs}, {"modules", testModules}, {"kinds", testKinds}, {"reader", testReader}, {"pictures", testPictures},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, window{ctx})
		})
	}
}

// window opens windows of a running browser.
type window struct{ browser context.Context }

// open prepares a window. A tab beside another would be hidden behind it, and a
// hidden page does not listen to the daemon.
func (w window) open(t *testing.T, f *fake) *tab {
	t.Helper()
	id, err := target.CreateTarget("about:blank").WithNewWindow(true).WithWidth(1360).WithHeight(900).Do(cdp.WithExecutor(w.browser, chromedp.FromContext(w.browser).Browser))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(w.browser, chromedp.WithTargetID(id))
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx, addr: "http://" + f.addr}
	chromedp.ListenTarget(ctx, p.listen)
	return p
}

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		p.complaints = append(p.complaints, fmt.Sprintf("console.%s: %s", e.Type, e.Args[0].Value))
	case *log.EventEntryAdded:
		if e.Entry.Source != log.SourceNetwork {
			p.complaints = append(p.complaints, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		}
	}
}

// silent fails the test if the page complained.
func (p *tab) silent() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.complaints {
		p.Errorf("the page complained: %s", c)
	}
}

func (p *tab) do(actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// start opens the page; the life of a window is that of the test, not of one
// call.
func (p *tab) start(path string) {
	p.Helper()
	if err := chromedp.Run(p.ctx, chromedp.Navigate(p.addr+path)); err != nil {
		p.Fatal(err)
	}
}

// eval returns the value of an expression, awaited if it is a promise.
func eval[T any](p *tab, script string) T {
	p.Helper()
	var v T
	p.do(chromedp.Evaluate(script, &v, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return v
}

// until waits for an expression to become true.
func (p *tab) until(what, script string) {
	p.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if eval[bool](p, "!!("+script+")") {
			return
		}
	}
	p.Fatalf("waited %s for %s; the page says:\n%s", patience, what, p.text())
}

func (p *tab) text() string {
	return eval[string](p, "document.querySelector('main').innerText + '\\n[' + document.getElementById('link').textContent + ']'")
}

// shows waits for words on the page.
func (p *tab) shows(words ...string) {
	p.Helper()
	for _, w := range words {
		p.until(fmt.Sprintf("%q", w), fmt.Sprintf("document.body.innerText.includes(%q)", w))
	}
}

// click focuses and clicks what a selector finds, when it is where a hand could
// reach it. A mouse may miss a button that a refresh moves.
func (p *tab) click(selector string) {
	p.Helper()
	p.until(selector+" to be clicked", fmt.Sprintf(`(() => {
		const b = document.querySelector(%q);
		if (!b) return false;
		b.scrollIntoView({ block: 'center', behavior: 'instant' });
		const r = b.getBoundingClientRect();
		if (!b.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2))) return false;
		b.focus();
		b.click();
		return true;
	})()`, selector))
}

// measure lets the browser count the time that the page works.
func (p *tab) measure() {
	p.Helper()
	if err := chromedp.Run(p.ctx, performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks)); err != nil {
		p.Fatal(err)
	}
}

// light changes something several times, and fails if the page usually works for more than
// so many seconds to show it. It tries again: a machine that does much else has cold caches.
func (p *tab) light(what string, most float64, f *fake, change func(n int)) {
	p.Helper()
	const several = 5
	usual := math.Inf(1)
	for try := 0; try < 3 && usual > most; try++ {
		took := make([]float64, several)
		for n := range took {
			took[n] = p.refresh(f, func() { change(several*try + n) })
		}
		p.Logf("%s: seconds of work for a refresh: %.3f", what, took)
		usual = num.Quantile(took, 0.5)
	}
	if usual <= 0 || usual > most {
		p.Errorf("a refresh of %s usually takes %.0f ms of work; want at most %.0f ms", what, 1000*usual, 1000*most)
	}
}

// refresh changes something and returns how many seconds the page worked to show it.
func (p *tab) refresh(f *fake, change func()) float64 {
	p.Helper()
	eval[bool](p, "new Promise((done) => setTimeout(() => requestIdleCallback(done), 600)).then(() => true)") // what was begun is done
	worked := p.busy()
	f.mu.Lock()
	before := f.listed
	f.mu.Unlock()
	f.change("a change", change)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		f.mu.Lock()
		done := f.listed > before
		f.mu.Unlock()
		if done {
			break
		}
		if time.Now().After(end) {
			p.Fatalf("the page asks for no jobs after a change")
		}
	}
	eval[bool](p, "new Promise((done) => setTimeout(() => requestIdleCallback(done), 700)).then(() => true)")
	return p.busy() - worked
}

// busy returns how many seconds the page has worked so far. The time that others
// had the processor for does not count.
func (p *tab) busy() float64 {
	p.Helper()
	var all []*performance.Metric
	p.do(chromedp.ActionFunc(func(ctx context.Context) (err error) { all, err = performance.GetMetrics().Do(ctx); return err }))
	for _, m := range all {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	p.Fatal("the browser does not say how long the page has worked")
	return 0
}

// visit changes the route.
func (p *tab) visit(hash string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf("location.hash = %q, true", hash))
}

// sound checks what must hold on every page: no markup from data, no words that
// a script shows for a missing value, nothing wider than the window.
func (p *tab) sound() {
	p.Helper()
	if eval[bool](p, "window.pwned === 1 || document.querySelector('img[src=x]') !== null") {
		p.Error("a job's name was taken for markup")
	}
	text := p.text()
	for _, bad := range []string{"NaN", "undefined", "[object", "Infinity", "Invalid Date"} {
		if strings.Contains(text, bad) {
			p.Errorf("the page says %q:\n%s", bad, text)
		}
	}
	if wide := eval[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		p.Errorf("the page is %d pixels wider than its window", wide)
	}
	if cut := eval[string](p, "[...document.querySelectorAll('.scroll')].filter((x) => x.scrollWidth > x.clientWidth).map((x) => x.querySelector('thead')?.innerText).join('; ')"); cut != "" {
		p.Errorf("a table is wider than its panel, so that its last columns are not seen: %s", cut)
	}
	if over := eval[float64](p, "(() => { const chart = document.activeElement.closest('.chart'), tip = document.getElementById('tip'); return chart && !tip.hidden ? tip.getBoundingClientRect().right - chart.getBoundingClientRect().right : 0; })()"); over > 0 {
		p.Errorf("the values of a chart cover %.0f pixels of what is beside it", over)
	}
	if cut := eval[string](p, "[...document.querySelectorAll('.axes text')].filter((x) => x.getBoundingClientRect().left < x.ownerSVGElement.getBoundingClientRect().left).map((x) => x.textContent).join(', ')"); cut != "" {
		p.Errorf("labels of an axis are cut: %s", cut)
	}
}
