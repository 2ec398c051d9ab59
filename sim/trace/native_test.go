// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// drawWork draws any job that the format can hold.
func drawWork(t *rapid.T, i int) sim.Work {
	name := rapid.StringOfN(rapid.Rune(), 0, 6, -1)
	span := rapid.Map(rapid.Int64Range(0, 1e15), func(n int64) sched.Duration { return sched.Duration(n) })
	some := rapid.IntRange(0, 1000)
	w := sim.Work{
		Spec: sched.Spec{
			ID:             sched.JobID(fmt.Sprintf("%d%s", i, name.Draw(t, "id"))),
			App:            sched.AppID(name.Draw(t, "app")),
			Tenant:         sched.TenantID(name.Draw(t, "tenant")),
			User:           name.Draw(t, "user"),
			Submitted:      Epoch.Add(time.Duration(rapid.Int64Range(0, 1e17).Draw(t, "submitted"))),
			GPUs:           rapid.IntRange(1, 1<<20).Draw(t, "gpus"),
			MilliGPU:       rapid.Int32Range(0, 1000).Draw(t, "milli"),
			Shareable:      rapid.Bool().Draw(t, "shareable"),
			GPUMemory:      rapid.Int64Range(0, 1<<60).Draw(t, "gpu memory"),
			CPUs:           some.Draw(t, "cpus"),
			Memory:         rapid.Int64Range(0, 1<<60).Draw(t, "memory"),
			MaxSpread:      sched.Level(rapid.IntRange(0, int(sched.CrossRack)).Draw(t, "widest")),
			Selector:       rapid.SampledFrom([]string{"", "fast-disk"}).Draw(t, "needs"),
			Priority:       rapid.Int().Draw(t, "priority"),
			NonPreemptible: rapid.Bool().Draw(t, "stays"),
			Model:          "m" + name.Draw(t, "model"),
			Consolidate:    rapid.Bool().Draw(t, "consolidate"),
			GPUUtil:        rapid.Float64Range(0, 1).Draw(t, "util"),
			Estimate:       span.Draw(t, "estimate"),
			Work:           rapid.Float64Range(0, 1e300).Draw(t, "work"),
			Batch:          sched.Batch{Initial: some.Draw(t, "initial"), Max: some.Draw(t, "max"), Adapt: rapid.Bool().Draw(t, "adapt")},
		},
		RunTime:   span.Draw(t, "run time"),
		BatchSize: some.Draw(t, "batch"),
		Outcome:   rapid.SampledFrom([]sched.Phase{0, sched.Finished, sched.Cancelled, sched.Failed}).Draw(t, "outcome"),
	}
	if rapid.Bool().Draw(t, "elastic") {
		w.MinGPUs, w.MaxGPUs, w.Sizes = 1, 64, slices.Compact([]int{1, max(1, w.GPUs)})
		w.MaxGPUs = max(w.MaxGPUs, w.GPUs)
	}
	least := 0
	if w.Outcome == sched.Failed {
		least = 1
	}
	for range rapid.IntRange(least, 3).Draw(t, "failures") {
		w.Failures = append(w.Failures, sim.Failure{Reason: name.Draw(t, "reason"), After: span.Draw(t, "after")})
	}
	return w
}

// What is written is read back as it was, and written again in the same bytes.
func TestNativeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wl := &sim.Workload{
			Name:    "n" + rapid.StringOfN(rapid.Rune(), 0, 6, -1).Draw(t, "name"),
			Source:  rapid.StringOfN(rapid.Rune(), 0, 6, -1).Draw(t, "source"),
			Start:   Epoch,
			Tenants: []sched.Tenant{{ID: "b", Quota: 4, Borrow: true}, {ID: "a", Weight: 0.5, Max: 9}},
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "jobs") {
			wl.Work = append(wl.Work, drawWork(t, i))
		}
		wl.Work = bySubmission(wl.Work)
		var first bytes.Buffer
		if err := Write(&first, wl); err != nil {
			t.Fatal(err)
		}
		got, report, err := Read(bytes.NewReader(first.Bytes()), Options{Name: "f"})
		if err != nil {
			t.Fatalf("%v in\n%s", err, first.String())
		}
		if diff := cmp.Diff(wl, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("workload (-written +read):\n%s", diff)
		}
		if report.Rows != len(wl.Work) || report.Jobs != len(wl.Work) {
			t.Fatalf("report = %+v; want %d jobs", report, len(wl.Work))
		}
		var second bytes.Buffer
		if err := Write(&second, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("second writing differs:\n%s\n%s", first.String(), second.String())
		}
	})
}

// The zone a time is held in does not reach the file.
func TestWriteInUTC(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	wl := &sim.Workload{Name: "z", Start: Epoch.In(zone)}
	wl.Work = []sim.Work{{Spec: sched.Spec{ID: "a", GPUs: 1, Submitted: Epoch.Add(time.Hour).In(zone)}, RunTime: sched.Duration(time.Minute)}}
	var out strings.Builder
	if err := Write(&out, wl); err != nil {
		t.Fatal(err)
	}
	want := `{"fairway":"workload","version":1,"name":"z","start":"2018-01-01T00:00:00Z"}
{"id":"a","submitted":"2018-01-01T01:00:00Z","gpus":1,"run_time":"1m"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	if wl.Start.Location() != zone {
		t.Error("Write changed the workload")
	}
}

// full fails every write, like a full disk.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	err := Write(full{}, &sim.Workload{Name: "w", Start: Epoch})
	if !errors.Is(err, errFull) || err.Error() != "write workload w: no space left" {
		t.Errorf("error = %v; want: write workload w: %v", err, errFull)
	}
}
