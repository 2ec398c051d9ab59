// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
)

// lengths is a policy that keeps the work that jobs declared, and the speeds that they
// reported.
type lengths struct {
	sched.Policy
	declared map[sched.JobID]float64
	rates    []float64
}

func (l *lengths) Schedule(s *sched.Snapshot) sched.Plan {
	for _, j := range s.Jobs {
		l.declared[j.ID] = j.Work
		if j.Rate > 0 {
			l.rates = append(l.rates, j.Rate)
		}
	}
	return l.Policy.Schedule(s)
}

// Jobs declare their true work, one that is wrong by the error asked for, or none; the
// speed that they report is true in any case: a second of work each second.
func TestLengths(t *testing.T) {
	var work []sim.Work
	for i := range 400 {
		work = append(work, job(fmt.Sprint("j", i), 1, time.Duration(i)*time.Second, time.Hour))
	}
	for _, c := range []struct {
		wrong float64
		none  bool
	}{{0, false}, {1, false}, {0, true}} {
		cfg := config(t, "8x8", "fifo")
		l := &lengths{Policy: cfg.Policy, declared: map[sched.JobID]float64{}}
		cfg.Policy, cfg.Seed, cfg.LengthError, cfg.NoLengths = l, 7, c.wrong, c.none
		run(t, cfg, work...)
		var logs, squares []float64
		for _, x := range l.declared {
			if c.none != (x == 0) {
				t.Fatalf("declared %g; want nothing: %v", x, c.none)
			}
			if x > 0 {
				e := math.Log(x / 3600)
				logs, squares = append(logs, e), append(squares, e*e)
			}
		}
		if mean, sd := num.Mean(logs), math.Sqrt(num.Mean(squares)); math.Abs(mean) > 0.15 || math.Abs(sd-c.wrong) > 0.15 {
			t.Errorf("error %g: the logarithm has mean %.2f and deviation %.2f", c.wrong, mean, sd)
		}
		if low, high := num.Quantile(l.rates, 0), num.Quantile(l.rates, 1); low != 1 || high != 1 {
			t.Errorf("error %g, none %v: jobs reported speeds of %g to %g; want 1", c.wrong, c.none, low, high)
		}
	}
}

func TestLengthsOutOfRange(t *testing.T) {
	for _, edit := range []func(*sim.Config){
		func(c *sim.Config) { c.LengthError = math.NaN() },
		func(c *sim.Config) { c.LengthError, c.NoLengths = 1, true },
		func(c *sim.Config) { c.Restart = -1 },
	} {
		cfg := config(t, "1x4", "fifo")
		edit(&cfg)
		if _, _, err := sim.Run(cfg, &sim.Workload{Start: start, Work: []sim.Work{job("a", 1, 0, time.Hour)}}); err == nil {
			t.Errorf("length error %g, no lengths %v, restart %s: accepted", cfg.LengthError, cfg.NoLengths, cfg.Restart)
		}
	}
}
