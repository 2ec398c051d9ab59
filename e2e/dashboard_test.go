// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fairway-gpu/fairway/api"
)

// TestDashboard opens the pages of the real daemon in a real browser: a job appears,
// grows as it trains, is cancelled, and the page recovers by itself after the daemon
// was killed and restarted.
func TestDashboard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser")
	}
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
		}
	}
	if chromium == "" {
		t.Skip("no Chromium or Chrome is installed")
	}
	config := filepath.Join(t.TempDir(), "fairway.yaml")
	text := "slots: 4\nreport: 1s\nnotice: 5s\npolicy: pollux:interval=2s:restart=1s\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, shortDir(t), "--config", config, "--listen", "127.0.0.1:0")
	link := d.dashboard()
	front := newFront(t, link.Host)
	link.Host = front.address
	page := openPage(t, chromium, link.String())
	page.shows("Queue")
	job := d.submitTraining()
	page.shows(string(job.ID))
	page.picture("FAIRWAY_SHOTS", "overview.png")
	page.visit("#/jobs/" + string(job.ID))
	page.shows("running")
	page.shows("Metrics")
	page.shows("Batch size")
	// It starts on one slot, and gets a second after its first report.
	page.until("it holds more than one slot", func(text string) bool {
		return regexp.MustCompile(`Allocated\s+[2-4] (GPU|slot)s`).MatchString(text)
	})
	page.picture("FAIRWAY_SHOTS", "job.png")
	d.kill()
	page.shows("reconnecting")
	d.start()
	front.lead(d.dashboard().Host)
	page.until("the page is live again", func(text string) bool {
		return !strings.Contains(text, "reconnecting") && strings.Contains(text, "running")
	})
	page.submitFile()
	page.visit("#/jobs/" + string(job.ID))
	page.shows("Given and taken")
	page.click("Cancel")
	page.click("Cancel the job")
	page.shows("cancelled")
	page.until("the daemon has killed the job", func(string) bool {
		j, err := d.Job(context.Background(), job.ID)
		return err == nil && j.State == api.Cancelled
	})
}

// submitFile submits a job from a job file: first with a slip, which is named with its
// line, then checked.
func (p *page) submitFile() {
	p.t.Helper()
	write := func(text string) {
		p.t.Helper()
		p.until("the job file can be written", func(string) bool {
			var there bool
			p.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
				const f = document.getElementById("job-file");
				if (f) { f.value = %q; f.dispatchEvent(new Event("input")); }
				return f !== null;
			})()`, text), &there))
			return there
		})
	}
	p.visit("#/submit?from=file")
	write("name: typed\ncommand: [echo, hello]\ngpu: 1\n")
	p.click("Check")
	p.shows("job file:3:")
	write("name: typed\ncommand: [echo, hello]\ngpus: 1\n")
	p.click("Check")
	p.shows("Nothing has been submitted.")
	p.click("Submit")
	p.shows("Submitted: typed")
	p.click("Form")
	p.visit("#/jobs")
	p.shows("typed")
	p.visit("#/cluster")
	p.shows("Who holds what")
}

// dashboard returns a link that logs in to the dashboard.
func (d *daemon) dashboard() *url.URL {
	d.t.Helper()
	link, err := d.LoginLink(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	at, err := url.Parse(link.URL)
	if err != nil {
		d.t.Fatal(err)
	}
	return at
}

// front is an address that stays the same across restarts of the daemon. Another
// program may take the port of a stopped daemon before the next one starts.
type front struct {
	address string
	to      atomic.Pointer[string]
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := &front{address: l.Addr().String()}
	f.lead(to)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", *f.to.Load())
			if err != nil {
				in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
	return f
}

// lead points the front at another port.
func (f *front) lead(to string) { f.to.Store(&to) }

// submitTraining submits an elastic job that really trains, through the agent.
func (d *daemon) submitTraining() api.Job {
	d.t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		d.t.Fatal(err)
	}
	s := api.Submission{}
	s.Name, s.Dir = "train", root
	s.Command = []string{"python3", "examples/stdlib_train.py", "--steps", "100000", "--batch", "16", "--sleep", "0.004"}
	s.Env = map[string]string{"PYTHONPATH": filepath.Join(root, "python", "src")}
	s.GPUs, s.MinGPUs, s.MaxGPUs = 1, 1, 4
	s.Batch.Initial, s.Batch.Max, s.Batch.LocalMin, s.Batch.LocalMax, s.Batch.Adapt = 16, 128, 2, 64, true
	j, err := d.Submit(context.Background(), s)
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

// page is an open page.
type page struct {
	t   *testing.T
	ctx context.Context
}

func openPage(t *testing.T, chromium, url string) *page {
	t.Helper()
	profile, err := os.MkdirTemp("", "fairway-e2e-browser")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.UserDataDir(profile), chromedp.WindowSize(1360, 1400), chromedp.WSURLReadTimeout(patience))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	quiet := func(string, ...any) {}
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	t.Cleanup(func() { cancel(); stop(); _ = os.RemoveAll(profile) })
	if err := chromedp.Run(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	return &page{t: t, ctx: ctx}
}

func (p *page) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *page) text() string {
	var text string
	p.do(chromedp.Evaluate(`document.body.innerText`, &text))
	return text
}

func (p *page) until(what string, ok func(text string) bool) {
	p.t.Helper()
	if !holds(patience, func() bool { return ok(p.text()) }) {
		p.t.Fatalf("not so: %s; the page says:\n%s", what, p.text())
	}
}

func (p *page) shows(want string) {
	p.t.Helper()
	p.until("the page shows "+want, func(text string) bool { return strings.Contains(text, want) })
}

func (p *page) visit(hash string) {
	p.t.Helper()
	p.do(chromedp.Evaluate(`location.hash = "`+hash+`"`, nil))
}

// click clicks the button with that text once it is visible. The page may redraw it at
// any moment, so it is found and clicked in one step.
func (p *page) click(label string) {
	p.t.Helper()
	script := fmt.Sprintf(`(() => {
		const b = [...document.querySelectorAll("button")].filter((b) => b.textContent.trim() === %q).at(-1);
		if (!b) return false;
		b.scrollIntoView({ block: "center", behavior: "instant" });
		const r = b.getBoundingClientRect();
		if (!b.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2))) return false;
		b.click();
		return true;
	})()`, label)
	p.until("the button "+label+" can be clicked", func(string) bool {
		var clicked bool
		p.do(chromedp.Evaluate(script, &clicked))
		return clicked
	})
}

// picture saves a screenshot of the page in the folder that an environment variable
// names.
func (p *page) picture(variable, name string) {
	p.t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	var png []byte
	p.do(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		p.t.Error(err)
	}
}
