// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// build reads a spec: the policy's name and knobs.
var build = policytest.Builder(Default(), New)

func mustBuild(tb testing.TB, spec string) sched.Policy {
	p, err := build(spec)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestNewRefusesBadKnobs(t *testing.T) {
	for _, tc := range []struct {
		spec string
		want string // in the error
	}{
		{"optimus:form=guess", `form = "guess"; want oracle or original`},
		{"optimus:damp=0", "damp = 0; want more than 0, up to 1"},
		{"optimus:damp=1.01", "damp = 1.01; want more than 0, up to 1"},
		{"optimus:every=-1s", "every = -1s; want 0s (never) or 1s and more"},
		{"optimus:every=1ms", "every = 1ms; want 0s (never) or 1s and more"},
		{"optimus:young=-1s", "young = -1s; want 0s or more"},
	} {
		if _, err := build(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v; want %q", tc.spec, err, tc.want)
		}
	}
}

// world is a policytest.World whose jobs report how they train.
type world struct {
	*policytest.World
	tb testing.TB
}

// newWorld returns nodes n0, n1, ... with so many GPUs each.
func newWorld(tb testing.TB, gpus ...int) world {
	nodes := make([]sched.Node, len(gpus))
	for i, n := range gpus {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: n}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return world{w, tb}
}

func (w world) apply(e sched.Event) {
	w.tb.Helper()
	if err := w.Apply(e); err != nil {
		w.tb.Fatal(err)
	}
}

// submit submits an elastic job of 1 to 64 GPUs unless the spec says otherwise,
// and lets it report.
func (w world) submit(spec sched.Spec, perf *goodput.Report) {
	w.tb.Helper()
	if spec.GPUs == 0 {
		spec.GPUs, spec.MinGPUs, spec.MaxGPUs = 1, 1, 64
	}
	if err := w.Submit(spec, 0); err != nil {
		w.tb.Fatal(err)
	}
	if perf != nil {
		w.apply(sched.Event{Kind: sched.JobReported, Job: spec.ID, Perf: perf})
	}
}

// decide carries out a decision and returns who runs where.
func (w world) decide(p sched.Policy) string {
	w.tb.Helper()
	if _, _, err := w.Decide(p); err != nil {
		w.tb.Fatal(err)
	}
	var out []string
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		out = append(out, fmt.Sprintf("%s %s", j.ID, j.Placement.Text(w.State.Cluster())))
	}
	return strings.Join(out, ", ")
}

// curve returns step times compute/k + fixed + sync*k for k = 1 to n.
func curve(n int, compute, fixed, sync float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		k := float64(i + 1)
		out[i] = compute/k + fixed + sync*k
	}
	return out
}

// measured is what an agent reports that has run at some sizes of a list of step
// times by GPUs-1.
func measured(steps []float64, sizes ...int) *goodput.Report {
	r := &goodput.Report{}
	for _, n := range sizes {
		r.StepTimes = append(r.StepTimes, goodput.StepTime{Nodes: 1, GPUs: n, Batch: 64, Time: steps[n-1]})
	}
	return r
}

// losing returns the losses of a job that converges after so many steps, seen
// over a part of them, and its rule.
func losing(steps, part float64) ([]goodput.LossPoint, goodput.Stop) {
	l := Loss{B0: 20 / steps, B1: 1, Top: 3}
	stop := goodput.Stop{Epochs: 3, Epoch: steps / 50}
	from := steps - 3.5*stop.Epoch
	stop.Fall = (l.At(from) - l.At(from+stop.Epoch)) / l.Top
	const n = 32
	points := make([]goodput.LossPoint, n)
	for i := range points {
		k := part * steps * float64(i) / (n - 1)
		points[i] = goodput.LossPoint{Step: k, Loss: l.At(k)}
	}
	return points, stop
}
