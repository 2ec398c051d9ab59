// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package carbyne

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/filling"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func TestFairGPUs(t *testing.T) {
	for _, c := range []struct {
		weights, demands []float64
		want             []float64
	}{
		{[]float64{1, 1}, []float64{8, 8}, []float64{4, 4}},
		{[]float64{1, 3}, []float64{8, 8}, []float64{2, 6}},
		{[]float64{1, 1, 1}, []float64{1, 8, 8}, []float64{1, 3.5, 3.5}},
		{[]float64{1, 1}, []float64{1, 2}, []float64{1, 2}},
	} {
		var parties []*filling.Party
		for i, w := range c.weights {
			parties = append(parties, &filling.Party{Weight: w, Demand: c.demands[i]})
		}
		if diff := cmp.Diff(c.want, fairGPUs(parties, 8)); diff != "" {
			t.Errorf("weights %v, demands %v (-want +got):\n%s", c.weights, c.demands, diff)
		}
	}
}

// TestPromisesAreKept: tenants with rigid jobs, all there from the start, with
// true estimates and sizes that waste nothing. Who gave up GPUs ends when it was
// promised, or at most a lease later, since others keep theirs that long.
func TestPromisesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8}})
		if err != nil {
			t.Fatal(err)
		}
		ends := map[sched.JobID]time.Time{}
		total := time.Duration(0)
		for i := range rapid.IntRange(1, 6).Draw(t, "tenants") {
			id := sched.JobID(fmt.Sprint("j", i))
			length := time.Duration(rapid.IntRange(1, 120).Draw(t, "minutes")) * time.Minute
			spec := sched.Spec{ID: id, Tenant: sched.TenantID(id), GPUs: 8, Estimate: sched.Duration(length)}
			if err := w.Submit(spec, length); err != nil {
				t.Fatal(err)
			}
			total += length
		}
		p, err := New(Default())
		if err != nil {
			t.Fatal(err)
		}
		err = w.Play(p, policytest.Start.Add(total+time.Hour), func(seen policytest.Seen) {
			if seen.Ended == "" {
				for _, j := range w.State.Snapshot(w.Now).Jobs {
					ends[j.ID] = j.Submitted.Add(time.Duration(j.Note.Count) * time.Second)
				}
				return
			}
			// The share of a job that is alone with n-1 others is an n-th: all of it
			// is used, so that the last of them ends just when promised.
			late := Default().Lease.D() + time.Duration(math.Ceil(0.1*float64(total)))
			if end, ok := ends[seen.Ended]; ok && seen.At.After(end.Add(late)) {
				t.Errorf("job %s was promised %s and ended at %s", seen.Ended, end.Sub(policytest.Start), seen.At.Sub(policytest.Start))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if left := w.State.Jobs(); left > 0 {
			t.Errorf("%d jobs have not ended", left)
		}
	})
}

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.By = "team" }, `by = "team"; want tenant, user or app`},
		{func(c *Config) { c.Margin = -1 }, "margin = -1; want 0 to 10"},
		{func(c *Config) { c.Lease = 0 }, "lease = 0s; want 1s or more"},
	} {
		config := Default()
		c.change(&config)
		if _, err := New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}
