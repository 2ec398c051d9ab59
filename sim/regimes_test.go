// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
)

// staged is a job that trains ten slow epochs, then twenty fast ones, then five slow
// ones.
func staged() sim.Work {
	w := job("a", 1, 0, 80*time.Minute)
	w.Work = 35
	w.Regimes = []sim.Regime{
		{Batch: 32, Epochs: 10, Time: sched.Duration(40 * time.Minute)},
		{Batch: 256, Epochs: 20, Time: sched.Duration(20 * time.Minute)},
		{Batch: 32, Epochs: 5, Time: sched.Duration(20 * time.Minute)},
	}
	return w
}

// looker keeps what a policy sees of the regimes of a job, by time.
type looker struct {
	sched.Policy
	seen map[time.Duration][]goodput.Regime
	done map[time.Duration]float64
}

func (l *looker) Schedule(s *sched.Snapshot) sched.Plan {
	if len(s.Jobs) == 0 {
		return l.Policy.Schedule(s)
	}
	at := s.Now.Sub(start)
	l.seen[at], l.done[at] = s.Jobs[0].Perf.Regimes, s.Jobs[0].DoneBy(s.Now)
	plan := l.Policy.Schedule(s)
	plan.WakeBy(s.Now, s.Now.Add(10*time.Minute))
	return plan
}

// A job whose batch size changes runs for as long as its regimes take, and reports its
// epochs by batch size.
func TestRegimes(t *testing.T) {
	c := config(t, "1x1", "fifo")
	l := &looker{c.Policy, map[time.Duration][]goodput.Regime{}, map[time.Duration]float64{}}
	c.Policy = l
	res := run(t, c, staged())
	near(t, "JCT", res.Jobs[0].JCT, 80*60)
	for _, want := range []struct {
		at         time.Duration
		done       float64
		slow, fast float64 // as last reported
		now        int     // batch size
	}{
		{0, 0, 0, 0, 32},
		{20 * time.Minute, 5, 0, 0, 32},
		{50 * time.Minute, 20, 10, 0, 256},
		{70 * time.Minute, 32.5, 10, 20, 32},
	} {
		got := l.seen[want.at]
		if len(got) != 2 || got[0].Batch != 32 || got[1].Batch != 256 || got[0].Time != 240 || got[1].Time != 60 {
			t.Fatalf("%s: regimes %+v; want batch sizes 32 and 256 with epochs of 240 and 60 s", want.at, got)
		}
		if got[0].Done != want.slow || got[1].Done != want.fast || got[0].Current != (want.now == 32) || got[1].Current != (want.now == 256) {
			t.Errorf("%s: regimes %+v; want %g and %g epochs, now %d", want.at, got, want.slow, want.fast, want.now)
		}
		if d := l.done[want.at] - want.done; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %g epochs done; want %g", want.at, l.done[want.at], want.done)
		}
	}
}

func TestBadRegimes(t *testing.T) {
	for want, edit := range map[string]func(*sim.Work){
		"its regimes take 1h20m": func(w *sim.Work) { w.RunTime++ },
		"regimes[1]":             func(w *sim.Work) { w.Regimes[1].Epochs = 0 },
		"regimes[2]":             func(w *sim.Work) { w.Regimes[2].Batch = 0 },
	} {
		w := staged()
		edit(&w)
		_, _, err := sim.Run(config(t, "1x1", "fifo"), &sim.Workload{Start: start, Work: []sim.Work{w}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}
