// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

func wantNear(t interface {
	Helper()
	Errorf(string, ...any)
}, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*max(1, math.Abs(want))) {
		t.Errorf("%s: %g; want %g", what, got, want)
	}
}

// amdahl is the curve of a job of which a part cannot be divided.
func amdahl(serial float64) Curve {
	return func(n int) float64 { return 1 / (serial + (1-serial)/float64(n)) }
}

// cut is a curve without some sizes.
func cut(c Curve, sizes ...int) Curve {
	return func(n int) float64 {
		for _, s := range sizes {
			if s == n {
				return 0
			}
		}
		return c(n)
	}
}

func TestJobAlone(t *testing.T) {
	half := amdahl(0.5) // speeds 1, 1.33, 1.5, 1.6
	for _, c := range []struct {
		name          string
		job           Job
		share         float64
		seconds, gpus float64
	}{
		{"as much as it asked for", Job{GPUs: 4, Seconds: 100}, 4, 100, 4},
		{"more", Job{GPUs: 4, Seconds: 100}, 64, 100, 4},
		{"less, in proportion", Job{GPUs: 4, Seconds: 100}, 1, 400, 1},
		{"half a GPU", Job{GPUs: 1, Seconds: 100}, 0.5, 200, 0.5},
		{"less, by its curve", Job{GPUs: 4, Seconds: 100, Curve: half}, 1, 160, 1},
		{"between two sizes", Job{GPUs: 4, Seconds: 100, Curve: half}, 2.5, 100 * 1.6 / ((4/3. + 1.5) / 2), 2.5},
		{"half a GPU, by its curve", Job{GPUs: 4, Seconds: 100, Curve: half}, 0.5, 320, 0.5},
		{"more, by its curve", Job{GPUs: 1, Seconds: 160, Most: 8, Curve: half}, 4, 100, 4},
		{"more than its largest size", Job{GPUs: 1, Seconds: 160, Most: 4, Curve: half}, 64, 100, 4},
		{"more, without a curve", Job{GPUs: 1, Seconds: 160, Most: 8}, 4, 160, 1},
		{"more, but slower there", Job{GPUs: 2, Seconds: 100, Most: 8, Curve: func(n int) float64 { return 1 / float64(n) }}, 8, 100, 2},
		{"a size it cannot have", Job{GPUs: 4, Seconds: 100, Curve: cut(half, 3)}, 3, 100 * 1.6 / ((4/3. + 1.6) / 2), 3},
		{"no size below", Job{GPUs: 4, Seconds: 100, Curve: cut(half, 1, 2, 3)}, 1, 400, 1},
		{"no size above", Job{GPUs: 2, Seconds: 100, Most: 4, Curve: cut(half, 3, 4)}, 3, 100, 2},
		{"a curve without its own size", Job{GPUs: 4, Seconds: 100, Curve: cut(half, 4)}, 1, 400, 1},
	} {
		seconds, gpus := c.job.alone(c.share)
		wantNear(t, c.name+": seconds", seconds, c.seconds)
		wantNear(t, c.name+": GPUs", gpus, c.gpus)
	}
	wantNear(t, "measured elsewhere, in proportion", Job{GPUs: 4}.Measured(100, 2).Seconds, 50)
	wantNear(t, "measured elsewhere, by its curve", Job{GPUs: 4, Curve: half}.Measured(160, 1).Seconds, 100)
}

// TestByHand: 100 s ago there came one job of 100 s on all four GPUs; it waits for
// another 100 s of which the first half had two apps.
func TestByHand(t *testing.T) {
	a := App{Elapsed: 100, Mean: 2, Left: 100, Now: 1, GPUs: 4, Jobs: []Job{{GPUs: 4, Seconds: 100}}}
	wantNear(t, "apps", a.Apps(), 1.5)
	wantNear(t, "alone", a.Alone(), 150)
	wantNear(t, "rho", a.Rho(), 200/150.)
	// The paper lets the app take all GPUs for 1/N of the time.
	wantNear(t, "the paper's rho", a.PaperRho(), 200/150.)
	// One GPU is all that the next app can use: alone it takes 100 s, by the paper N
	// times as long.
	b := App{Elapsed: 200, Mean: 4, GPUs: 64, Jobs: []Job{{GPUs: 1, Seconds: 100}}}
	wantNear(t, "rho of a small one", b.Rho(), 2)
	wantNear(t, "the paper's rho of a small one", b.PaperRho(), 0.5)
}

// TestUnknown: what nobody knows is not guessed.
func TestUnknown(t *testing.T) {
	known := Job{GPUs: 1, Seconds: 10}
	for name, a := range map[string]App{
		"nothing":              {},
		"no jobs":              {Elapsed: 10, Mean: 1, GPUs: 4},
		"no length":            {Elapsed: 10, Mean: 1, GPUs: 4, Jobs: []Job{known, {GPUs: 1}}},
		"nobody can host it":   {Elapsed: 10, Mean: 1, GPUs: 4, Jobs: []Job{known, {GPUs: 1, Seconds: math.Inf(1)}}},
		"no GPUs":              {Elapsed: 10, Mean: 1, Jobs: []Job{known}},
		"no number":            {Elapsed: math.NaN(), Mean: 1, GPUs: 4, Jobs: []Job{known}},
		"it will never end":    {Elapsed: 10, Left: math.Inf(1), Mean: 1, Now: 1, GPUs: 4, Jobs: []Job{known}},
		"a length of no sense": {Elapsed: 10, Mean: 1, GPUs: 4, Jobs: []Job{known, {GPUs: 1, Seconds: math.NaN()}}},
	} {
		if rho, paper := a.Rho(), a.PaperRho(); rho != 0 || paper != 0 {
			t.Errorf("%s: rho %g, the paper's %g; want 0, unknown", name, rho, paper)
		}
	}
}

// drawApp draws an app; proportional: of jobs without curves.
func drawApp(t *rapid.T, proportional bool) App {
	a := App{
		Elapsed: rapid.Float64Range(1, 1e5).Draw(t, "elapsed"), Left: rapid.Float64Range(0, 1e5).Draw(t, "left"),
		Mean: rapid.Float64Range(1, 50).Draw(t, "mean"), Now: float64(rapid.IntRange(1, 50).Draw(t, "now")),
		GPUs: rapid.IntRange(1, 256).Draw(t, "gpus"),
	}
	for range rapid.IntRange(1, 6).Draw(t, "jobs") {
		j := Job{GPUs: rapid.IntRange(1, 32).Draw(t, "asked"), Seconds: rapid.Float64Range(1, 1e5).Draw(t, "seconds")}
		if !proportional && rapid.Bool().Draw(t, "measured") {
			j.Curve = amdahl(rapid.Float64Range(0, 1).Draw(t, "serial"))
			j.Most = rapid.IntRange(0, 64).Draw(t, "most")
		}
		a.Jobs = append(a.Jobs, j)
	}
	return a
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawApp(t, false)
		rho := a.Rho()

		// An app that takes as long as alone on its share is at 1.
		even := a
		even.Elapsed, even.Left = a.Alone(), 0
		even.Mean = a.Apps()
		wantNear(t, "an app that takes as long as alone", even.Rho(), 1)

		// The older it is the worse off, the contention being the same.
		older := a
		older.Elapsed += 100
		older.Mean = (a.Mean*a.Elapsed + a.Apps()*100) / older.Elapsed
		if !(older.Rho() > rho) || !(older.PaperRho() > a.PaperRho()) {
			t.Errorf("100 s older: rho %g and %g, before %g and %g; want more", older.Rho(), older.PaperRho(), rho, a.PaperRho())
		}

		// The more apps there were the smaller the share, and the smaller rho.
		crowded := a
		crowded.Mean *= 2
		if crowded.Rho() > rho*(1+1e-9) || !(crowded.PaperRho() < a.PaperRho()) {
			t.Errorf("twice as many apps in the past: rho %g, before %g; want no more", crowded.Rho(), rho)
		}
		if n := a.Apps(); n < min(a.Mean, a.Now)*(1-1e-9) || n > max(a.Mean, a.Now)*(1+1e-9) {
			t.Errorf("%g apps over its life; want between %g so far and %g now", n, a.Mean, a.Now)
		}

		// The unit of time does not matter.
		scaled := a
		scaled.Elapsed, scaled.Left = 60*a.Elapsed, 60*a.Left
		scaled.Jobs = append([]Job(nil), a.Jobs...)
		for i := range scaled.Jobs {
			scaled.Jobs[i].Seconds *= 60
		}
		wantNear(t, "in other units", scaled.Rho(), rho)
		wantNear(t, "the paper's in other units", scaled.PaperRho(), a.PaperRho())

		// No app ends before its slowest job, nor before its work is done.
		share := float64(a.GPUs) / a.Apps()
		work := 0.0
		for _, j := range a.Jobs {
			seconds, gpus := j.alone(share)
			if gpus > share*(1+1e-9) || gpus > float64(j.most()) || a.Alone() < seconds*(1-1e-9) {
				t.Errorf("a job takes %g s on %g GPUs of a share of %g, its app %g s", seconds, gpus, share, a.Alone())
			}
			work += seconds * gpus
		}
		if a.Alone()*share < work*(1-1e-9) {
			t.Errorf("alone %g s on %g GPUs, for %g GPU-seconds", a.Alone(), share, work)
		}
		more := a
		more.Jobs = append([]Job{{GPUs: 1, Seconds: 10}}, a.Jobs...)
		if more.Alone() < a.Alone()*(1-1e-9) {
			t.Errorf("with one more job the app takes %g s alone, before %g", more.Alone(), a.Alone())
		}
	})
}

// TestBadScaling: below the size it asked for, a job that scales badly loses less
// than in proportion, so the same life is less fair; above, it gains.
func TestBadScaling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawApp(t, true)
		a.Jobs = a.Jobs[:1]
		curved := a
		j := a.Jobs[0]
		j.Curve = amdahl(rapid.Float64Range(0.01, 1).Draw(t, "serial"))
		curved.Jobs = []Job{j}
		share := float64(a.GPUs) / a.Apps()
		switch {
		case share < 1 && j.GPUs > 1 || share >= 1 && share < float64(j.GPUs):
			if !(curved.Alone() < a.Alone()) || !(curved.Rho() > a.Rho()) {
				t.Errorf("on %g of %d GPUs: alone %g s by its curve, %g s in proportion; want less", share, j.GPUs, curved.Alone(), a.Alone())
			}
		default:
			wantNear(t, "on as much as it asked for", curved.Alone(), a.Alone())
		}
		wantNear(t, "the paper's form knows no curves", curved.PaperAlone(), a.PaperAlone())
	})
}

// TestOthers: what is remembered of jobs that are not listed counts as their work,
// and Most as what they could use together.
func TestOthers(t *testing.T) {
	all := App{Elapsed: 1000, Mean: 2, GPUs: 16, Jobs: []Job{{GPUs: 2, Seconds: 100}, {GPUs: 2, Seconds: 100}, {GPUs: 4, Seconds: 900}}}
	some := all
	some.Jobs, some.Others, some.Most = all.Jobs[2:], 400, 8
	wantNear(t, "rho", some.Rho(), all.Rho())
	wantNear(t, "the paper's rho", some.PaperRho(), all.PaperRho())
	inTurn := all
	inTurn.Most = 4 // never more than one at a time
	wantNear(t, "one after the other", inTurn.Alone(), 1000)
}

func TestCurveOf(t *testing.T) {
	cluster, err := sched.NewCluster([]sched.Node{{Name: "a", GPUs: 4, Type: "t4"}, {Name: "b", GPUs: 4, Type: "v100"}})
	if err != nil {
		t.Fatal(err)
	}
	slow := goodput.Params{AlphaGrad: 0.1, BetaGrad: 0.01, AlphaLocal: 0.05, AlphaNode: 0.5, Gamma: 1}
	fast := goodput.Params{AlphaGrad: 0.01, BetaGrad: 0.001, AlphaLocal: 0.05, AlphaNode: 0.5, Gamma: 1}
	j := &sched.Job{Spec: sched.Spec{GPUs: 8}}
	if CurveOf(j, cluster) != nil {
		t.Error("a job without an agent has a curve")
	}
	j.Perf = &goodput.Report{Fixed: 64, Limits: goodput.Limits{Initial: 64, Max: 64, LocalMin: 1, LocalMax: 64}}
	if CurveOf(j, cluster) != nil {
		t.Error("a job without a model has a curve")
	}
	j.Perf.Params = map[string]goodput.Params{"v100": fast, "t4": slow}
	at := func(p goodput.Params, nodes, gpus int) float64 {
		return p.Throughput(goodput.Shape{Nodes: nodes, GPUs: gpus}, 64/float64(gpus), 0)
	}
	wantNear(t, "waiting: of the first type", CurveOf(j, cluster)(4), at(slow, 1, 4))
	wantNear(t, "more than a node has", CurveOf(j, cluster)(8), at(slow, 2, 8))
	wantNear(t, "a size its batch cannot be split over", CurveOf(j, cluster)(128), 0)
	j.Placement = sched.Placement{{Node: 1, GPUs: 0b1111, Milli: sched.WholeGPU}}
	wantNear(t, "running: of the type it runs on", CurveOf(j, cluster)(4), at(fast, 1, 4))
}
