// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// queue is a cluster of four GPUs on which one job runs and others wait.
func queue(t testing.TB, waiting int) *sched.Snapshot {
	t.Helper()
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 4}})
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(c)
	apply := func(e sched.Event) {
		t.Helper()
		e.At = noon
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range waiting + 1 {
		apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: sched.JobID(fmt.Sprintf("j%d", i)), GPUs: 4, Submitted: noon}})
	}
	apply(sched.Event{Kind: sched.JobStarted, Job: "j0", Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(4)}}})
	return st.Frozen(noon)
}

func named(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hours draws between one and two hours.
func hours(r *rand.Rand) forecast.Left {
	return func(*sched.Job) (time.Duration, bool) {
		return time.Hour + time.Duration(r.Float64()*float64(time.Hour)), true
	}
}

func TestStarts(t *testing.T) {
	s := queue(t, 3)
	got, err := forecast.Starts(s, forecast.Config{Policy: named(t, "fifo"), Future: hours})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []sched.JobID{"j1", "j2", "j3"} {
		r, n := got[id], time.Duration(i+1)
		least, most := noon.Add(n*time.Hour), noon.Add(2*n*time.Hour)
		if r.Early.Before(least) || r.Late.After(most) || !r.Early.Before(r.Middle) || !r.Middle.Before(r.Late) {
			t.Errorf("%s starts at %s (%s to %s); want within %s and %s, in order", id, r.Middle, r.Early, r.Late, least, most)
		}
	}
	if one := got["j1"]; one.Late.Sub(one.Early) < 45*time.Minute || one.Middle.Sub(noon) < 75*time.Minute {
		t.Errorf("j1 starts at %s (%s to %s); want about 13:30, and most of the hour before 14:00", one.Middle, one.Early, one.Late)
	}
	again, _ := forecast.Starts(s, forecast.Config{Policy: named(t, "fifo"), Future: hours})
	if !reflect.DeepEqual(got, again) {
		t.Error("the same snapshot and seed give another forecast")
	}
	if s.Jobs[0].Phase != sched.Running || s.Jobs[1].Phase != sched.Pending {
		t.Error("the forecast has changed the snapshot")
	}
}

// TestUnknown: what cannot be known is left out, not made up.
func TestUnknown(t *testing.T) {
	stuck := func(r *rand.Rand) forecast.Left {
		return func(j *sched.Job) (time.Duration, bool) { return time.Hour, j.ID != "j1" }
	}
	got, err := forecast.Starts(queue(t, 3), forecast.Config{Policy: named(t, "fifo"), Future: stuck})
	if err != nil || got["j1"].Middle.IsZero() || len(got) != 1 {
		t.Errorf("starts %v, %v; want that of j1 alone: nobody knows when it ends", got, err)
	}
	got, err = forecast.Starts(queue(t, 50), forecast.Config{Policy: named(t, "fifo"), Future: hours, Most: 51 * forecast.Samples * 10})
	if _, far := got["j50"]; err != nil || far || got["j5"].Late.IsZero() {
		t.Errorf("%d starts, %v; want those of the first jobs, and no forecast beyond the bound", len(got), err)
	}
	got, err = forecast.Starts(queue(t, 3), forecast.Config{Policy: named(t, "fifo"), Future: hours, Stop: func() bool { return true }})
	if err != nil || len(got) != 0 {
		t.Errorf("stopped at once: %v, %v; want no forecast", got, err)
	}
}
