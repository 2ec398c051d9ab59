// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// TestByQuota: a gang waits three times, and each wait has the cause of most of it.
func TestByQuota(t *testing.T) {
	job := func(gpus int, submit float64, runs ...sim.Segment) sim.JobResult {
		return sim.JobResult{Tenant: "a", GPUs: gpus, Submit: submit, Ran: 1000, Runs: runs}
	}
	r := PhillyRun{Quota: map[sched.TenantID]int{"a": 8}, Result: &sim.Result{Jobs: []sim.JobResult{
		job(6, 0, sim.Segment{Start: 0, End: 1000, GPUs: 6}, sim.Segment{Start: 1060, End: 2000, GPUs: 6}),
		// It waits for 900 and 840 s beside 6 of 8 GPUs, for a back-off only, and for 600 s alone.
		job(4, 100, sim.Segment{Start: 1000, End: 1060, GPUs: 4}, sim.Segment{Start: 1900, End: 2000, GPUs: 4},
			sim.Segment{Start: 2060, End: 2100, GPUs: 4}, sim.Segment{Start: 2700, End: 2800, GPUs: 4}),
	}}}
	if got, want := r.byQuota(r.use(), 2, 4), (Causes{FairShare: 2, Fragments: 1}); got != want {
		t.Errorf("waits of the gang of 4: %+v; want %+v", got, want)
	}
	if got := r.byQuota(r.use(), 5, 8); got.All() != 0 {
		t.Errorf("waits of the gang of 6: %+v; want none", got)
	}
}

func TestAbove(t *testing.T) {
	s := steps{at: []float64{10, 20, 30}, n: []int{1, 3, 0}}
	for _, tc := range []struct {
		bound    int
		from, to float64
		want     float64
	}{
		{0, 0, 100, 20}, {1, 0, 100, 10}, {3, 0, 100, 0}, {-1, 0, 100, 100}, {0, 12, 14, 2}, {2, 15, 25, 5}, {-1, 0, 5, 5}, {0, 40, 50, 0}, {2, 20, 21, 1},
	} {
		if got := s.above(tc.bound, tc.from, tc.to); got != tc.want {
			t.Errorf("above %d from %g to %g for %g; want %g", tc.bound, tc.from, tc.to, got, tc.want)
		}
	}
}

// busyDays returns the share of the GPUs that would be in use on the 74 days from
// 2017-10-03 on if every job started at once.
func busyDays(w *sim.Workload) (share float64) {
	from := time.Date(2017, 10, 3, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 0, 74)
	for i := range w.Work {
		begin, end := w.Work[i].Submitted, w.Work[i].Submitted.Add(w.Work[i].RunTime.D())
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if length := end.Sub(begin); length > 0 {
			share += length.Hours() * float64(w.Work[i].GPUs)
		}
	}
	return share / (2490 * to.Sub(from).Hours())
}

// TestPublicTrace: the figures of the public trace on the page are those of its table.
func TestPublicTrace(t *testing.T) {
	folder := filepath.Join(cmp.Or(os.Getenv("FAIRWAY_TEST_DATA"), "../../../shared/data"), "philly")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("needs the public table of Philly's jobs: ", err)
	}
	f, err := os.Open(filepath.Join(folder, "philly_jobs_reconstructed.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, _, err := trace.Read(f, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range phillySizes {
		jobs, ran := 0, 0
		for i := range w.Work {
			if n := w.Work[i].GPUs; n >= s.least && n <= s.most {
				jobs++
				if w.Work[i].RunTime.D().Seconds() >= 60 {
					ran++
				}
			}
		}
		if jobs != s.jobs || ran != s.ran {
			t.Errorf("%s GPUs: %d jobs, %d of them for a minute; the page says %d and %d", s.name, jobs, ran, s.jobs, s.ran)
		}
	}
	if use := busyDays(w); math.Abs(use-publicUse) > 0.005 {
		t.Errorf("%.3f of the GPUs in use; the page says %.2f", use, publicUse)
	}
}
