// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// soon is how long a test waits for what should happen at once: nothing, on a busy
// machine, is late enough to fail.
const soon = 2 * time.Minute

// feed is a state whose notices a test makes.
type feed struct {
	mu   sync.Mutex
	list []api.Notice
	more chan struct{}
}

func newFeed() *feed { return &feed{more: make(chan struct{})} }

func (f *feed) Notices(after uint64) ([]api.Notice, uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := uint64(len(f.list))
	return f.list[min(after, last):], last, f.more
}

func (f *feed) add(n api.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.Seq, n.At = uint64(len(f.list)+1), time.Unix(1_700_000_000, 0).UTC()
	f.list = append(f.list, n)
	close(f.more)
	f.more = make(chan struct{})
}

// file keeps what a notifier saves.
type file struct {
	mu    sync.Mutex
	text  []byte
	saved chan struct{} // closed when something was
}

func newFile() *file { return &file{saved: make(chan struct{})} }

func (f *file) save(text []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.text == nil {
		close(f.saved)
	}
	f.text = text
	return nil
}

func (f *file) load() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text, nil
}

// begin runs a notifier, and returns how to end it.
func begin(t *testing.T, feed *feed, kept *file, targets ...Target) (n *Notifier, end func()) {
	t.Helper()
	c := Default()
	c.Targets = targets
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	n = New(Options{
		Config: c, State: feed, Load: kept.load, Save: kept.save, Now: time.Now, Log: slog.New(slog.DiscardHandler), Retry: time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-kept.saved // what happens before it looks for the first time is past
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return n, end
}

// hook is a server that keeps what it is sent.
type hook struct {
	*httptest.Server
	got chan call
}

type call struct {
	header http.Header
	body   string
}

// newHook starts one; answer decides on the n-th request, from 0.
func newHook(t *testing.T, answer func(n int, w http.ResponseWriter)) *hook {
	t.Helper()
	h := &hook{got: make(chan call, 10000)}
	var mu sync.Mutex
	n := 0
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		number := n
		n++
		mu.Unlock()
		h.got <- call{r.Header, string(body)}
		if answer != nil {
			answer(number, w)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) wait(t *testing.T) call {
	t.Helper()
	select {
	case c := <-h.got:
		return c
	case <-time.After(soon):
		t.Fatal("nothing was sent")
	}
	return call{}
}

// until waits for how a target takes its notices.
func until(t *testing.T, n *Notifier, is func(api.Delivery) bool) api.Delivery {
	t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, d := range n.Deliveries() {
			if is(d) {
				return d
			}
		}
	}
	t.Fatalf("the targets are %+v", n.Deliveries())
	return api.Delivery{}
}

func notice(job sched.JobID, event string, notify ...string) api.Notice {
	return api.Notice{Event: event, Job: job, User: "ann", Tenant: "blue", Text: "exit code 1", Notify: notify}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWebhook: a webhook is told what the job asked for, signed, and nothing else.
func TestWebhook(t *testing.T) {
	h := newHook(t, nil)
	feed := newFeed()
	feed.add(notice("old-1", api.NoticeFailed, "ops"))
	const secret = "0123456789abcdef"
	begin(t, feed, newFile(), Target{Name: "ops", Kind: Webhook, URL: h.URL, SecretFile: write(t, secret+"\n")})
	feed.add(notice("a-1", api.NoticeStarted, "ops"))
	feed.add(notice("a-1", api.NoticeFailed, "other"))
	feed.add(notice("a-1", api.NoticeFailed, "ops"))
	feed.add(notice("a-2", api.NoticeStarted, "ops:started"))
	c := h.wait(t)
	var got struct {
		ID, Event, Job, User, Text string
	}
	if err := json.Unmarshal([]byte(c.body), &got); err != nil || got.ID != "4-ops" || got.Event != "failed" || got.Job != "a-1" || got.User != "ann" || got.Text != "exit code 1" {
		t.Errorf("%s, %v", c.body, err)
	}
	stamp := c.header.Get(HeaderTimestamp)
	if c.header.Get(HeaderDelivery) != "4-ops" || stamp == "" || c.header.Get(HeaderSignature) != Sign([]byte(secret), stamp, []byte(c.body)) {
		t.Errorf("headers %v", c.header)
	}
	if c := h.wait(t); !strings.Contains(c.body, `"event":"started"`) || !strings.Contains(c.body, "a-2") {
		t.Errorf("%s; want the start that a-2 asked for", c.body)
	}
}

// TestTenant: a target is told of the jobs of its tenants, and as Slack reads it.
func TestTenant(t *testing.T) {
	h := newHook(t, nil)
	feed := newFeed()
	begin(t, feed, newFile(), Target{Name: "chat", Kind: Slack, URLFile: write(t, h.URL), Tenants: []sched.TenantID{"blue"}, Events: []string{api.NoticePreempted}})
	feed.add(notice("a-1", api.NoticeFailed))
	red := notice("r-1", api.NoticePreempted)
	red.Tenant = "red"
	feed.add(red)
	n := notice("a-1", api.NoticePreempted)
	n.Text = "by <b-2>"
	feed.add(n)
	if c := h.wait(t); c.body != `{"text":"Job a-1 of ann was preempted: by \u0026lt;b-2\u0026gt;"}` {
		t.Errorf("%s", c.body)
	}
}

// TestRetry: a target that fails or redirects is tried again with the same id, and one
// that hangs does not delay another.
func TestRetry(t *testing.T) {
	release := make(chan struct{})
	hangs := newHook(t, func(int, http.ResponseWriter) { <-release })
	t.Cleanup(func() { close(release) }) // before the server is closed
	good := newHook(t, nil)
	fails := newHook(t, func(n int, w http.ResponseWriter) {
		switch n {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			w.Header().Set("Location", good.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	feed := newFeed()
	n, _ := begin(t, feed, newFile(),
		Target{Name: "hangs", Kind: Webhook, URL: hangs.URL, Tenants: []sched.TenantID{"*"}},
		Target{Name: "fails", Kind: Webhook, URL: fails.URL, Tenants: []sched.TenantID{"*"}},
		Target{Name: "good", Kind: Webhook, URL: good.URL, Tenants: []sched.TenantID{"*"}})
	feed.add(notice("a-1", api.NoticeFailed))
	hangs.wait(t)
	for range 3 {
		if c := fails.wait(t); c.header.Get(HeaderDelivery) != "1-fails" {
			t.Errorf("sent %v", c.header)
		}
	}
	if c := good.wait(t); c.header.Get(HeaderDelivery) != "1-good" {
		t.Errorf("sent %v; want no redirected notice", c.header)
	}
	until(t, n, func(d api.Delivery) bool { return d == api.Delivery{Target: "fails", Failed: 2} })
}

// TestTrouble: why a target takes nothing is told, but not its URL, which may be a secret.
func TestTrouble(t *testing.T) {
	h := newHook(t, nil)
	h.Close() // nobody listens there
	feed := newFeed()
	n, _ := begin(t, feed, newFile(), Target{Name: "gone", Kind: Slack, URL: strings.Replace(h.URL, "http://", "http://ann:word@", 1) + "/T0/secret", Tenants: []sched.TenantID{"*"}})
	feed.add(notice("a-1", api.NoticeFailed))
	d := until(t, n, func(d api.Delivery) bool { return d.Failed > 0 })
	if !strings.Contains(d.Error, "refused") || strings.Contains(d.Error, "word") || strings.Contains(d.Error, "secret") {
		t.Errorf("told is %q; want why, without the URL", d.Error)
	}
}

// TestResumed: what was not delivered before a restart is delivered after it, with what
// happened meanwhile, and what was delivered is not sent again.
func TestResumed(t *testing.T) {
	up := make(chan struct{})
	h := newHook(t, func(n int, w http.ResponseWriter) {
		select {
		case <-up:
		default:
			if n > 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	})
	target := Target{Name: "ops", Kind: Webhook, URL: h.URL, Tenants: []sched.TenantID{"*"}}
	feed, kept := newFeed(), newFile()
	_, end := begin(t, feed, kept, target)
	feed.add(notice("a-1", api.NoticeFinished))
	h.wait(t)
	feed.add(notice("a-2", api.NoticeFinished))
	for c := h.wait(t); c.header.Get(HeaderDelivery) != "2-ops"; {
		c = h.wait(t)
	}
	end()
	feed.add(notice("a-3", api.NoticeFinished))
	close(up)
	for len(h.got) > 0 {
		<-h.got
	}
	begin(t, feed, kept, target)
	for _, want := range []string{"2-ops", "3-ops"} {
		if c := h.wait(t); c.header.Get(HeaderDelivery) != want {
			t.Errorf("after the restart %s; want %s", c.header.Get(HeaderDelivery), want)
		}
	}
}

// TestBounded: a target that is down for long loses the oldest notices, not the memory.
func TestBounded(t *testing.T) {
	ops := Target{Name: "ops", Kind: Webhook, URL: "http://127.0.0.1:1/x", Tenants: []sched.TenantID{"*"}}
	n := New(Options{Config: Config{Targets: []Target{ops}}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for i := range mostPending + 5 {
		x := notice("a-1", api.NoticeFailed)
		x.Seq = uint64(i)
		n.add([]api.Notice{x})
	}
	if got := len(n.kept.Pending); got != mostPending || n.kept.Pending[0].Notice.Seq != 5 {
		t.Errorf("%d wait, from %d; want %d, from 5", got, n.kept.Pending[0].Notice.Seq, mostPending)
	}
	if lost := n.Deliveries()[0].Lost; lost != 5 {
		t.Errorf("%d count as lost; want 5", lost)
	}
}

// TestMail: the machine's mail system gets a mail to the user, and a name cannot become
// an option or another header.
func TestMail(t *testing.T) {
	out := filepath.Join(t.TempDir(), "mail")
	program := write(t, fmt.Sprintf("#!/bin/sh\n{ echo \"$@\"; cat; } > %s\n", out))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	n := notice("a-1", api.NoticeFailed)
	n.User, n.Text = "-ann\nBcc: x", "line one\nline two"
	if err := mail(t.Context(), program, "{user}@lab.example", &n); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\n\n")
	if !strings.HasPrefix(head, "-i -- annBccx@lab.example\nTo: annBccx@lab.example\nSubject: [fairway] Job a-1 of ") || strings.Contains(head, "\nBcc") || !strings.Contains(body, "line two") {
		t.Errorf("sent\n%s", text)
	}
	if err := mail(t.Context(), "/bin/false", "ann@lab.example", &n); err == nil {
		t.Error("a mail system that refuses goes unnoticed")
	}
}

func TestConfig(t *testing.T) {
	good := Target{Name: "ops", Kind: Webhook, URL: "http://127.0.0.1:1/x"}
	for want, edit := range map[string]func(*Target){
		"notify.targets[0].name":                 func(x *Target) { x.Name = "a:b" },
		"notify.targets[0].kind":                 func(x *Target) { x.Kind = "fax" },
		"notify.targets[0].url: want a URL":      func(x *Target) { x.URL = "ftp://x" },
		"notify.targets[0].url, url_file = both": func(x *Target) { x.URLFile = "/x" },
		"notify.targets[0].secret_file":          func(x *Target) { x.SecretFile = "/nowhere" },
		"notify.targets[0].events":               func(x *Target) { x.Events = []string{"boom"} },
		"notify.targets[0].to":                   func(x *Target) { x.Kind, x.To = Mail, "-x" },
	} {
		bad := good
		edit(&bad)
		if err := (Config{Targets: []Target{bad}, Sendmail: "/bin/true"}).Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	c := Config{Targets: []Target{good}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if err := c.Check("ops:failed"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"http://169.254.169.254/", "nosuch", "ops:boom", ""} {
		if err := c.Check(text); api.CodeOf(err) != api.Invalid {
			t.Errorf("%q: %v; want it refused", text, err)
		}
	}
}
