// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestLossLog: a long training leaves a few dozen points from its first loss to nearly
// its last; what was handed out does not change; lost work is forgotten.
func TestLossLog(t *testing.T) {
	var l goodput.LossLog
	loss := func(step float64) float64 { return 1 / (1 + step/1000) }
	for step := range 10_000 {
		before := slices.Clone(l.Points)
		held := l.Points
		l.Add(float64(step), loss(float64(step)))
		l.Add(float64(step), 99) // the same step again
		if !slices.Equal(before, held) {
			t.Fatalf("after step %d, points that were handed out are %v; want %v", step, held, before)
		}
		if len(l.Points) > 32 {
			t.Fatalf("%d points; want at most 32", len(l.Points))
		}
	}
	first, last := l.Points[0], l.Points[len(l.Points)-1]
	if first != (goodput.LossPoint{Loss: 1}) || last.Step < 9000 || len(l.Points) < 16 {
		t.Errorf("%d points from %v to %v; want 16 or more from the first step to the last tenth", len(l.Points), first, last)
	}
	for i, p := range l.Points {
		if i > 0 && (p.Step <= l.Points[i-1].Step || math.Abs(p.Loss/loss(p.Step)-1) > 0.1) {
			t.Errorf("point %d is %v; want a later step, and about %.3f", i, p, loss(p.Step))
		}
	}
	l.Add(5000, 0.5)
	if last := l.Points[len(l.Points)-1]; last.Step >= 5000 {
		t.Errorf("after a restart from step 5000 the last point is %v; want one before", last)
	}
	for range 1000 {
		l.Add(l.Last+1, 0.4)
	}
	if last := l.Points[len(l.Points)-1]; last.Step < 5000 || last.Loss > 0.5 {
		t.Errorf("1000 steps later the last point is %v; want one since then", last)
	}
	l.Add(0, 2)
	if !slices.Equal(l.Points, []goodput.LossPoint{{Loss: 2}}) {
		t.Errorf("after a new start the points are %v; want the new loss alone", l.Points)
	}
}

// TestLossLogCanBeWritten: no number makes a log that JSON cannot hold.
func TestLossLogCanBeWritten(t *testing.T) {
	var l goodput.LossLog
	for i, x := range []float64{1, math.NaN(), math.Inf(1), -math.MaxFloat64, math.MaxFloat64, 1e99, -1e99, 3} {
		l.Add(float64(i), x)
		l.Add(x, 1)
	}
	if _, err := json.Marshal(l); err != nil || len(l.Points) == 0 {
		t.Errorf("%v, %d points; want some that can be written", err, len(l.Points))
	}
}

// TestStepTimes: those measured most are kept, in a fixed order; what was measured at
// another local batch size counts for what it says of the job's batch.
func TestStepTimes(t *testing.T) {
	limits := goodput.Limits{Initial: 64, Max: 64, LocalMin: 1, LocalMax: 16}
	profiles := map[string]*goodput.Profile{}
	add := func(gpuType string, s goodput.Sample) {
		if profiles[gpuType] == nil {
			profiles[gpuType] = &goodput.Profile{}
		}
		if err := profiles[gpuType].Add(s); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, gpuType := range []string{"t4", "a100"} {
		for n := 1; n <= 40; n++ {
			add(gpuType, goodput.Sample{Nodes: 1, GPUs: n, Local: 16, Step: 1 + random.Float64(), Sync: 0.5, Count: float64(n)})
		}
	}
	got := goodput.StepTimes(profiles, 64, limits)
	for i, s := range got {
		gpuType, gpus := "a100", 25+i
		if i >= 16 {
			gpuType, gpus = "t4", 25+i-16
		}
		if s.Type != gpuType || s.GPUs != gpus || s.Batch != 64 {
			t.Errorf("step time %d is %+v; want one of batch 64 on %d of %s", i, s, gpus, gpuType)
		}
	}
	if len(got) != 32 {
		t.Errorf("%d step times; want 32", len(got))
	}

	clear(profiles)
	add("t4", goodput.Sample{Nodes: 1, GPUs: 2, Local: 16, Step: 1, Sync: 0.25})
	add("t4", goodput.Sample{Nodes: 2, GPUs: 2, Local: 16, Step: 2, Sync: 0.5, Count: 3})
	add("t4", goodput.Sample{Nodes: 2, GPUs: 2, Local: 8, Step: 1, Sync: 0.5})
	add("t4", goodput.Sample{Nodes: 2, GPUs: 128, Local: 1, Step: 1, Sync: 0.5}) // too many for the batch
	want := []goodput.StepTime{
		{Type: "t4", Nodes: 1, GPUs: 2, Batch: 64, Time: 1.75},                // 32 examples on each GPU are two gradients of 16
		{Type: "t4", Nodes: 2, GPUs: 2, Batch: 64, Time: (3*3.5 + 1*2.5) / 4}, // or four of 8
	}
	if got := goodput.StepTimes(profiles, 64, limits); !slices.Equal(got, want) {
		t.Errorf("step times are %v; want %v", got, want)
	}
}

// TestChanges: a report that leaves out what has not changed says the same as a whole
// one.
func TestChanges(t *testing.T) {
	old := &goodput.Report{
		Losses: []goodput.LossPoint{{Loss: 1}}, Stop: goodput.Stop{Steps: 9},
		StepTimes: []goodput.StepTime{{GPUs: 1, Time: 1}},
	}
	same, slower, further := *old, *old, *old
	same.StepTimes = []goodput.StepTime{{GPUs: 1, Time: 1.01}}
	slower.StepTimes = []goodput.StepTime{{GPUs: 1, Time: 1.1}}
	further.Losses = []goodput.LossPoint{{Loss: 1}, {Step: 1, Loss: 0.5}}
	for name, c := range map[string]struct {
		next          *goodput.Report
		losses, times int // in the changes
	}{"the same": {&same, 0, 0}, "slower": {&slower, 0, 1}, "a new loss": {&further, 2, 0}} {
		changes := c.next.Changes(old)
		if len(changes.Losses) != c.losses || len(changes.StepTimes) != c.times || changes.Stop != (goodput.Stop{}) {
			t.Errorf("%s: changes are %+v", name, changes)
		}
		got := changes.After(old)
		if !slices.Equal(got.Losses, c.next.Losses) || len(got.StepTimes) != 1 || got.Stop != old.Stop {
			t.Errorf("%s: after the one before it is %+v; want %+v", name, got, c.next)
		}
	}
	if got := old.After(nil); got != old {
		t.Error("the first report was copied")
	}
	if got := further.After(old); got != &further {
		t.Error("a report that leaves nothing out was copied")
	}
}
