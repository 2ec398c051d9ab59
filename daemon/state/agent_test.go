// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

func TestReportSecrets(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.submit(bob, submission("y", 1))
	d.decide(wants{"x-1": on(0), "y-2": on(1)})
	x, y := d.secret("x-1", 1), d.secret("y-2", 1)
	cut := func(s string) (name, mac string) { i := strings.LastIndexByte(s, '.'); return s[:i], s[i:] }
	nameX, _ := cut(x)
	_, macY := cut(y)
	other := secretOf([]byte("another key"), api.AttemptID{Job: "x-1", Number: 1}, d.mem.epoch())
	for name, secret := range map[string]string{
		"empty": "", "the name alone": nameX + ".", "the seal of another": nameX + macY, "another key": other,
		"a token of a user": "fw_" + x, "long": x + strings.Repeat("A", 1000), "more parts": x + ".x",
		"other number": strings.Replace(x, "x-1.1.", "x-1.2.", 1), "number with a sign": strings.Replace(x, "x-1.1.", "x-1.+1.", 1),
	} {
		_, err := d.Report(t.Context(), secret, api.AgentReport{})
		wantCode(t, name, err, api.Denied)
	}
	if _, err := d.Report(t.Context(), x, api.AgentReport{Done: 3}); err != nil {
		t.Errorf("the right secret: %v", err)
	}
	if got := d.job("y-2").Status.Done; got != 0 {
		t.Errorf("a report of x-1 changed y-2: done %g", got)
	}
	_, err := d.Report(t.Context(), d.secret("x-1", 2), api.AgentReport{})
	wantCode(t, "an attempt to come", err, api.Denied)
	d.exited(exitOf("x-1", 1))
	_, err = d.Report(t.Context(), x, api.AgentReport{})
	wantCode(t, "an attempt that is over", err, api.Conflict)
}

func TestReport(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 2))
	d.decide(wants{"x-1": on(0, 1)})
	if a := d.report("x-1", 1, api.AgentReport{Done: 1, Rate: 2, Work: 100}); a.Stop || a.Params != nil {
		t.Errorf("first answer %+v; want neither stop nor params", a)
	}
	d.clock.add(5 * time.Second)
	if j := d.job("x-1"); j.Status.Done != 1 || j.Left != 44.5 {
		t.Errorf("%g done, %g s left, 5 s after 1 of 100 was done at 2/s; want 1 and 44.5", j.Status.Done, j.Left)
	}
	loss := 0.5
	sample := goodput.Sample{Nodes: 1, GPUs: 2, Local: 8, Step: 0.2, Sync: 0.05}
	a := d.report("x-1", 1, api.AgentReport{Done: 12, Rate: 2, Work: 100, Training: training(sample), Point: &api.Point{Loss: &loss, Batch: 16}})
	if a.Params == nil || a.Noise != 10 {
		t.Errorf("answer %+v after samples; want params and the noise 10", a)
	}
	want := []api.Point{{At: d.clock.Now().Add(-5 * time.Second), Done: 1, Work: 100, GPUs: 2, Rate: 2}, {At: d.clock.Now(), Done: 12, Work: 100, GPUs: 2, Batch: 16, Rate: 2, Loss: &loss}}
	points, err := d.Points(ann, "x-1")
	if diff := cmp.Diff(want, points); diff != "" || err != nil {
		t.Errorf("points (-want +got):\n%s%v", diff, err)
	}
	j := d.job("x-1")
	if j.Left != 44 || j.Work != 100 || !j.Agent || j.Last == nil || j.Rho <= 0 {
		t.Errorf("job %+v; want 44 s left of work 100, an agent, a last point and rho", j)
	}
	select {
	case <-d.Changed():
	default:
		t.Error("Changed yields nothing after new measurements")
	}
	d.wantDurable()

	// An old attempt may only say how far it came, and that it saved.
	d.decide(wants{})
	a = d.report("x-1", 1, api.AgentReport{Done: 13, Rate: 9, Checkpoint: true, Training: training(sample), Point: &api.Point{}})
	if !a.Stop {
		t.Error("the answer to an attempt that was stopped does not say stop")
	}
	j = d.job("x-1")
	if s := j.Status; s.Done != 13 || s.CheckpointedWork != 13 || s.Rate != 0 || s.Checkpoint.IsZero() {
		t.Errorf("status %+v; want done and kept 13, no rate", s)
	}
	if points, _ := d.Points(ann, "x-1"); len(points) != 2 {
		t.Errorf("%d points; want 2", len(points))
	}
	d.command("x-1", api.Cancel)
	if a := d.report("x-1", 1, api.AgentReport{Done: 14}); !a.Stop {
		t.Error("the answer to an attempt of a cancelled job does not say stop")
	}
	d.wantDurable()
}

// TestAsk: who only asks changes nothing, and hears the secret that the ranks of the
// attempt share.
func TestAsk(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.submit(ann, submission("y", 1))
	d.decide(wants{"x-1": on(0), "y-2": on(1)})
	d.report("x-1", 1, api.AgentReport{Done: 7, Work: 100, Checkpoint: true})
	ask := api.AgentReport{Ask: true, Checkpoint: true, Complete: true, Point: &api.Point{}}
	a, again, other := d.report("x-1", 1, ask), d.report("x-1", 1, ask), d.report("y-2", 1, ask)
	if a.Gang == "" || a.Gang != again.Gang || a.Gang == other.Gang {
		t.Errorf("secrets %q, %q and of another job %q; want two alike and one other", a.Gang, again.Gang, other.Gang)
	}
	if own := d.secret("x-1", 1); strings.Contains(own, a.Gang) {
		t.Error("the secret of the gang is a part of that of the attempt")
	}
	if s := d.job("x-1").Status; s.Done != 7 || s.CheckpointedWork != 7 {
		t.Errorf("done %g, kept %g; want 7: it was only asked", s.Done, s.CheckpointedWork)
	}
	if points, _ := d.Points(ann, "x-1"); len(points) != 1 {
		t.Errorf("%d points; want 1", len(points))
	}
	d.wantDurable()
}

// TestSamplesCountOnce: what is measured is counted once, in memory as after a
// restart, and a refused report counts nothing.
func TestSamplesCountOnce(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.decide(wants{"x-1": on(0)})
	s := goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.1, Count: 1}
	for range 5 {
		d.report("x-1", 1, api.AgentReport{Training: training(s)})
	}
	got := d.mem.jobs["x-1"].Profiles["h200"].Samples()
	if len(got) != 1 || got[0].Count != 5 {
		t.Errorf("samples %+v; want one that counts 5", got)
	}
	d.wantDurable()
}

// TestReportFlood: a job that measures something new all the time fills neither
// the memory nor a snapshot that could not be read again.
func TestReportFlood(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.decide(wants{"x-1": on(0)})
	local := 0
	for range 3 {
		var samples []goodput.Sample
		for range 400 {
			local++
			samples = append(samples, goodput.Sample{Nodes: 1, GPUs: 1, Local: local, Step: 0.1})
		}
		d.report("x-1", 1, api.AgentReport{Training: training(samples...)})
	}
	for i := range 2*maxPoints + 10 {
		d.clock.add(time.Second)
		d.report("x-1", 1, api.AgentReport{Done: float64(i), Point: &api.Point{}})
	}
	if n := d.mem.jobs["x-1"].Profiles["h200"].Len(); n > maxSamples {
		t.Errorf("%d samples are kept; want at most %d", n, maxSamples)
	}
	points, _ := d.Points(ann, "x-1")
	if n := len(points); n > maxPoints || points[0].Done != 0 || points[n-1].Done != float64(2*maxPoints+9) {
		t.Errorf("%d points, from %g to %g; want at most %d, with the first and the last", n, points[0].Done, points[n-1].Done, maxPoints)
	}
	for i := 1; i < len(points); i++ {
		if !points[i].At.After(points[i-1].At) {
			t.Fatalf("point %d at %s is not after %s", i, points[i].At, points[i-1].At)
		}
	}
	d.wantDurable()
}

// TestHostileNumbers: whatever a job reports, its views and the snapshot of the
// journal can be written.
func TestHostileNumbers(t *testing.T) {
	big, tiny := 1e308, math.SmallestNonzeroFloat64
	nan := math.NaN()
	reports := []api.AgentReport{
		{Done: nan}, {Work: nan}, {Rate: nan}, {Rate: math.Inf(1)}, {Done: -1},
		{Point: &api.Point{Loss: &nan}}, {Point: &api.Point{LR: math.Inf(-1)}}, {Point: &api.Point{Metrics: map[string]float64{"x": nan}}},
		{Training: &api.Training{Limits: training().Limits, Noise: nan}},
	}
	accepted := []api.AgentReport{
		{Done: big, Rate: big, Work: big}, {Done: 1e15, Rate: 1e15, Work: 1e15}, {Rate: tiny, Work: 1e15, Point: &api.Point{}}, {Rate: tiny, Work: tiny, Point: &api.Point{}},
		{Rate: 1e15, Work: tiny, Point: &api.Point{}}, {Point: &api.Point{Work: big, Goodput: big}}, {Done: 1, Rate: tiny, Point: &api.Point{Work: big}},
	}
	for i, r := range append(reports, accepted...) {
		d := open(t)
		d.submit(ann, submission("x", 1))
		d.decide(wants{"x-1": on(0)})
		_, err := d.Report(t.Context(), d.secret("x-1", 1), r)
		if i < len(reports) {
			wantCode(t, fmt.Sprintf("report %d", i), err, api.Invalid)
		}
		for range 3 {
			d.clock.add(1000 * time.Hour)
			d.takeSample()
			page, _ := d.List(admin, api.JobFilter{})
			explain, _ := d.Explain(admin, "x-1")
			tenants, _ := d.Tenants(admin)
			apps, _ := d.Apps(admin)
			history, _ := d.History(admin)
			if _, err := json.Marshal([]any{page, explain, tenants, apps, history}); err != nil {
				t.Errorf("report %d %+v: the views cannot be written: %v", i, r, err)
			}
			if err := d.Compact(t.Context()); err != nil {
				t.Errorf("report %d %+v: the journal cannot be compacted: %v", i, r, err)
			}
			d.decide(wants{})
			d.decide(wants{"x-1": on(0)})
		}
		d.Close()
	}
}

// TestViewIsACopy: what was shown does not change under who reads it.
func TestViewIsACopy(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.decide(wants{"x-1": on(0)})
	for i := range maxPoints {
		d.report("x-1", 1, api.AgentReport{Done: float64(i), Point: &api.Point{}})
	}
	last := d.job("x-1").Last
	want := *last
	for i := range 400 {
		d.report("x-1", 1, api.AgentReport{Done: float64(1000 + i), Point: &api.Point{}})
	}
	if diff := cmp.Diff(want, *last); diff != "" {
		t.Errorf("the last point of a job seen before has changed:\n%s", diff)
	}
}

func sampleOf(i int) goodput.Sample {
	return goodput.Sample{Nodes: 1, GPUs: 1, Local: 1 + i, Step: 0.1}
}

// TestReportOfRole: step times of a job with roles are those of one role's GPUs, and no
// model of the whole is fitted to them; its progress counts.
func TestReportOfRole(t *testing.T) {
	d := open(t)
	s := submission("x", 0)
	s.Roles = []api.JobRole{{Name: "trainer", GPUs: 1}, {Name: "rollout", GPUs: 1}}
	d.submit(ann, s)
	d.decide(wants{"x-1": on(0, 1)})
	sample := goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.2, Sync: 0.05}
	if a := d.report("x-1", 1, api.AgentReport{Done: 12, Rate: 2, Work: 100, Training: training(sample), Point: &api.Point{}}); a.Params != nil {
		t.Errorf("answer %+v; want no params", a)
	}
	if j := d.job("x-1"); j.Status.Done != 12 || j.Status.Perf != nil && len(j.Status.Perf.Params) > 0 {
		t.Errorf("%g done, %+v; want 12, and no params", j.Status.Done, j.Status.Perf)
	}
}
