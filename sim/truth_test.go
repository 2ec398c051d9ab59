// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"math"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// A model of the zoo trains for the integral of its iterations over its speed,
// whose efficiency changes as the gradient noise scale grows.
func TestFittedModelFollowsTheFormulas(t *testing.T) {
	c := config(t, "1x4", "fifo")
	work := sim.Work{Spec: sched.Spec{ID: "a", GPUs: 4, Model: "cifar10", Submitted: start}, BatchSize: 512}
	res := run(t, c, work)
	m, _ := c.Zoo.Model("cifar10")
	p, _ := m.Params("t4")
	step := p.Iter(goodput.Shape{Nodes: 1, GPUs: 4}, 128, 0)
	want := 0.0
	const parts = 100_000
	for i := range parts {
		gain := goodput.Gain(m.NoiseAt((float64(i)+0.5)/parts), m.Batch.Initial, 512)
		want += m.Iterations / parts * step / gain
	}
	if got := res.Jobs[0].Ran; math.Abs(got/want-1) > 1e-3 {
		t.Errorf("cifar10 trains for %.1f s, the formulas give %.1f s", got, want)
	}
}

// profiles is a table of one model, small enough to check by hand: 2 epochs of
// 100 iterations at batch size 8; a step takes 0.5 s on one GPU.
func profiles(t *testing.T) *profile.Tables {
	t.Helper()
	tables, err := profile.Read(fstest.MapFS{
		"tiny/placements.csv": {Data: []byte(`placement,local_bsz,step_time,sync_time
1,4,0.3,0.001
1,8,0.5,0.001
2,4,0.4,0.1
2,8,0.64,0.1
11,4,0.5,0.2
11,8,0.7,0.2
`)},
		"tiny/validation-8.csv": {Data: []byte(`progress,iteration,metric,grad_sqr,grad_var
100,100,0.5,1,1
200,200,0.6,1,3
`)},
		"tiny/validation-16.csv": {Data: []byte(`progress,iteration,metric,grad_sqr,grad_var
100,70,0.5,1,1
200,140,0.6,1,3
`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestMeasuredModelFollowsTheTables(t *testing.T) {
	c := config(t, "2x2", "fifo")
	c.Interval = time.Minute
	c.Profiles, c.Optimistic = profiles(t), true
	one := sim.Work{Spec: sched.Spec{ID: "one", GPUs: 1, Model: "tiny", Submitted: start}, BatchSize: 8}
	two := sim.Work{Spec: sched.Spec{ID: "two", GPUs: 2, Model: "tiny", Submitted: start}, BatchSize: 16}
	res := run(t, c, one, two)
	// Every start costs 30 s, as in the reference, the first round is at 60 s: 200
	// steps of 0.5 s.
	within(t, "one", res.Jobs[0].End, 60+30+100)
	// Twice the batch: a gain of (1+1)/(1/2+1) in the first epoch and of
	// (3+1)/(3/2+1) in the second, steps of 0.64 s, each epoch in whole seconds.
	first := math.RoundToEven(100 / (2.0 / 1.5) * 0.64)
	second := math.RoundToEven(100 / (4.0 / 2.5) * 0.64)
	within(t, "two", res.Jobs[1].End, 60+30+first+second)
}

func TestMeasuredModelErrors(t *testing.T) {
	c := config(t, "2x2", "fifo")
	c.Profiles = profiles(t)
	for i, w := range []sim.Work{
		{Spec: sched.Spec{GPUs: 1, Model: "other"}, BatchSize: 8},
		{Spec: sched.Spec{GPUs: 1, Model: "tiny"}, BatchSize: 4},
		{Spec: sched.Spec{GPUs: 1, Model: "tiny"}, BatchSize: 32},
	} {
		w.ID, w.Submitted = sched.JobID(fmt.Sprint("job", i)), start
		if _, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start, Work: []sim.Work{w}}); err == nil {
			t.Errorf("job %d runs, want an error", i)
		} else {
			t.Log(err)
		}
	}
}
