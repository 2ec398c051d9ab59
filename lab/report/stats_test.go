// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

func statistics(t *testing.T, kind string, jobs int) *trace.Statistics {
	t.Helper()
	wl, err := trace.Generate(trace.Gen{Kind: kind, Jobs: jobs, GPUs: 256, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return trace.Stats(wl)
}

func writeStats(t *testing.T, s *trace.Statistics) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteStats(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func statsOf(t *testing.T, html []byte) statsPageData { return dataOf[statsPageData](t, html) }

// statsPageData is what the tests read out of the data of a page.
type statsPageData struct {
	Name     string
	Jobs     int
	GPUHours *float64 `json:"gpu_hours"`
	Tenants  struct {
		Count int
		Quota float64
		List  []struct{ Name string }
	}
	Models struct {
		Count int
		List  []struct{ Name string }
	}
	Failures struct {
		Count   int
		Reasons []struct{ Name string }
	}
	Demand struct{ GPUs, Jobs []float64 }
}

func TestWriteStatsIsDeterministic(t *testing.T) {
	for _, kind := range trace.Kinds() {
		if !bytes.Equal(writeStats(t, statistics(t, kind, 1500)), writeStats(t, statistics(t, kind, 1500))) {
			t.Errorf("two pages of the same %s workload differ", kind)
		}
	}
}

func TestWriteStatsNeedsStatistics(t *testing.T) {
	if err := WriteStats(&bytes.Buffer{}, nil); err == nil {
		t.Error("WriteStats of nil succeeded; want an error")
	}
}

func TestWriteStatsIsSelfContained(t *testing.T) {
	checkSelfContained(t, writeStats(t, statistics(t, trace.KindPhilly, 500)))
}

func TestWriteStatsOfNothing(t *testing.T) {
	for name, s := range map[string]*trace.Statistics{"zero": {}, "no jobs": trace.Stats(&sim.Workload{})} {
		if got := statsOf(t, writeStats(t, s)); got.Jobs != 0 || got.GPUHours != nil {
			t.Errorf("%s: jobs = %d, gpu_hours = %v; want 0 and null", name, got.Jobs, got.GPUHours)
		}
	}
}

func TestWriteStatsKnowsNoRunTimes(t *testing.T) {
	s := statistics(t, trace.KindPollux, 200)
	if s.Unknown != s.Jobs {
		t.Fatalf("%d of %d jobs have no run time; want all for this test", s.Unknown, s.Jobs)
	}
	got := statsOf(t, writeStats(t, s))
	if got.GPUHours != nil || len(got.Demand.GPUs) > 0 {
		t.Errorf("gpu_hours = %v, %d steps of GPUs in use; want null and none", got.GPUHours, len(got.Demand.GPUs))
	}
	if len(got.Demand.Jobs) == 0 {
		t.Error("no steps of submitted jobs; want them")
	}
}

// hostileStats has hostile names, and more of everything than a page shows.
func hostileStats(t *testing.T) *trace.Statistics {
	s := statistics(t, trace.KindPhilly, 1000)
	s.Name, s.Source = hostile, hostile
	s.Tenants, s.Models, s.Failures.Reasons = nil, nil, nil
	for i := range 500 {
		s.Tenants = append(s.Tenants, trace.TenantStat{ID: sched.TenantID(fmt.Sprint(i, hostile)), Quota: 2, Jobs: 2, Share: 0.002, GPUTimeShare: 0.002})
		s.Models = append(s.Models, trace.ModelStat{Model: fmt.Sprint(i, hostile), Jobs: 2, Share: 0.002})
		s.Failures.Reasons = append(s.Failures.Reasons, trace.ReasonStat{Reason: fmt.Sprint(i, hostile), Trials: 1, Jobs: 1, P50: 5, P90: 5, P95: 5})
	}
	for i := range s.Sizes {
		s.Sizes[i].Size = hostile
	}
	return s
}

func TestWriteStatsEscapesNames(t *testing.T) {
	page := writeStats(t, hostileStats(t))
	checkEscaped(t, string(page))
	got := statsOf(t, page)
	for what, name := range map[string]string{
		"tenant": got.Tenants.List[7].Name, "model": got.Models.List[7].Name, "reason": got.Failures.Reasons[7].Name,
	} {
		if !strings.HasPrefix(name, "7</script><script>") {
			t.Errorf("%s 7 reads back as %q; want its name", what, name)
		}
	}
}

func TestWriteStatsBoundsLists(t *testing.T) {
	got := statsOf(t, writeStats(t, hostileStats(t)))
	if n := len(got.Tenants.List); n != maxList || got.Tenants.Count != 500 || got.Tenants.Quota != 1000 {
		t.Errorf("%d tenants shown of %d with a quota of %g; want %d, 500 and 1000", n, got.Tenants.Count, got.Tenants.Quota, maxList)
	}
	if n := len(got.Models.List); n != maxList || got.Models.Count != 500 {
		t.Errorf("%d models shown of %d; want %d of 500", n, got.Models.Count, maxList)
	}
	if n := len(got.Failures.Reasons); n != maxList || got.Failures.Count != 500 {
		t.Errorf("%d reasons shown of %d; want %d of 500", n, got.Failures.Count, maxList)
	}
}

// poison replaces every floating-point number within v.
func poison(v reflect.Value, next func() float64) {
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(next())
	case reflect.Struct:
		for i := range v.NumField() {
			poison(v.Field(i), next)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			poison(v.Index(i), next)
		}
	}
}

func TestWriteStatsHasNoNumbersThatJSONLacks(t *testing.T) {
	s := statistics(t, trace.KindPhilly, 2000)
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64}
	for shift := range bad {
		at := shift
		poison(reflect.ValueOf(s).Elem(), func() float64 { at++; return bad[at%len(bad)] })
		statsOf(t, writeStats(t, s)) // fails on what is no JSON
	}
}

func TestStatsFailures(t *testing.T) {
	got := newStatsFailures(&trace.FailureStat{Trials: 8, Jobs: 4, PerJob: 2, Reasons: []trace.ReasonStat{
		{Reason: "syntax error", Trials: 6, Jobs: 3, Users: 2, P50: 30, P90: 60, P95: 90, Share: 0.25, GPUTimeShare: 0.5, BySize: [3]int{1, 2, 3}},
		{Reason: "the moon", Trials: 2, Jobs: 1, P50: 10, P90: 20, P95: 20, Share: 0.75, GPUTimeShare: 0.5},
	}})
	want := statsFailures{Trials: 8, Jobs: 4, PerJob: 2, PaperPerJob: 2.3, Count: 2, Reasons: []statsReason{
		{
			Name: "syntax error", Trials: 6, Jobs: 3, Users: 2, BySize: [3]int{1, 2, 3},
			Measures: failing{Trials: 0.75, PerJob: 2, P50: 30, P90: 60, P95: 90, Time: 0.25, GPUTime: 0.5},
			// 1132 of 39776 trials by 883 jobs; 0.58, 5.02 and 12 minutes.
			Paper: &failing{Trials: 0.0284594, PerJob: 1.28199, P50: 34.8, P90: 301.2, P95: 720, Time: 0.0019, GPUTime: 0.0026},
		},
		{Name: "the moon", Trials: 2, Jobs: 1, Measures: failing{Trials: 0.25, PerJob: 2, P50: 10, P90: 20, P95: 20, Time: 0.75, GPUTime: 0.5}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestStatsOutcomesAndUtilStandBesideThePaper(t *testing.T) {
	outcomes := newStatsOutcomes([]trace.OutcomeStat{{Outcome: sched.Cancelled, Jobs: 3, Share: 0.3, GPUTimeShare: 0.4}}, knowledge{times: true})
	if diff := cmp.Diff([]statsOutcome{{Name: "killed", Jobs: 3, Share: 0.3, GPUTime: 0.4, PaperShare: 0.135, PaperGPUTime: 0.3769}}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	util := newStatsUtil([]trace.UtilStat{{GPUs: 8, Jobs: 2, Passed: 0.5, Failed: 0.25, All: 0.4}, {GPUs: 3, Jobs: 1, Passed: 1, Killed: 1, Failed: 1, All: 1}})
	want := []statsUtil{
		{GPUs: 8, Jobs: 2, Util: nums{0.5, math.NaN(), 0.25, 0.4}, Paper: nums{0.5109, 0.6063, 0.6434, 0.5899}},
		{GPUs: 3, Jobs: 1, Util: nums{1, 1, 1, 1}, Paper: nums{}},
	}
	nan := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) })
	if diff := cmp.Diff(want, util, nan); diff != "" {
		t.Errorf("utilisation (-want +got):\n%s", diff)
	}
}
