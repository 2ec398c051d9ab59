// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fairway-gpu/fairway/api"
)

// has waits for a part of the address.
func (p *tab) has(address string) {
	p.Helper()
	p.until(address+" in the address", "location.hash.includes('"+address+"')")
}

// set gives an input a value, as a hand would.
func (p *tab) set(selector, value, event string) {
	p.Helper()
	p.until(selector, "document.querySelector('"+selector+"')")
	eval[bool](p, "(() => { const i = document.querySelector('"+selector+"'); i.value = '"+value+"'; i.dispatchEvent(new Event('"+event+"')); return true; })()")
}

// testMetrics: the chart of a job's metrics shows what is chosen, keeps it in the
// address, and compares jobs.
func testMetrics(t *testing.T, w window) {
	f := newFake()
	richWorld(f)
	f.points["j-0004"] = slices.Clone(f.points["j-0003"][:90])
	for i := range f.points["j-0004"] {
		f.points["j-0004"][i].Memory = 20 << 20
	}
	f.open(t)
	p := w.open(t, f)
	p.start("/#/jobs/j-0003")
	const chart = ".metrics .chart"
	says := func(words string) {
		t.Helper()
		p.until(words+" of the chart", "document.querySelector('"+chart+" svg')?.getAttribute('aria-label').includes('"+words+"')")
	}
	lines := func(n string) {
		t.Helper()
		p.until(n+" lines", "document.querySelectorAll('"+chart+" path.line').length === "+n)
	}
	says("by step: resnet-50, last 0.")
	p.until("links to its runs elsewhere", "[...document.querySelectorAll('.facts a')].map((a) => a.textContent + ' ' + a.href).join() === 'W&B https://wandb.example/lab/vision/runs/a1,MLflow http://mlflow.example/#/experiments/1/runs/b2'")
	p.until("the metrics that were reported", "[...document.querySelectorAll('"+chart+" option')].map((o) => o.value).join().startsWith('accuracy,loss,goodput')")
	p.click(chart + " .choice button:last-child")
	says("by time")
	p.has("x=time")
	p.click(chart + " [aria-label='Logarithmic scale']")
	p.has("y=log")
	lines("1")
	p.set(chart+" input[type=range]", "0.6", "input")
	p.has("smooth=0.6")
	lines("2") // the raw one too
	p.set(chart+" select", "accuracy", "change")
	p.has("metric=accuracy")
	p.set(".compare input", "j-0004", "change")
	p.has("compare=j-0004")
	says("by time since the start")
	lines("4")
	p.do(chromedp.Reload())
	says("by time since the start: resnet-50")
	lines("4")
	p.until("the name of the other job", "document.querySelector('.chip')?.innerText.includes('sweep lr=0.01')")
	p.set(".compare input", "j-0005", "change")
	p.shows("sweep lr=0.001: has not reported accuracy")
	lines("4")
	if got := eval[int](p, "document.querySelectorAll('"+chart+" .legend button').length"); got != 2 {
		t.Errorf("the legend names %d jobs; want the 2 that are drawn", got)
	}
	p.click(".chip:last-child button")
	p.set(".compare input", "no-such-job", "change")
	p.shows("no-such-job: there is no job no-such-job")
	p.click(".chip button")
	lines("2")
	if shown := p.text(); strings.Contains(shown, "sweep lr=0.01") {
		t.Errorf("the chart still compares:\n%s", shown)
	}
	p.sound()
	p.visit("#/jobs/j-0004")
	p.shows("GPU memory", "0.0195")
	p.sound()
	p.silent()
}

// testLists: filters and the order of the lists are in the address; the page of a
// search sorts trials by what they were given and what they reached.
func testLists(t *testing.T, w window) {
	f := newFake()
	richWorld(f)
	f.open(t)
	p := w.open(t, f)
	p.start("/#/jobs")
	first := func(what, name string) {
		t.Helper()
		p.until(what, "document.querySelector('tbody tr')?.innerText.includes('"+name+"')")
	}
	p.shows("lr-sweep")
	p.click("[data-sort=gpus]")
	p.has("sort=-gpus")
	first("the largest job on top", "gpt-nano")
	p.until("the order for screen readers", "document.querySelector('[aria-sort=descending]')?.innerText.includes('GPUs')")
	p.until("a user to click", "[...document.querySelectorAll('.as-link')].find((b) => b.innerText === 'grace')?.click() || location.hash.includes('user=grace')")
	p.until("three jobs of grace", "document.querySelectorAll('tbody tr').length === 3")
	p.do(chromedp.Reload())
	p.until("three jobs of grace, again", "document.querySelectorAll('tbody tr').length === 3 && document.querySelector('.chip').innerText.includes('user grace')")
	p.click(".chip button")
	p.until("all jobs", "document.querySelectorAll('tbody tr').length === 12")
	p.click("[aria-label=Show] button:last-child")
	p.has("by=app")
	p.until("the app, but no job that is alone", "document.querySelectorAll('tbody tr').length === 1")
	p.until("the best trial", "document.querySelector('tbody').innerText.includes('0.4 trial 1')")
	p.click("tbody th a")
	p.has("#/apps/lr-sweep")
	p.shows("9 trials of 12, 6 stopped early", "stopped early at rung 2: its loss is not among the best third")
	p.until("a line for each trial, the best one marked, and those stopped early dashed",
		"[document.querySelectorAll('.parallel .line').length, document.querySelectorAll('.parallel .best').length, document.querySelectorAll('.parallel [stroke-dasharray]').length, [...document.querySelectorAll('.axis-name')].map((a) => a.textContent)].join() === '9,1,6,lr,width,rung,loss'")
	first("the best trial on top", "0.4")
	p.click("[data-sort='param:lr']")
	first("the largest rate on top, of which trial 0 is the first", "1e-01")
	p.click("[data-sort='param:lr']")
	first("the least rate on top", "1e-05")
	p.visit("#/events")
	p.set("#event-kind", "attempt-ended", "change")
	p.has("kind=attempt-ended")
	p.set("main input[type=search]", "no such job", "input")
	p.has("search=no+such+job")
	p.shows("No matching events.")
	p.do(chromedp.Reload())
	p.shows("No matching events.")
	p.until("the filters of before", "document.querySelector('#event-kind').value === 'attempt-ended' && document.querySelector('main input[type=search]').value === 'no such job'")
	p.set("main input[type=search]", "", "input")
	p.until("attempts that ended, and nothing else", "document.querySelector('.event-kind') && [...document.querySelectorAll('.event-kind')].every((k) => k.innerText === 'attempt-ended') && !location.hash.includes('search')")
	p.sound()
	p.silent()
}

// testLargeCluster: a thousand nodes are one map, which the keyboard reaches, and a
// refresh of it does not keep the browser busy.
func testLargeCluster(t *testing.T, w window) {
	f := newFake()
	largeWorld(f, 1000, 3000)
	f.open(t)
	p := w.open(t, f)
	p.measure()
	p.start("/#/cluster")
	p.until("the map", "document.querySelector('canvas.map')?.getAttribute('aria-label').includes('1,000 nodes')")
	p.shows("Who holds what", "30 of 1,000 shown")
	painted := func(what, alike string) {
		t.Helper()
		p.until(what, `(() => {
			const c = document.querySelector('canvas.map');
			const colours = new Set();
			const copy = document.createElement('canvas');
			[copy.width, copy.height] = [c.width, 60];
			const g = copy.getContext('2d', { willReadFrequently: true });
			g.drawImage(c, 0, 0);
			const d = g.getImageData(0, 0, c.width, 60).data;
			for (let i = 0; i < d.length; i += 4) if (d[i + 3]) colours.add(d[i] + ',' + d[i + 1] + ',' + d[i + 2]);
			return colours.size `+alike+`;
		})()`)
	}
	painted("a colour for each of many apps", "> 12")
	p.click("[aria-label=Colour] button:nth-child(2)")
	p.until("the key", `/language\s*robotics\s*vision\s*free\s*cordoned: \d+ nodes\s*down: \d+ nodes/.test(document.querySelector('.map-box .legend').innerText)`)
	painted("a colour for each of three tenants, free cells and nodes out of use", "< 12")
	p.do(chromedp.Focus("canvas.map"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowDown))
	p.until("the card of a GPU", "!document.getElementById('tip').hidden && document.getElementById('tip').innerText.includes('node-0000')")
	p.until("the same for screen readers", "document.querySelector('[aria-live=polite]').textContent.startsWith('node-0000, H200 5: ')")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("the page of the job", "location.hash.startsWith('#/jobs/j-')")
	p.visit("#/cluster?node=node-0042")
	p.until("the one node in full", "document.querySelectorAll('.node').length === 1")
	p.light("the page of 1,000 nodes", 0.25, f, func(int) {})
	p.sound()
	p.silent()
}

// testStill: nothing on a page moves while it is loaded.
func testStill(t *testing.T, w window) {
	f := newFake()
	richWorld(f)
	f.open(t)
	const most = 0.1 // what browsers call good
	for _, hash := range []string{"#/jobs/j-0003", "#/", "#/cluster", "#/fairness"} {
		// On a machine that is busy, the page may give up waiting for its last part.
		shift := 1.0
		for try := 0; try < 5 && shift > most; try++ {
			p := w.open(t, f)
			p.start("/" + hash)
			p.until("the page "+hash, "document.querySelector('main section') && !document.querySelector('[aria-busy=true]')")
			shift = eval[float64](p, `new Promise((done) => {
				let sum = 0;
				new PerformanceObserver((l) => { for (const e of l.getEntries()) sum += e.value; }).observe({ type: 'layout-shift', buffered: true });
				setTimeout(() => done(sum), 400);
			})`)
			p.silent()
		}
		if shift > most {
			t.Errorf("%s moves while it is loaded: a layout shift of %.3f; want %.1f at most", hash, shift, most)
		}
	}
}

// testSubmit submits a job from the form and two from a file, on a phone and with the
// keyboard. What is wrong is said at its field; what was not checked is not submitted.
func testSubmit(t *testing.T, w window) {
	f := newFake()
	f.nodes = []api.Node{node("box", 4, "h200")}
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	p.do(chromedp.EmulateViewport(390, 800))
	p.shows("No running jobs.")
	p.until("the whole navigation on a phone", `[...document.querySelectorAll('nav a')].length === 7 && [...document.querySelectorAll('nav a')].every((a) => {
		const r = a.getBoundingClientRect();
		return r.left >= 0 && r.right <= innerWidth && a.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2));
	})`)
	p.click("nav a:last-child")
	p.shows("Working folder")
	p.do(chromedp.SendKeys("#new-name", "from-form"), chromedp.SendKeys("#new-command", `python "train it.py" --lr 0.1`), chromedp.SendKeys("#new-env", "A=b=c"))
	p.set("#new-gpus", "1-0", "input")
	p.click("#check")
	p.until("the error at its field", "document.querySelector('.failure') && document.querySelector('#new-gpus').getAttribute('aria-invalid') === 'true' && document.querySelector('#send').disabled")
	p.set("#new-gpus", "8", "input")
	p.do(chromedp.Focus("#new-name"), chromedp.KeyEvent(kb.Enter))
	p.shows("It would start in ", "needs 8 GPUs, and 1 is free", "With 1 GPU it would start now.", "Nothing has been submitted.")
	p.set("#new-gpus", "1-4", "input")
	p.until("no button to submit what was not checked", "document.querySelector('#send').disabled")
	p.click("#check")
	p.shows("It would start now, on 1 GPU")
	p.click("#send")
	p.shows("Submitted: from-form.")
	p.sound()
	p.click("[aria-label=From] button:last-child")
	p.has("from=file")
	p.set("#job-file", "gpu: 2", "input")
	p.click("#check")
	p.shows("did you mean gpus?")
	p.set("#job-file", "gpus: 2", "input")
	p.click("#check")
	p.shows("second would start now, on 2 GPUs")
	p.click("#send")
	p.shows("Submitted: from-file, second.")
	p.sound()
	p.silent()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.taken) != 3 {
		t.Fatalf("%d jobs were submitted; want 3", len(f.taken))
	}
	got := f.taken[0]
	if !slices.Equal(got.Command, []string{"python", "train it.py", "--lr", "0.1"}) || got.GPUs != 1 || got.MinGPUs != 1 || got.MaxGPUs != 4 || got.Env["A"] != "b=c" || got.Key == "" || got.Key == f.taken[1].Key {
		t.Errorf("submitted %+v", got)
	}
}
