// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

func minutesOf(n float64) sched.Duration { return sched.Duration(n * float64(time.Minute)) }

// small is a workload whose statistics can be worked out by hand.
func small() *sim.Workload {
	job := func(id, tenant, user string, at float64, gpus int, run float64) sim.Work {
		return sim.Work{
			Spec: sched.Spec{ID: sched.JobID(id), Tenant: sched.TenantID(tenant), User: user,
				Submitted: Epoch.Add(minutesOf(at).D()), GPUs: gpus},
			RunTime: minutesOf(run),
		}
	}
	a := job("a", "t1", "ann", 0, 1, 60)
	a.GPUUtil = 0.5
	b := job("b", "t1", "ben", 10, 4, 30)
	b.Outcome = sched.Cancelled
	b.GPUUtil = 0.25
	c := job("c", "t2", "ann", 20, 8, 100)
	c.Outcome = sched.Failed
	c.Failures = []sim.Failure{{Reason: "syntax error", After: minutesOf(3)}, {Reason: "syntax error", After: minutesOf(6)}}
	d := job("d", "t2", "cat", 90, 16, 45)
	d.Failures = []sim.Failure{{Reason: "GPU on fire", After: minutesOf(15)}}
	e := job("e", "", "", 90, 1, 0) // trains its model to the end
	e.Model = "ncf"
	return &sim.Workload{Name: "small", Source: "by hand", Start: Epoch,
		Tenants: []sched.Tenant{{ID: "t1", Quota: 4}, {ID: "t2"}, {ID: "t3"}}, Work: []sim.Work{a, b, c, d, e}}
}

func TestStats(t *testing.T) {
	s := Stats(small())
	// GPU minutes: a 60, b 120, c 8 x 9 = 72, d 16 x 60 = 960; 1212 in all.
	want := &Statistics{
		Name: "small", Source: "by hand", Jobs: 5, Apps: 5, Users: 3, Unknown: 1, Span: 90 * 60, GPUHours: 1212.0 / 60,
		Sizes: []SizeStat{
			{Size: "1", Jobs: 2, Share: 0.4, GPUTimeShare: 60.0 / 1212, Mean: 3600, P10: 3600, P50: 3600, P90: 3600, P95: 3600, P99: 3600,
				CDF: []CDFPoint{{3600, 1}}, Exact: []ExactSize{{1, 2}}},
			{Size: "2-4", Jobs: 1, Share: 0.2, GPUTimeShare: 120.0 / 1212, Mean: 1800, P10: 1800, P50: 1800, P90: 1800, P95: 1800, P99: 1800,
				CDF: []CDFPoint{{1800, 1}}, Exact: []ExactSize{{4, 1}}},
			{Size: "5-8", Jobs: 1, Share: 0.2, GPUTimeShare: 72.0 / 1212, Mean: 540, P10: 540, P50: 540, P90: 540, P95: 540, P99: 540,
				CDF: []CDFPoint{{540, 1}}, Exact: []ExactSize{{8, 1}}},
			{Size: ">8", Jobs: 1, Share: 0.2, GPUTimeShare: 960.0 / 1212, Mean: 3600, P10: 3600, P50: 3600, P90: 3600, P95: 3600, P99: 3600,
				CDF: []CDFPoint{{3600, 1}}, Exact: []ExactSize{{16, 1}}},
		},
		Arrivals: ArrivalStat{MeanGap: 1350, P50Gap: 600, P90Gap: 600 + 0.7*3600, CV: math.Sqrt(2767500) / 1350},
		Demand: DemandSeries{Step: 3600, Mean: (4.2 + 8) / 2, Peak: 8, Points: []DemandPoint{
			{T: 0, Jobs: 3, Submitted: 13, GPUs: 1 + 2 + 1.2},
			{T: 3600, Jobs: 2, Submitted: 17, GPUs: 8},
		}},
		Tenants: []TenantStat{
			{ID: "t2", Jobs: 2, Users: 2, Share: 0.4, GPUTimeShare: 1032.0 / 1212},
			{ID: "t1", Quota: 4, Jobs: 2, Users: 2, Share: 0.4, GPUTimeShare: 180.0 / 1212},
			{ID: "t3"},
		},
		Models: []ModelStat{{"ncf", 1, 0.2}},
		Outcomes: []OutcomeStat{
			{sched.Finished, 3, 0.6, 1020.0 / 1212},
			{sched.Cancelled, 1, 0.2, 120.0 / 1212},
			{sched.Failed, 1, 0.2, 72.0 / 1212},
		},
		Util: []UtilStat{
			{GPUs: 1, Jobs: 1, Passed: 0.5, All: 0.5},
			{GPUs: 4, Jobs: 1, Killed: 0.25, All: 0.25},
			{GPUs: 8}, {GPUs: 16},
			{GPUs: 0, Jobs: 2, Passed: 0.5, Killed: 0.25, All: (60*0.5 + 120*0.25) / 180},
		},
		Failures: FailureStat{Trials: 3, Jobs: 2, PerJob: 1.5, Reasons: []ReasonStat{
			{Reason: "syntax error", Trials: 2, Jobs: 1, Users: 1, P50: 270, P90: 342, P95: 351, Share: 9.0 / 24, GPUTimeShare: 72.0 / 312, BySize: [3]int{0, 0, 2}},
			{Reason: "GPU on fire", Trials: 1, Jobs: 1, Users: 1, P50: 900, P90: 900, P95: 900, Share: 15.0 / 24, GPUTimeShare: 240.0 / 312, BySize: [3]int{0, 0, 1}},
		}},
	}
	want.Arrivals.ByHour[0], want.Arrivals.ByHour[1] = 0.6, 0.4
	want.Arrivals.ByDay[0] = 1
	if diff := cmp.Diff(want, s, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}

func TestStatsOfNothing(t *testing.T) {
	s := Stats(&sim.Workload{Name: "empty", Start: Epoch})
	var out strings.Builder
	if err := s.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "NaN") {
		t.Errorf("statistics of nothing have NaN:\n%s", out.String())
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	if err := Stats(small()).Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `small
by hand
5 jobs in 5 apps by 3 users, submitted within 1.5h, 20 GPU hours
1 jobs train their model to the end; their run time is not known here

Size
  GPUs  jobs  share            GPU time
  1        2  40.0%  ████████      5.0%  █
  2-4      1  20.0%  ████          9.9%  ██
  5-8      1  20.0%  ████          5.9%  █▎
  >8       1  20.0%  ████         79.2%  ███████████████▉

Run time, all attempts
  GPUs    p10    p50    p90    p95    p99   mean  10s to 60d
  1      1.0h   1.0h   1.0h   1.0h   1.0h   1.0h  ▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁
  2-4   30.0m  30.0m  30.0m  30.0m  30.0m  30.0m  ▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁
  5-8    9.0m   9.0m   9.0m   9.0m   9.0m   9.0m  ▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁▁
  >8     1.0h   1.0h   1.0h   1.0h   1.0h   1.0h  ▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁

Submissions
  gap   mean    p50    p90    cv  by hour of day            Mon to Sun
       22.5m  10.0m  52.0m  1.23  █▆▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  █▁▁▁▁▁▁

Demand, steps of 1.0h
  demand over time
  GPUs submitted       ▆█
  GPUs needed at once  ▅█
if no job ever waited: 6 GPUs in the mean, 8 at the peak

Tenants
  tenant  quota  users  jobs  share  GPU time
  t2          0      2     2  40.0%     85.1%  █████████████████
  t1          4      2     2  40.0%     14.9%  ███
  t3          0      0     0   0.0%      0.0%

Models
  model  jobs  share
  ncf       1  20.0%  ████

Outcomes (paper: Philly, table 6)
  outcome       jobs  share  paper  GPU time  paper
  passed           3  60.0%  69.3%     84.2%  44.5%
  killed           1  20.0%  13.5%      9.9%  37.7%
  unsuccessful     1  20.0%  17.2%      5.9%  17.8%

Utilisation of held GPUs (paper: Philly, table 3)
  GPUs  passed  paper  killed  paper  unsuccessful  paper    all  paper
  1      50.0%  53.5%       -  37.0%             -  62.8%  50.0%  52.4%
  4          -  51.1%   25.0%  34.4%             -  51.0%  25.0%  45.2%
  8          -  51.1%       -  60.6%             -  64.3%      -  59.0%
  16         -  44.9%       -  37.0%             -  39.0%      -  40.4%
  all    50.0%  52.4%   25.0%  43.0%             -  60.4%  33.3%  52.3%

Failures, minutes to failure (paper: Philly, table 7; its trials scaled to the same sum)
  reason        trials  paper  jobs    p50  paper    p90  paper    p95  paper  of time  paper  1 GPU  2-4  >4
  syntax error       2      0     1   4.50   0.58   5.70   5.02   5.85  12.00    37.5%   0.2%      0    0   2
  GPU on fire        1            1  15.00         15.00         15.00           62.5%             0    0   1
3 failed attempts of 2 jobs: 1.50 for each job that fails (paper: 2.3)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if err := Stats(small()).Print(full{}); !errors.Is(err, errFull) {
		t.Errorf("error = %v; want %v", err, errFull)
	}
}

// The demand, booked in whole steps and parts of steps, is what a sum over
// every job and step gives.
func TestDemandAgainstSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wl := &sim.Workload{Start: Epoch}
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			w := sim.Work{RunTime: minutesOf(float64(rapid.IntRange(1, 1500).Draw(t, "run")))}
			w.GPUs = rapid.IntRange(1, 9).Draw(t, "gpus")
			w.Submitted = Epoch.Add(minutesOf(float64(rapid.IntRange(0, 1500).Draw(t, "at"))).D())
			wl.Work = append(wl.Work, w)
		}
		d := demandSeries(wl)
		for _, p := range d.Points {
			var want float64
			for i := range wl.Work {
				w := &wl.Work[i]
				from := w.Submitted.Sub(Epoch).Seconds()
				to := from + w.RunTime.D().Seconds()
				if in := min(to, p.T+d.Step) - max(from, p.T); in > 0 {
					want += in / d.Step * float64(w.GPUs)
				}
			}
			if math.Abs(p.GPUs-want) > 1e-6 {
				t.Fatalf("step at %g s: %g GPUs; want %g", p.T, p.GPUs, want)
			}
		}
	})
}

// A long workload has longer steps, not more points.
func TestDemandIsThinned(t *testing.T) {
	wl := small()
	wl.Work[4].Submitted = Epoch.Add(2000 * 24 * time.Hour)
	d := demandSeries(wl)
	if len(d.Points) > maxDemand || d.Step != (48*time.Hour).Seconds() {
		t.Errorf("%d points of %g s; want at most %d of two days", len(d.Points), d.Step, maxDemand)
	}
}

func TestCDFIsThinned(t *testing.T) {
	values := make([]float64, 10000)
	for i := range values {
		values[i] = float64(i / 10)
	}
	c := cdf(values)
	if len(c) > cdfPoints || c[0].X != 0 || c[len(c)-1] != (CDFPoint{999, 1}) {
		t.Errorf("%d points from %v to %v; want at most %d, ending at 999, 1", len(c), c[0], c[len(c)-1], cdfPoints)
	}
	for i := 1; i < len(c); i++ {
		if c[i].X <= c[i-1].X || c[i].P <= c[i-1].P {
			t.Fatalf("point %d, %v, follows %v", i, c[i], c[i-1])
		}
	}
}

func TestBar(t *testing.T) {
	for share, want := range map[float64]string{0: "", 0.001: "▏", 0.05: "█", 0.075: "█▌", 1: strings.Repeat("█", 20), 7: strings.Repeat("█", 20)} {
		if got := bar(share); got != want {
			t.Errorf("bar(%g) = %q; want %q", share, got, want)
		}
	}
}
