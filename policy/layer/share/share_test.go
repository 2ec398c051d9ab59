// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/layer/share"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func small(id sched.JobID, model string) sched.Spec {
	return sched.Spec{ID: id, Model: model, GPUs: 1, GPUUtil: 0.3, GPUMemory: gib, Shareable: true}
}

// world has one GPU on which a host and a guest sit under fifo@share.
func world(t *testing.T, p sched.Policy, gpus int) *policytest.World {
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: gpus, GPUMemory: 16 * gib}})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []sched.Spec{small("host", "a"), small("guest", "b")} {
		if err := w.Submit(spec, 0); err != nil {
			t.Fatal(err)
		}
		decide(t, w, p)
		w.Now = w.Now.Add(time.Minute)
	}
	return w
}

func decide(t *testing.T, w *policytest.World, p sched.Policy) {
	t.Helper()
	if _, _, err := w.Decide(p); err != nil {
		t.Fatal(err)
	}
}

func measure(t *testing.T, w *policytest.World, id sched.JobID, slowdown float64) {
	t.Helper()
	if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: id, Slowdown: slowdown}); err != nil {
		t.Fatal(err)
	}
}

func where(t *testing.T, w *policytest.World, id sched.JobID) string {
	t.Helper()
	j, ok := w.State.Job(id)
	if !ok {
		t.Fatalf("job %s has ended", id)
	}
	return j.Placement.Text(w.State.Cluster())
}

// The last to come goes when the other is slower than promised; the two models are
// not put together again, others are.
func TestFeedback(t *testing.T) {
	p := build(t, "fifo@share")
	w := world(t, p, 1)
	if h, g := where(t, w, "host"), where(t, w, "guest"); h != "n0[0]x0.5" || g != h {
		t.Fatalf("host on %s, guest on %s; want both on n0[0]x0.5", h, g)
	}
	measure(t, w, "host", 1.2) // within 1.15 x 1.1
	decide(t, w, p)
	if g := where(t, w, "guest"); g == "-" {
		t.Fatal("the guest has gone although the host is no slower than promised")
	}
	measure(t, w, "host", 1.5)
	decide(t, w, p)
	if h, g := where(t, w, "host"), where(t, w, "guest"); h != "n0[0]x0.5" || g != "-" {
		t.Fatalf("host on %s, guest on %s; want the guest gone", h, g)
	}
	w.Now = w.Now.Add(time.Minute)
	measure(t, w, "host", 1)
	decide(t, w, p)
	if g := where(t, w, "guest"); g != "-" {
		t.Errorf("the guest is back on %s", g)
	}
	if err := w.Submit(small("other", "c"), 0); err != nil {
		t.Fatal(err)
	}
	decide(t, w, p)
	if o := where(t, w, "other"); o != "n0[0]x0.5" {
		t.Errorf("a job of another model is on %s; want n0[0]x0.5", o)
	}
	// Without memory the pair is tried once more; nothing else is lost.
	if err := w.Apply(sched.Event{Kind: sched.JobEnded, Job: "other", Phase: sched.Finished}); err != nil {
		t.Fatal(err)
	}
	decide(t, w, build(t, "fifo@share"))
	if g := where(t, w, "guest"); g != "n0[0]x0.5" {
		t.Errorf("after a restart the guest is on %s; want n0[0]x0.5", g)
	}
}

// A guest that has to go takes another seat if there is one, and what was measured
// before it came is not its fault.
func TestFeedbackMoves(t *testing.T) {
	p := build(t, "fifo@share")
	w := world(t, p, 1)
	n := sched.Node{Name: "n1", GPUs: 1, GPUMemory: 16 * gib}
	if err := w.Apply(sched.Event{Kind: sched.NodeJoined, Node: &n}); err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(small("free", "c"), 0); err != nil {
		t.Fatal(err)
	}
	decide(t, w, p)
	measure(t, w, "guest", 2)
	decide(t, w, p)
	if g := where(t, w, "guest"); g != "n1[0]x0.5" {
		t.Fatalf("the guest is on %s; want n1[0]x0.5", g)
	}
	// A report from before the move.
	w.Now = w.Now.Add(time.Minute)
	if err := w.Submit(small("late", "d"), 0); err != nil {
		t.Fatal(err)
	}
	measure(t, w, "host", 3)
	w.Now = w.Now.Add(time.Second)
	decide(t, w, p)
	w.Now = w.Now.Add(time.Second)
	decide(t, w, p)
	if l := where(t, w, "late"); l != "n0[0]x0.5" {
		t.Errorf("late is on %s; want n0[0]x0.5", l)
	}
}

func TestText(t *testing.T) {
	for spec, want := range map[string]string{
		"fifo@share":                          "fifo@share",
		"las:lease=20m@share:jobs=3:mode=mps": "las:lease=20m@share:jobs=3:mode=mps",
	} {
		if got := build(t, spec).(interface{ String() string }).String(); got != want {
			t.Errorf("%s prints as %s; want %s", spec, got, want)
		}
	}
}

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*share.Config)
		want   string
	}{
		{func(c *share.Config) { c.Slowdown = 1 }, "slowdown = 1; want above 1 to 100"},
		{func(c *share.Config) { c.Jobs = 0 }, "jobs = 0; want 1 (no sharing) to 8"},
		{func(c *share.Config) { c.Margin = -1 }, "margin = -1; want 0 or more MiB"},
		{func(c *share.Config) { c.Patience = 0.5 }, "patience = 0.5; want 1 to 100"},
		{func(c *share.Config) { c.Hold = 0 }, "hold = 0s; want a positive duration"},
		{func(c *share.Config) { c.Reserve = -1 }, "reserve = -1; want 0 to 1"},
		{func(c *share.Config) { c.Mode = "x" }, `mode "x"; want time-slice or mps`},
	} {
		config := share.Default()
		c.change(&config)
		if _, err := share.New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}
