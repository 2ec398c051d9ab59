// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

func TestFitness(t *testing.T) {
	for _, c := range []struct{ p, want float64 }{
		{1, 0.4},                  // mean of 0.2 and 0.6
		{-1, 0.3},                 // 2 / (1/0.2 + 1/0.6)
		{0, math.Sqrt(0.2 * 0.6)}, // geometric
		{-10, math.Pow((1+math.Pow(3, -10))/2, -0.1) / 5}, // 0.2 counts, 0.6 hardly
	} {
		f := &Speedups{P: c.p}
		got := f.mean(f.cost(0.2-least)+f.cost(0.6-least), 2)
		if math.Abs(got-c.want) > 1e-12 {
			t.Errorf("p = %g: the fitness of 0.2 and 0.6 is %g; want %g", c.p, got, c.want)
		}
		if f.cost(0.5) >= f.cost(0.4) {
			t.Errorf("p = %g: 0.5 costs %g and 0.4 costs %g; want less for more", c.p, f.cost(0.5), f.cost(0.4))
		}
	}
	if got := (&Speedups{P: -1}).mean(0, 0); got != 0 {
		t.Errorf("the fitness of no jobs is %g; want 0", got)
	}
}

// TestRestartFactor holds the loss of a restart against the formula of the
// paper, also for a job that has nothing yet.
func TestRestartFactor(t *testing.T) {
	for _, c := range []struct {
		age    time.Duration
		starts int
		want   float64
	}{
		{0, 0, 0},
		{60 * time.Second, 0, 60.0 / 90},
		{600 * time.Second, 1, 600.0 / 630},
		{600 * time.Second, 4, (600.0 - 3*30) / 630},
		{60 * time.Second, 5, 0}, // four restarts take longer than it is old
		{-time.Minute, 0, 0},
	} {
		s := cluster(t, 1, 4)
		j := s.add(spec{age: c.age})
		j.Starts = c.starts
		if got := factorOf(s.problem(usual())); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("age %s, %d starts: factor %g; want %g", c.age, c.starts, got, c.want)
		}
	}
	s := cluster(t, 1, 4)
	s.add(spec{})
	c := usual()
	c.Restart = 0
	if got := factorOf(s.problem(c)); got != 1 {
		t.Errorf("restart = 0: factor %g; want 1", got)
	}
}

// TestSpeedup follows equation 15 by hand.
func TestSpeedup(t *testing.T) {
	s := cluster(t, 4, 4)
	for range 3 {
		s.add(spec{model: "cifar10", age: time.Hour, most: 16})
	}
	s.add(spec{age: time.Hour})
	p := s.problem(usual())
	if fairShare(s.Snapshot) != 4 { // 16 GPUs, 4 jobs
		t.Fatalf("a fair share is %d GPUs; want 4", fairShare(s.Snapshot))
	}
	goodput := func(nodes, gpus int) float64 { return goodputOf(t, s.Jobs[0], nodes, gpus) }
	for _, c := range []struct {
		job  int
		row  row
		want float64 // speedup
	}{
		{0, row{{0, 4}}, 1},
		{0, row{{0, 2}}, goodput(1, 2) / goodput(1, 4)},
		{0, row{{0, 2}, {1, 2}}, goodput(2, 4) / goodput(1, 4)},
		{0, row{{0, 4}, {1, 4}, {2, 1}}, goodput(2, 9) / goodput(1, 4)}, // only whether there are several nodes counts
		{0, nil, 0},
		{3, row{{0, 1}}, 0.25},              // no report: linear
		{3, row{{0, 4}, {1, 4}}, 2 * 0.999}, // nearly
	} {
		const nodesPerGPU = 0.25
		if got := valueOf(p, &p.jobs[c.job], c.row) / nodesPerGPU; math.Abs(got-c.want) > 1e-12 {
			t.Errorf("job %d on %v: speedup %g; want %g", c.job, c.row, got, c.want)
		}
	}
}

// TestBounds: which sizes jobs may have.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name         string
		spec         spec
		fewest, most int
	}{
		{"new", spec{}, 1, 1},
		{"has had 3", spec{had: 3}, 1, 6},
		{"report says 7", spec{model: "bert", most: 7, had: 2}, 1, 7},
		{"no more than the user allows", spec{model: "bert", most: 64, max: 5}, 1, 5},
		{"at least the user's minimum", spec{min: 3, max: 8}, 3, 3},
		{"sizes", spec{min: 2, max: 9, sizes: []int{4, 8}, had: 3}, 4, 6},
		{"rigid", spec{rigid: 6, had: 1}, 6, 6},
		{"no more than there are", spec{model: "bert", most: 64}, 1, 32},
	} {
		s := cluster(t, 4, 8)
		s.add(c.spec)
		j := &s.problem(usual()).jobs[0]
		if j.fewest != c.fewest || j.most != c.most {
			t.Errorf("%s: %d to %d GPUs; want %d to %d", c.name, j.fewest, j.most, c.fewest, c.most)
		}
	}
}

// TestFairShareOfTypes: on two types, a fair share is a mix.
func TestFairShareOfTypes(t *testing.T) {
	s := nodes(t, sched.Node{GPUs: 4, Type: "t4"}, sched.Node{GPUs: 4, Type: "t4"}, sched.Node{GPUs: 4, Type: "h200"})
	j := s.add(spec{model: "bert", most: 8, age: time.Hour})
	fast := j.Perf.Params["t4"]
	fast.AlphaGrad /= 4
	fast.BetaGrad /= 4
	j.Perf.Params["h200"] = fast
	p := s.problem(usual())
	o := p.objective.(*Speedups)
	slow, quick := p.jobs[0].Kinds[0], p.jobs[0].Kinds[1]
	if want := (2*slow.Curve.fair(12) + quick.Curve.fair(12)) / 3; o.fair[0] != want {
		t.Errorf("the fair share is worth %g; want %g", o.fair[0], want)
	}
	if a, b := o.value(&p.jobs[0], &slow, Local, 4), o.value(&p.jobs[0], &quick, Local, 4); a >= b {
		t.Errorf("4 slow GPUs are worth %g and 4 fast ones %g", a, b)
	}
	// Nothing is known of how another job does on the second type.
	other := s.add(spec{model: "bert", most: 8, age: time.Hour})
	delete(other.Perf.Params, "h200")
	p = s.problem(usual())
	o = p.objective.(*Speedups)
	if got, want := o.value(&p.jobs[1], &p.jobs[1].Kinds[1], Local, 3), o.scale*3/6; got != want {
		t.Errorf("3 GPUs of an unknown type are worth %g; want %g", got, want)
	}
}

// TestCurvesAreKept: goodput is computed once for each report, and forgotten
// when the report is.
func TestCurvesAreKept(t *testing.T) {
	s := cluster(t, 4, 4)
	s.add(spec{model: "yolov3", most: 16, age: time.Hour})
	p := policyOf(usual())
	p.Schedule(s.Snapshot)
	first := p.curves.of(s.Jobs[0].Perf, "t4")
	p.Schedule(s.Snapshot)
	if again := p.curves.of(s.Jobs[0].Perf, "t4"); again != first {
		t.Error("the curve of an unchanged report was computed anew")
	}
	s.Jobs[0].Perf = s.report("yolov3", 16)
	p.Schedule(s.Snapshot)
	p.Schedule(s.Snapshot)
	if len(p.curves.known) != 1 || p.curves.of(s.Jobs[0].Perf, "t4") == first {
		t.Errorf("%d curves are kept after a new report; want the new one only", len(p.curves.known))
	}
}

// factorOf returns what a restart leaves of the value to the first job.
func factorOf(p *problem) float64 { return p.objective.(*Speedups).factor[p.jobs[0].Index] }

// valueOf returns what a row is worth to a job, before the cost of a restart.
func valueOf(p *problem, j *Job, r row) float64 {
	if len(r) == 0 {
		return 0
	}
	return p.objective.(*Speedups).value(j, j.kind(p.s.Cluster.TypeOf(int(r[0].node))), p.spanOf(r), r.gpus())
}
