// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// public is where public traces are, on machines that have them.
const public = "../../../shared/data"

func readPublic(t *testing.T, name string, o Options) (*sim.Workload, *Report) {
	t.Helper()
	f, err := os.Open(filepath.Join(public, name))
	if err != nil {
		t.Skip("no public traces here")
	}
	defer f.Close()
	o.Name = name
	wl, report, err := Read(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return wl, report
}

func TestPublicPhilly(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a large file")
	}
	all, report := readPublic(t, "philly/philly_jobs_reconstructed.csv", Options{Format: Philly})
	if report.Rows != 109532 || len(report.Dropped) != 1 || report.Dropped[0].Rows != 8 {
		t.Errorf("report = %+v; want 109532 rows with 8 dropped", report)
	}
	t.Run("drawn", func(t *testing.T) { comparePhilly(t, all) })
	t.Run("gavel", func(t *testing.T) { compareGavel(t, all) })
}

// comparePhilly: the drawn workload is like the trace it was fitted to. Run
// with -v to see the two beside each other.
func comparePhilly(t *testing.T, all *sim.Workload) {
	real := Stats(all)
	drawn := Stats(generate(t, Gen{Kind: KindPhilly, Jobs: 100000, GPUs: 2490, Seed: 2}))
	t.Logf("GPU hours per job: trace %.1f, drawn %.1f", real.GPUHours/float64(real.Jobs), drawn.GPUHours/float64(drawn.Jobs))
	near(t, "GPU hours per job", drawn.GPUHours/float64(drawn.Jobs), real.GPUHours/float64(real.Jobs), 0.2)
	for i, r := range real.Sizes {
		d := drawn.Sizes[i]
		t.Logf("%-4s share %.3f %.3f, GPU time %.3f %.3f, p10 %.0f %.0f, p50 %.0f %.0f, p90 %.0f %.0f, p99 %.0f %.0f, mean %.0f %.0f (trace, drawn)",
			r.Size, r.Share, d.Share, r.GPUTimeShare, d.GPUTimeShare, r.P10, d.P10, r.P50, d.P50, r.P90, d.P90, r.P99, d.P99, r.Mean, d.Mean)
		near(t, r.Size+" share", d.Share, r.Share, 0.1)
		near(t, r.Size+" GPU time", d.GPUTimeShare, r.GPUTimeShare, 0.25)
		near(t, r.Size+" p90", d.P90, r.P90, 0.4)
		near(t, r.Size+" mean", d.Mean, r.Mean, 0.35)
	}
	// Before October the trace has one job an hour.
	busy := &sim.Workload{Start: time.Date(2017, time.October, 3, 0, 0, 0, 0, time.UTC)}
	for _, w := range all.Work {
		if at := w.Submitted.Sub(busy.Start); at >= 0 && at < 74*24*time.Hour {
			busy.Work = append(busy.Work, w)
		}
	}
	a := Stats(busy).Arrivals
	t.Logf("gaps: cv %.2f %.2f, p50 %.0f %.0f s (trace in its busy days, drawn)", a.CV, drawn.Arrivals.CV, a.P50Gap, drawn.Arrivals.P50Gap)
	near(t, "cv of gaps", drawn.Arrivals.CV, a.CV, 0.3)

	shares := map[sched.TenantID]float64{}
	for _, x := range drawn.Tenants {
		shares[x.ID] = x.GPUTimeShare
	}
	for i, id := range phillyTraceIDs {
		for _, x := range real.Tenants {
			if string(x.ID) == id {
				t.Logf("%s %s: GPU time %.3f %.3f (trace, drawn)", vcName(i), id, x.GPUTimeShare, shares[vcName(i)])
			}
		}
	}
}

// phillyTraceIDs are the trace's names of phillyVCs.
var phillyTraceIDs = []string{"6214e9", "b436b2", "ee9e8c", "6c71a0", "0e4a51", "7f04ca", "11cb48", "2869ce", "e13805", "103959", "ed69ec"}

// Every public trace of a known format is detected and read without a bad row.
func TestReadPublic(t *testing.T) {
	if _, err := os.Stat(public); err != nil {
		t.Skip("no public traces here")
	}
	for pattern, format := range map[string]Format{
		"pollux/workloads*/*.csv":             Pollux,
		"tiresias/simulator/*job.csv":         Tiresias,
		"muri/*/trace-data/*.csv":             Tiresias,
		"gavel/scheduler/traces/*/*.trace":    Gavel,
		"gavel/scheduler/traces/*/*/*.trace":  Gavel,
		"shockwave/scheduler/traces/*/*trace": Gavel,
	} {
		names, err := filepath.Glob(filepath.Join(public, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			name, err := filepath.Rel(public, name)
			if err != nil {
				t.Fatal(err)
			}
			wl, report := readPublic(t, name, Options{})
			if report.Format != format || report.Skipped > 0 || len(wl.Work) != report.Rows {
				t.Errorf("%s: format %s, %d of %d rows are jobs; want %s and all", name, report.Format, len(wl.Work), report.Rows, format)
			}
		}
	}
}

// compareGavel: the durations found for Gavel's traces are those of the Philly
// jobs that they were made of.
func compareGavel(t *testing.T, jobs *sim.Workload) {
	type key struct {
		at   time.Duration
		gpus int
	}
	const vc = "ee9e8c"
	byKey := map[key][]time.Duration{}
	var first time.Time
	for i := range jobs.Work {
		w := &jobs.Work[i]
		if w.Tenant != vc {
			continue
		}
		if first.IsZero() {
			first = w.Submitted
		}
		k := key{w.Submitted.Sub(first), w.GPUs}
		byKey[k] = append(byKey[k], w.RunTime.D())
	}
	gavel, _ := readPublic(t, "gavel/scheduler/traces/msr/seed=0/"+vc+".trace", Options{})
	var same, found int
	for i := range gavel.Work {
		w := &gavel.Work[i]
		d := byKey[key{w.Submitted.Sub(Epoch), w.GPUs}]
		if len(d) != 1 {
			continue
		}
		found++
		if diff := (w.RunTime.D() - d[0]).Abs(); diff <= time.Second+d[0]/1000 {
			same++
		}
	}
	if found < 1500 || same < found*99/100 {
		t.Errorf("%d of %d durations agree; want nearly all of more than 1500", same, found)
	}
}
