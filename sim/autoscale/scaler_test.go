// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"math"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"pgregory.net/rapid"
)

// A job that takes all nodes it is given settles: from any number of nodes and
// at any point of its training, the scaler stops changing its mind. Where it
// stops, the goodput of each GPU is at most U, or any more nodes would lower it
// below L; and it is not far below L.
func TestOneJobSettles(t *testing.T) {
	for _, band := range [][2]float64{{2.0 / 3, 0.5}, {0.55, 0.4}, {0.5, 0.45}} {
		for _, noise := range []float64{100, 500, 2710, 5000, 14400, 1e6} {
			for from := 1; from <= 16; from++ {
				checkSettles(t, Config{Rule: Goodput, Min: 1, Max: 16, U: band[0], L: band[1]}, noise, from)
			}
		}
	}
}

func checkSettles(t *testing.T, c Config, noise float64, from int) {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	perf := imagenet
	perf.Noise = noise
	nodes := from
	for range 10 {
		nodes = s.Desired(filled(t, nodes, perf, 16), nodes)
	}
	snap := filled(t, nodes, perf, 16)
	if again := s.Desired(snap, nodes); again != nodes {
		t.Errorf("U %.2f, L %.2f, noise %g from %d nodes: wants %d, then %d", c.U, c.L, noise, from, nodes, again)
	}
	share := heldIn(snap, Goodput).perGPU()
	more := false
	for n := nodes + 1; n <= min(16, 2*nodes); n++ {
		more = more || heldIn(filled(t, n, perf, 16), Goodput).perGPU() >= c.L
	}
	if (share > c.U && more) || (share < c.L*c.L/c.U && nodes > 1) {
		t.Errorf("U %.2f, L %.2f, noise %g from %d nodes: settles at %d with %.3f of the goodput of a single GPU", c.U, c.L, noise, from, nodes, share)
	}
}

// The cluster grows to the number of nodes that is nearest to L, from either
// side, but not to where nodes would be given back.
func TestGrowsToAboutL(t *testing.T) {
	c := Config{Rule: Goodput, Min: 1, Max: 4, U: 0.7, L: 0.5} // given back below 0.357
	for _, tc := range []struct {
		utility []float64 // by nodes, from 1 on
		want    int
	}{
		{[]float64{0.9, 0.7, 0.55, 0.48}, 4},
		{[]float64{0.9, 0.7, 0.52, 0.46}, 3},
		{[]float64{0.9, 0.7, 0.6, 0.5}, 4},
		{[]float64{0.9, 0.47, 0.35, 0.3}, 2},
		{[]float64{0.71, 0.356, 0.3, 0.2}, 1},
	} {
		f := &forecast{perNode: 1}
		for i, u := range tc.utility {
			f.single = append(f.single, size{i + 1, u * float64(i+1)})
		}
		if got := f.around(c, bounds{low: 1, high: 4}); got != tc.want {
			t.Errorf("utilities %v: %d nodes, want %d", tc.utility, got, tc.want)
		}
	}
}

// As noise grows during training, so does the cluster; by throughput it is
// large from the start.
func TestGoodputFollowsTheNoise(t *testing.T) {
	sizes := func(rule Rule) []int {
		var out []int
		nodes := 1
		for _, noise := range []float64{1000, 2710, 5050, 7390, 11400, 14400} {
			s, err := New(Config{Rule: rule, Min: 1, Max: 16, U: 2.0 / 3, L: 0.5})
			if err != nil {
				t.Fatal(err)
			}
			perf := imagenet
			perf.Noise, perf.MostGPUs = noise, 64
			for range 3 {
				nodes = s.Desired(filled(t, nodes, perf, 16), nodes)
			}
			out = append(out, nodes)
		}
		return out
	}
	byGoodput, byThroughput := sizes(Goodput), sizes(Throughput)
	for i, n := range byGoodput {
		if i > 0 && n < byGoodput[i-1] {
			t.Errorf("by goodput the cluster has %v nodes as the noise grows; want it to grow", byGoodput)
		}
	}
	if first, last := byGoodput[0], byGoodput[len(byGoodput)-1]; first > 3 || last < 8 {
		t.Errorf("by goodput: %d nodes at first and %d in the end; want at most 3 and at least 8", first, last)
	}
	if byThroughput[0] != 16 {
		t.Errorf("by throughput: %d nodes at first, want all 16", byThroughput[0])
	}
}

// randomWorld draws a cluster and jobs of all kinds on it.
func randomWorld(t *rapid.T) (*world, int) {
	nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
	gpus := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus")
	up := rapid.IntRange(1, nodes).Draw(t, "up")
	w, err := newWorld(nodes, gpus, up)
	if err != nil {
		t.Fatal(err)
	}
	free := up
	for i := range rapid.IntRange(0, 6).Draw(t, "jobs") {
		spec := sched.Spec{ID: sched.JobID(rune('a' + i)), GPUs: rapid.IntRange(1, gpus*nodes).Draw(t, "size")}
		perf := rapid.SampledFrom([]string{"none", "imagenet", "cifar10"}).Draw(t, "model")
		report := imagenet
		if perf == "cifar10" {
			report = cifar10
		}
		report.Noise = rapid.Float64Range(10, 1e6).Draw(t, "noise")
		report.MostGPUs = rapid.IntRange(1, gpus*nodes).Draw(t, "most")
		elastic := rapid.Bool().Draw(t, "elastic")
		if elastic {
			spec.MinGPUs = rapid.IntRange(1, spec.GPUs).Draw(t, "min")
			spec.MaxGPUs = rapid.IntRange(spec.GPUs, 2*gpus*nodes).Draw(t, "max")
		}
		var on []int
		if free > 0 && rapid.Bool().Draw(t, "runs") {
			free--
			on = []int{free}
		}
		p := &report
		if perf == "none" {
			p = nil
		}
		if err := w.add(spec, p, rapid.IntRange(1, gpus).Draw(t, "held"), on...); err != nil {
			t.Fatal(err)
		}
	}
	return w, up
}

func TestDesiredStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, up := randomWorld(t)
		c := Default(1, len(w.state.Cluster().Nodes))
		c.Rule = rapid.SampledFrom(Rules()).Draw(t, "rule")
		c.Window = rapid.IntRange(1, 3).Draw(t, "window")
		c.Min = rapid.IntRange(1, c.Max).Draw(t, "min nodes")
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		snap := w.snapshot()
		low := min(c.Max, max(c.Min, needed(snap)))
		for look := range 4 {
			got := s.Desired(snap, up)
			if got < low || got > c.Max {
				t.Fatalf("wants %d nodes; want %d to %d", got, low, c.Max)
			}
			if c.Rule != Utility || got == max(up, low) {
				continue
			}
			u := UtilityOf(snap)
			switch {
			case (look+1)%c.Window != 0:
				t.Fatalf("changes to %d nodes at look %d of a window of %d", got, look+1, c.Window)
			case got > up && got > low && u <= c.High:
				t.Fatalf("grows from %d to %d nodes at utility %g", up, got, u)
			case got < up && u >= c.Low:
				t.Fatalf("shrinks from %d to %d nodes at utility %g", up, got, u)
			}
		}
	})
}

// The prediction for several jobs never rises with the number of nodes, and no
// choice of whole sizes is better than it; for one job it is the best choice.
func TestForecastAgainstEveryChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, _ := randomWorld(t)
		snap := w.snapshot()
		nodes := len(snap.Cluster.Nodes)
		f := newForecast(snap, Goodput, nodes)
		best := bestChoice(t, snap, nodes)
		for n := 1; n <= nodes; n++ {
			got, want := f.speedup(n*w.gpus), best[n*w.gpus]
			if got < want-1e-9 || (len(snap.Jobs) == 1 && got > want+1e-9) {
				t.Fatalf("%d jobs on %d nodes: predicted speedup %g, the best choice has %g", len(snap.Jobs), n, got, want)
			}
			if n > 1 && len(snap.Jobs) > 1 && f.utility(n) > f.utility(n-1)+1e-9 {
				t.Fatalf("utility rises from %g to %g with node %d", f.utility(n-1), f.utility(n), n)
			}
		}
	})
}

// bestChoice returns the best sum of speedups for each number of GPUs, by
// dynamic programming over the sizes of the jobs.
func bestChoice(t *rapid.T, snap *sched.Snapshot, nodes int) []float64 {
	perNode := snap.Cluster.MaxGPUs()
	best := make([]float64, nodes*perNode+1)
	for _, j := range snap.Jobs {
		one := *snap
		one.Jobs = []*sched.Job{j}
		next := append([]float64(nil), best...)
		for _, s := range newForecast(&one, Goodput, nodes).single {
			if !j.Fits(s.gpus) {
				t.Fatalf("job %s is predicted on %d GPUs, which it does not run on", j.ID, s.gpus)
			}
			for n := s.gpus; n < len(best); n++ {
				next[n] = max(next[n], best[n-s.gpus]+s.speedup)
			}
		}
		best = next
	}
	return best
}

func TestNearestIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, _ := randomWorld(t)
		snap := w.snapshot()
		if len(snap.Jobs) < 2 {
			return // the utility of one job may rise
		}
		f := newForecast(snap, Utility, len(snap.Cluster.Nodes))
		goal := rapid.Float64Range(0.05, 0.95).Draw(t, "goal")
		low := rapid.IntRange(1, len(snap.Cluster.Nodes)).Draw(t, "low")
		high := rapid.IntRange(low, len(snap.Cluster.Nodes)).Draw(t, "high")
		got := f.nearest(goal, bounds{low: low, high: high})
		if got < low || got > high {
			t.Fatalf("%d nodes; want %d to %d", got, low, high)
		}
		for n := low; n <= high; n++ {
			if math.Abs(f.utility(n)-goal) < math.Abs(f.utility(got)-goal)-1e-12 {
				t.Fatalf("%d nodes have utility %g; %d have %g, nearer to %g", got, f.utility(got), n, f.utility(n), goal)
			}
		}
	})
}

func TestUsablePacksJobs(t *testing.T) {
	for _, tc := range []struct {
		most []int
		want int
	}{
		{nil, 0},
		{[]int{1, 1, 1, 1}, 1},
		{[]int{3, 3, 3}, 3},
		{[]int{3, 1, 3, 1, 2, 2}, 3},
		{[]int{9, 3, 4}, 4},
		{[]int{5, 6, 1}, 3},
	} {
		f := &forecast{perNode: 4, most: tc.most}
		if got := f.usable(); got != tc.want {
			t.Errorf("jobs of %v GPUs fill %d nodes of 4, want %d", tc.most, got, tc.want)
		}
	}
}

func TestUtilityOfAMix(t *testing.T) {
	w, err := newWorld(4, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	perf := imagenet
	perf.Noise = math.Inf(1)
	if err := w.add(sched.Spec{ID: "a", GPUs: 1, MinGPUs: 1, MaxGPUs: 8}, &perf, 1, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.add(sched.Spec{ID: "b", GPUs: 2}, nil, 2, 1); err != nil {
		t.Fatal(err)
	}
	// One GPU gives 1, two GPUs without a model give 2; eight are paid for.
	if got := UtilityOf(w.snapshot()); math.Abs(got-3.0/8) > 1e-12 {
		t.Errorf("utility %g, want 3/8", got)
	}
}
