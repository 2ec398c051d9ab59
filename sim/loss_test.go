// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/policy/optimus"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// trainings returns every model of the zoo that an agent can measure, at a few
// batch sizes.
func trainings(t *testing.T) map[string]*fitted {
	t.Helper()
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*fitted{}
	for _, name := range z.Names() {
		m, _ := z.Model(name)
		if len(m.Throughput) == 0 || m.Iterations == 0 {
			continue
		}
		for _, batch := range []int{m.Batch.Initial, min(4*m.Batch.Initial, m.Batch.Max), m.Batch.Max} {
			out[fmt.Sprintf("%s at %d", name, batch)] = &fitted{model: m, size: batch}
		}
	}
	if len(out) < 6 {
		t.Fatalf("%d trainings; want more", len(out))
	}
	return out
}

func exactly(x float64) float64 { return x }

// train lets a job train in equal parts, with a look at its loss after each.
func train(t *testing.T, f *fitted, l *lossLog, parts int) {
	t.Helper()
	for i := range parts {
		gain, err := f.gain((float64(i)+0.5)/float64(parts)*f.total(), f.size)
		if err != nil {
			t.Fatal(err)
		}
		l.look(float64(i+1)/float64(parts), gain, exactly)
	}
}

// TestLossEndsWithTheTraining counts epochs of the true curve until the rule of
// the job says that it has converged.
func TestLossEndsWithTheTraining(t *testing.T) {
	for name, f := range trainings(t) {
		stop, err := stopOf(f, f.size)
		if err != nil {
			t.Fatal(err)
		}
		before, done, epochs := lossAt(0), 0.0, 0
		for slow := 0; slow < stop.Epochs && done < 2*f.total(); epochs++ {
			const pieces = 100 // the gain of a step changes within an epoch
			for range pieces {
				gain, err := f.gain(done, f.size)
				if err != nil {
					t.Fatal(err)
				}
				done += stop.Epoch / pieces * gain
			}
			loss := lossAt(done / f.total())
			if slow++; before-loss >= stop.Fall {
				slow = 0
			}
			before = loss
		}
		if part := done / f.total(); math.Abs(part-1) > 0.03 {
			t.Errorf("%s: converged after %d epochs, %.3f of the training; want all of it", name, epochs, part)
		}
	}
}

// TestLossesForetellTheEnd: what agents keep is enough for Optimus' fit to find
// the steps left, from early on where a step always achieves the same, and
// within a factor where larger batches achieve more as training goes on.
func TestLossesForetellTheEnd(t *testing.T) {
	for name, f := range trainings(t) {
		whole, err := newLossLog(f, f.size)
		if err != nil {
			t.Fatal(err)
		}
		train(t, f, whole, 1000)
		if n := len(whole.points); n > maxLosses || n < maxLosses/2 {
			t.Errorf("%s: %d losses are kept; want half of %d to all", name, n, maxLosses)
		}
		for _, share := range []float64{0.01, 0.1, 0.5} {
			l, _ := newLossLog(f, f.size)
			for i := range int(1000 * share) {
				gain, _ := f.gain((float64(i)+0.5)/1000*f.total(), f.size)
				l.look(float64(i+1)/1000, gain, exactly)
			}
			points := make([]optimus.LossPoint, len(l.points))
			for i, p := range l.points {
				points[i] = optimus.LossPoint(p)
			}
			fit, ok := optimus.FitLoss(points)
			got, want := fit.Steps(optimus.Stop(l.stop))-l.steps, whole.steps-l.steps
			within := 1.05
			if f.size > f.model.Batch.Initial {
				within = 4
			}
			if !ok || got > want*within || got < want/within {
				t.Errorf("%s, after %g: %.0f steps left; want %.0f within a factor of %g", name, share, got, want, within)
			}
		}
	}
}

func TestLossLog(t *testing.T) {
	l := &lossLog{total: 1000, each: 1}
	l.look(0.1, 2, exactly)
	first := l.points
	l.look(0.2, 4, exactly)
	want := []goodput.LossPoint{{Step: 0, Loss: 1}, {Step: 50, Loss: lossAt(0.1)}, {Step: 75, Loss: lossAt(0.2)}}
	if !slices.Equal(l.points, want) {
		t.Errorf("points are %v; want %v", l.points, want)
	}
	if !slices.Equal(first, want[:2]) {
		t.Errorf("what was reported has changed to %v; want %v", first, want[:2])
	}
	l.look(0.05, 1, exactly) // after a failure
	want = []goodput.LossPoint{{Step: 0, Loss: 1}, {Step: 50, Loss: lossAt(0.05)}}
	if !slices.Equal(l.points, want) {
		t.Errorf("after a new start points are %v; want %v", l.points, want)
	}
	for i := range 10_000 {
		l.look(0.05+float64(i+1)/20_000, 1, exactly)
		if len(l.points) > maxLosses {
			t.Fatalf("%d points; want at most %d", len(l.points), maxLosses)
		}
	}
	sorted := slices.IsSortedFunc(l.points, func(a, b goodput.LossPoint) int {
		if a.Step < b.Step && a.Loss > b.Loss {
			return -1
		}
		return 1
	})
	if !sorted || l.points[0] != want[0] || l.points[len(l.points)-1].Step < 500 {
		t.Errorf("points are %v; want the first step, then falling losses up to nearly step 550", l.points)
	}
}

// TestStepTimesAreBounded: those measured most are kept, in a fixed order.
func TestStepTimesAreBounded(t *testing.T) {
	a := &agent{fixed: 64, limits: goodput.Limits{Initial: 64, Max: 64, LocalMin: 1, LocalMax: 16}, profiles: map[string]*goodput.Profile{}}
	random := rand.New(rand.NewPCG(1, 1))
	for _, gpuType := range []string{"t4", "a100"} {
		a.profiles[gpuType] = &goodput.Profile{}
		for n := 1; n <= 40; n++ {
			s := goodput.Sample{Nodes: 1, GPUs: n, Local: 16, Step: 1 + random.Float64(), Sync: 0.5, Count: float64(n)}
			if err := a.profiles[gpuType].Add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := a.stepTimes()
	for i, s := range got {
		gpuType, gpus := "a100", 25+i
		if i >= 16 {
			gpuType, gpus = "t4", 25+i-16
		}
		if s.Type != gpuType || s.GPUs != gpus || s.Batch != 64 {
			t.Errorf("step time %d is %+v; want one of batch 64 on %d of %s", i, s, gpus, gpuType)
		}
	}
	if len(got) != maxStepTimes {
		t.Errorf("%d step times; want %d", len(got), maxStepTimes)
	}
	one := &agent{fixed: 64, limits: a.limits, profiles: map[string]*goodput.Profile{"t4": {}}}
	if err := one.profiles["t4"].Add(goodput.Sample{Nodes: 1, GPUs: 2, Local: 16, Step: 1, Sync: 0.25}); err != nil {
		t.Fatal(err)
	}
	// 32 examples on each GPU are two gradients of 16.
	want := []goodput.StepTime{{Type: "t4", Nodes: 1, GPUs: 2, Batch: 64, Time: 1.75}}
	if got := one.stepTimes(); !slices.Equal(got, want) {
		t.Errorf("step times are %v; want %v", got, want)
	}
}
