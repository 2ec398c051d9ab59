// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// failing makes a job that fails some times for a reason, each time after so long.
func failing(w sim.Work, reason string, times int, after time.Duration) sim.Work {
	for range times {
		w.Failures = append(w.Failures, sim.Failure{Reason: reason, After: sched.Duration(after)})
	}
	return w
}

func lost(w sim.Work) sim.Work {
	w.Outcome = sched.Failed
	return w
}

func withFaults(t testing.TB, cluster, spec string, set func(*sim.FaultConfig)) sim.Config {
	c := config(t, cluster, spec)
	f := sim.DefaultFaults()
	f.Missed = 0
	set(&f)
	c.Faults, c.Retry = &f, time.Minute
	return c
}

func adaptive(f *sim.FaultConfig) { f.Adaptive = true }

// What happens at the next attempt depends on the reason and on what was decided.
func TestRetryTruth(t *testing.T) {
	base := job("j", 1, 0, time.Hour)
	for _, test := range []struct {
		name     string
		work     sim.Work
		attempts [2]int // that fail: retries as recorded, adaptive
		outcome  [2]sched.Phase
		wasted   [2]float64 // seconds
	}{
		{"a syntax error is not tried again", lost(failing(base, "syntax error", 5, time.Minute)),
			[2]int{5, 1}, [2]sched.Phase{sched.Failed, sched.Failed}, [2]float64{300, 60}},
		{"one retry may rule out the host", lost(failing(base, "core dump", 5, time.Minute)),
			[2]int{5, 2}, [2]sched.Phase{sched.Failed, sched.Failed}, [2]float64{300, 120}},
		{"what passes is tried until it has", failing(base, "MPI error", 2, time.Minute),
			[2]int{2, 2}, [2]sched.Phase{sched.Finished, sched.Finished}, [2]float64{120, 120}},
		{"what passes gets through where it was given up", lost(failing(base, "CUDA failure", 1, time.Minute)),
			[2]int{1, 1}, [2]sched.Phase{sched.Failed, sched.Finished}, [2]float64{60, 60}},
		{"who is given up and had it right comes back corrected", failing(base, "incorrect inputs", 3, time.Minute),
			[2]int{3, 1}, [2]sched.Phase{sched.Finished, sched.Finished}, [2]float64{180, 60}},
		{"a preemption is free", failing(base, "job preempted", 6, time.Minute),
			[2]int{6, 6}, [2]sched.Phase{sched.Finished, sched.Finished}, [2]float64{360, 360}},
	} {
		for i, set := range []func(*sim.FaultConfig){func(*sim.FaultConfig) {}, adaptive} {
			res := run(t, withFaults(t, "4x4", "fifo", set), test.work)
			f := res.Faults
			if f.Attempts != test.attempts[i] || res.Jobs[0].Outcome != test.outcome[i] {
				t.Errorf("%s: adaptive %v: %d attempts failed, then %s; want %d, %s", test.name, i == 1, f.Attempts, res.Jobs[0].Outcome, test.attempts[i], test.outcome[i])
			}
			if f.Wasted != test.wasted[i] {
				t.Errorf("%s: adaptive %v: %g GPU-seconds wasted; want %g", test.name, i == 1, f.Wasted, test.wasted[i])
			}
		}
	}
}

// Of many jobs that run out of memory, about half do with 1.5 times as much.
func TestMoreMemory(t *testing.T) {
	var work []sim.Work
	for i := range 200 {
		work = append(work, lost(failing(job(fmt.Sprint("j", i), 1, time.Duration(i)*time.Minute, time.Hour), "CPU out of memory", 4, time.Minute)))
	}
	if res := run(t, withFaults(t, "50x4", "fifo", func(*sim.FaultConfig) {}), work...); res.Failed != 200 || res.Faults.Attempts != 800 {
		t.Errorf("with the memory they asked for %d of 200 jobs failed, in %d attempts; want all, in 800", res.Failed, res.Faults.Attempts)
	}
	res := run(t, withFaults(t, "50x4", "fifo", adaptive), work...)
	if n := res.Faults.Rescued; n < 70 || n > 130 || res.Failed != 200-n {
		t.Errorf("with more memory %d of 200 jobs got through and %d failed; want about half", n, res.Failed)
	}
	if got := res.Faults.Attempts; got != 400-res.Faults.Rescued {
		t.Errorf("%d attempts failed; want one of each job, and one more of those that failed for good", got)
	}
}

// A job that fails early fails in the pool, unless only the gang fails; one that works
// starts from scratch with its gang, and the next job like it is trusted.
func TestScreening(t *testing.T) {
	screen := func(f *sim.FaultConfig) { f.Adaptive, f.Screen = true, 5*time.Minute }
	early := lost(failing(job("early", 8, 0, time.Hour), "import error", 3, 2*time.Minute))
	late := lost(failing(job("late", 8, 0, time.Hour), "import error", 3, 20*time.Minute))
	gang := failing(job("gang", 8, 0, time.Hour), "MPI error", 1, 2*time.Minute)
	for _, test := range []struct {
		work   sim.Work
		caught int
		wasted float64
	}{{early, 1, 120}, {late, 0, 8 * 1200}, {gang, 0, 8 * 120}} {
		res := run(t, withFaults(t, "2x8", "fifo@screen:idle=0", screen), test.work)
		if f := res.Faults; f.Caught != test.caught || f.Attempts != 1 || f.Wasted != test.wasted {
			t.Errorf("%s: %d of %d failures in the pool, %g GPU-seconds wasted; want %d of 1, %g", test.work.ID, f.Caught, f.Attempts, f.Wasted, test.caught, test.wasted)
		}
	}
	good, next := job("good", 8, 0, time.Hour), job("next", 8, 2*time.Hour, time.Hour)
	res := run(t, withFaults(t, "2x8", "fifo@screen:idle=0", screen), good, next)
	within(t, "end of a screened job", res.Jobs[0].End, 3600+300)
	within(t, "time of a trusted job", res.Jobs[1].JCT, 3600)
	if f := res.Faults; f.Screenings != 1 || f.Trusted != 1 || f.ScreenGPUs != 300 || res.Preempted != 0 || res.Moved != 0 {
		t.Errorf("got %d screenings of %g GPU-seconds, %d trusted, %d preemptions, %d moves; want 1 of 300, 1, none", f.Screenings, f.ScreenGPUs, f.Trusted, res.Preempted, res.Moved)
	}
	elastic := job("elastic", 8, 0, time.Hour)
	elastic.MinGPUs, elastic.MaxGPUs = 1, 8
	res = run(t, withFaults(t, "2x8", "fifo@screen:idle=0", screen), elastic)
	within(t, "end of an elastic job that stays on one GPU", res.Jobs[0].End, 8*3600)
}

// crowd is a stream of jobs of several users that have nothing wrong with them.
func crowd() []sim.Work {
	var work []sim.Work
	for i := range 2000 {
		w := job(fmt.Sprint("j", i), 1+i%4, time.Duration(i)*3*time.Minute, 30*time.Minute)
		w.User = fmt.Sprint("u", i%7)
		work = append(work, w)
	}
	return work
}

// Bad nodes break jobs that have nothing wrong with them. Staying away from them
// helps, and taking them out of use helps more; the nodes in quarantine are bad.
func TestBadNodes(t *testing.T) {
	work := crowd()
	bad := func(adaptive, quarantine bool) *sim.Result {
		return run(t, withFaults(t, "12x4", "fifo", func(f *sim.FaultConfig) {
			f.BadNodes, f.BadFor, f.Adaptive, f.Quarantine, f.Seed = 0.1, 48*time.Hour, adaptive, quarantine, 3
		}), work...)
	}
	fixed, shy, out := bad(false, false), bad(true, false), bad(true, true)
	t.Logf("node failures: %d with retries anywhere, %d elsewhere, %d with quarantine (%d, %d wrong)",
		fixed.Faults.NodeFailures, shy.Faults.NodeFailures, out.Faults.NodeFailures, out.Faults.Quarantines, out.Faults.Wrong)
	if a, b, c := fixed.Faults.NodeFailures, shy.Faults.NodeFailures, out.Faults.NodeFailures; !(a > b && b > c && c > 0) {
		t.Errorf("attempts that nodes broke: %d, %d if retries go elsewhere, %d with quarantine; want fewer and fewer", a, b, c)
	}
	if f := out.Faults; f.Quarantines == 0 || f.Wrong > f.Quarantines/10 {
		t.Errorf("%d quarantines, %d of them of good nodes; want some, and few of good nodes", f.Quarantines, f.Wrong)
	}
	for _, res := range []*sim.Result{shy, out} {
		if res.Finished != len(work) {
			t.Errorf("%d of %d jobs got through; want all", res.Finished, len(work))
		}
	}
}

// The same configuration gives the same result, byte for byte.
func TestFaultsAreDeterministic(t *testing.T) {
	work := crowd()[:400]
	for i := range work {
		if i%5 == 0 {
			work[i] = lost(failing(work[i], "CPU out of memory", 3, 3*time.Minute))
		}
	}
	var first []byte
	for range 2 {
		res := run(t, withFaults(t, "12x4", "fifo@screen", func(f *sim.FaultConfig) {
			f.BadNodes, f.Adaptive, f.Quarantine, f.Screen, f.Missed = 0.05, true, true, 5*time.Minute, 0.12
		}), work...)
		text, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		}
		if diff := cmp.Diff(string(first), string(text)); diff != "" {
			t.Errorf("two runs differ:\n%s", diff)
		}
	}
}

func TestFaultConfig(t *testing.T) {
	for name, set := range map[string]func(*sim.FaultConfig){
		"missed":     func(f *sim.FaultConfig) { f.Missed = 2 },
		"bad nodes":  func(f *sim.FaultConfig) { f.BadNodes = 0.9 },
		"screen":     func(f *sim.FaultConfig) { f.Screen = -1 },
		"checkpoint": func(f *sim.FaultConfig) { f.BadNodes, f.Checkpoint = 0.1, 0 },
	} {
		if _, _, err := sim.Run(withFaults(t, "1x1", "fifo", set), &sim.Workload{Start: start}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
