// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// roundOf returns a round on 4 nodes of 4 GPUs in 2 racks, an hour after the jobs
// were submitted.
func roundOf(t *testing.T, c Config, run map[sched.JobID]sched.Placement, specs ...sched.Spec) *round {
	t.Helper()
	nodes := []sched.Node{
		{Name: "a", GPUs: 4, Rack: "r0"}, {Name: "b", GPUs: 4, Rack: "r0"},
		{Name: "c", GPUs: 4, Rack: "r1"}, {Name: "d", GPUs: 4, Rack: "r1"},
	}
	cluster, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(cluster)
	apply := func(e sched.Event) {
		t.Helper()
		e.At = start
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range specs {
		spec.Submitted = start
		apply(sched.Event{Kind: sched.JobSubmitted, Spec: &spec})
		if p := run[spec.ID]; p != nil {
			apply(sched.Event{Kind: sched.JobStarted, Job: spec.ID, Placement: p})
		}
	}
	s := st.Snapshot(start.Add(time.Hour))
	return newRound(c, s, place.NewFree(cluster), &memory{})
}

func spec(id sched.JobID, app sched.AppID, gpus int, estimate time.Duration) sched.Spec {
	return sched.Spec{ID: id, App: app, GPUs: gpus, Estimate: sched.Duration(estimate), Work: 1000}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want)) }

// TestIdeal: two apps share 16 GPUs. The first has 4 jobs of 4 GPUs and 2 hours,
// which take 4 hours on its half; by the paper's formula too, for it can use all
// GPUs. The second has one job of 4 GPUs and an hour, which its half does not slow
// down; by the paper's formula it may take twice as long.
func TestIdeal(t *testing.T) {
	specs := []sched.Spec{
		spec("a1", "a", 4, 2*time.Hour), spec("a2", "a", 4, 2*time.Hour),
		spec("a3", "a", 4, 2*time.Hour), spec("a4", "a", 4, 2*time.Hour),
		spec("b", "b", 4, time.Hour),
	}
	for _, c := range []struct {
		ideal string
		want  [2]float64 // hours
	}{{Share, [2]float64{4, 1}}, {Paper, [2]float64{4, 2}}} {
		config := Default()
		config.Ideal = c.ideal
		r := roundOf(t, config, nil, specs...)
		for i, a := range r.apps {
			if got := a.ideal / 3600; !near(got, c.want[i]) {
				t.Errorf("%s: app %s takes %g hours alone; want %g", c.ideal, a.ID, got, c.want[i])
			}
		}
	}
}

// TestRho holds rho against the definition, worked out by hand: an app with two
// jobs of 2 GPUs and 2 hours, alone on 16 GPUs, which would take it 2 hours. One
// hour has passed in vain.
func TestRho(t *testing.T) {
	config := Default()
	config.Slowdown = 2
	loose := []sched.Spec{spec("a1", "a", 2, 2*time.Hour), spec("a2", "a", 2, 2*time.Hour)}
	tight := []sched.Spec{loose[0], loose[1]}
	tight[0].Consolidate, tight[1].Consolidate = true, true
	for _, c := range []struct {
		name   string
		specs  []sched.Spec
		shares []auction.Share
		want   float64
	}{
		{"one node", loose, []auction.Share{{Machine: 0, GPUs: 4}}, (1 + 2) / 2.0},
		{"one gang after the other", loose, []auction.Share{{Machine: 0, GPUs: 2}}, (1 + 4) / 2.0},
		{"a third GPU is of no use", loose, []auction.Share{{Machine: 0, GPUs: 3}}, (1 + 4) / 2.0},
		{"spread in a rack", tight, []auction.Share{{Machine: 0, GPUs: 1}, {Machine: 1, GPUs: 1}}, (1 + 4*1.289) / 2},
		{"spread over racks", tight, []auction.Share{{Machine: 0, GPUs: 1}, {Machine: 2, GPUs: 1}}, (1 + 4*1.37) / 2},
		{"one gang near, one spread", tight, []auction.Share{{Machine: 0, GPUs: 3}, {Machine: 1, GPUs: 1}}, (1 + 8/(2+2/1.289)) / 2},
		{"nothing counts for half a gang", loose, nil, (1 + 8) / 2.0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := roundOf(t, config, nil, c.specs...)
			a := r.apps[0]
			if got := r.rho(a, r.power(a, c.shares), 0); !near(got, c.want) {
				t.Errorf("rho = %g; want %g", got, c.want)
			}
		})
	}
}

// TestSpan: an app ends with its last job, and jobs that share a place follow
// each other.
func TestSpan(t *testing.T) {
	r := roundOf(t, Default(), nil,
		spec("a1", "a", 1, 3*time.Hour), spec("a2", "a", 1, 2*time.Hour), spec("a3", "a", 1, 2*time.Hour))
	a := r.apps[0]
	for gpus, want := range map[int]float64{1: 7, 2: 4, 3: 3} {
		if got := a.span(a.powerOf(float64(gpus))) / 3600; !near(got, want) {
			t.Errorf("%d GPUs: %g hours; want %g", gpus, got, want)
		}
	}
	if got := a.need(); got != 3 {
		t.Errorf("needs %d GPUs; want 3: an hour has passed, and its longest job needs three more", got)
	}
}

// TestStages is the example of section 5.2 of the paper: four trials of 120, 100, 100
// and 80 seconds an iteration; four run 8 iterations, then two 16, then one 36. On its
// share, 4 of 16 GPUs, it would take a quarter of its budget of 10,000 GPU-seconds.
func TestStages(t *testing.T) {
	specs := []sched.Spec{spec("other1", "x", 1, time.Hour), spec("other2", "y", 1, time.Hour), spec("other3", "z", 1, time.Hour)}
	const whole = 60 // iterations of a trial to its end
	for i, seconds := range []int{120, 100, 100, 80} {
		specs = append(specs, spec(sched.JobID(fmt.Sprint("a", i)), "a", 1, time.Duration(whole*seconds)*time.Second))
	}
	stages := []sched.Stage{{Jobs: 4, Part: 8. / whole}, {Jobs: 2, Part: 16. / whole}, {Jobs: 1, Part: 36. / whole}}
	a := staged(t, stages, specs...)
	for gangs, want := range map[int]float64{1: 3200 + 3200 + 3600, 2: 1600 + 1600 + 3600, 4: 960 + 1600 + 3600} {
		if got := a.span(power{float64(gangs), gangs}); !near(got, want) {
			t.Errorf("%d GPUs: %g seconds; want %g", gangs, got, want)
		}
	}
	if !near(a.left, 10_000) || !near(a.ideal, 2500) {
		t.Errorf("%g GPU-seconds left, %g seconds alone; want 10,000 and 2,500", a.left, a.ideal)
	}
	// Independent trials would all run to their ends.
	if b := staged(t, nil, specs...); !near(b.left, whole*400) {
		t.Errorf("without stages %g GPU-seconds are left; want %d", b.left, whole*400)
	}
}

// staged returns app a, a search with so much left.
func staged(t *testing.T, stages []sched.Stage, specs ...sched.Spec) *app {
	t.Helper()
	r := roundOf(t, Default(), nil, specs...)
	a := &app{App: r.apps[0].App, jobs: r.apps[0].jobs}
	a.Stages = stages
	r.know(a)
	return a
}

// TestLearn: a job that reports two thirds of the rate that it promised, on two
// nodes of a rack, teaches its app a slowdown of 1.5 there, and more over racks
// in proportion to its class.
func TestLearn(t *testing.T) {
	run := map[sched.JobID]sched.Placement{"a": {{Node: 0, Milli: 1000, GPUs: 1}, {Node: 1, Milli: 1000, GPUs: 1}}}
	job := spec("a", "a", 2, 1000*time.Second)
	job.Consolidate = true
	r := roundOf(t, Default(), run, job)
	before := r.apps[0].groups[0].slow
	if before != &sensitive {
		t.Errorf("nothing observed: slowdowns %v; want those of its class", *before)
	}
	r.jobs[0].Job.Rate = 2.0 / 3
	learned := r.learn(r.apps[0])[""]
	if learned == nil {
		t.Fatal("nothing was learned")
	}
	scale := 0.5 / 0.289
	for level, want := range map[sched.Level]float64{
		sched.SameSlot: 1, sched.SameMachine: 1 + 0.14*scale, sched.SameRack: 1.5, sched.CrossRack: 1 + 0.37*scale,
	} {
		if got := learned[level]; !near(got, want) {
			t.Errorf("slowdown at level %s = %g; want %g", level, got, want)
		}
	}
}

// TestWorkIsRemembered: the work of jobs that have ended is in the notes of those
// that are left.
func TestWorkIsRemembered(t *testing.T) {
	r := roundOf(t, Default(), nil, spec("a1", "a", 2, time.Hour), spec("a2", "a", 2, 3*time.Hour))
	plan := r.finish()
	for i, note := range plan.Notes {
		if note.Level != 4 || note.Count != 8*3600 {
			t.Errorf("job %d: note %+v; want 4 GPUs and 8 GPU-hours", i, note)
		}
	}
	late := spec("a2", "a", 2, 3*time.Hour)
	r = roundOf(t, Default(), nil, late)
	r.jobs[0].Job.Note = plan.Notes[1]
	a := &app{App: r.apps[0].App, jobs: r.apps[0].jobs}
	r.know(a)
	if a.total != 8*3600 || a.mostEver != 4 {
		t.Errorf("after one has ended: %g GPU-seconds in all and %d GPUs; want 28800 and 4", a.total, a.mostEver)
	}
}
