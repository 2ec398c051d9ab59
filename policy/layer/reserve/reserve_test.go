// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package reserve_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func build(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSpec(t *testing.T) {
	for _, spec := range []string{"fifo@reserve", "las:lease=1h@reserve:gpus=32:most=1:tolerance=2"} {
		if got := fmt.Sprint(build(t, spec)); got != spec {
			t.Errorf("%s prints as %s", spec, got)
		}
	}
	for _, bad := range []string{"gpus=0", "after=-1s", "part=-1", "share=2", "most=101", "tolerance=0.5", "slack=-1", "unknown=0s"} {
		if _, err := policy.Builtin().New("fifo@reserve:" + bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// inner are policies of every kind: with and without preemption, with notes, with
// shared GPUs, elastic jobs, tenants and apps.
var inner = []string{
	"fifo", "fifo:backfill", "fifo:greedy", "fifo:greedy:placement=ladder", "philly", "las", "tiresias", "srtf", "drf",
	"gandiva", "antman", "themis", "pollux", "quincy", "fifo:greedy@share", "fifo:greedy@reserve:gpus=1",
}

// TestLegal lets the layer decide over many policies in random worlds: every plan
// is legal, and the same snapshot gives the same plan twice. (Two reservation
// layers, the lower of which is asked twice each time, need not agree on which of
// two places that are as good was reserved.)
func TestLegal(t *testing.T) {
	for _, spec := range inner {
		t.Run(spec, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				p := build(t, spec+"@reserve:gpus=2:after=1s:most=3")
				for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						w.Stir(rt)
					}
					s := w.State.Snapshot(w.Now)
					plan := p.Schedule(s)
					for _, v := range sched.Check(s, plan) {
						rt.Errorf("%s", v)
					}
					if again := p.Schedule(s); !strings.Contains(spec, "@reserve") && !reflect.DeepEqual(again.Want, plan.Want) {
						rt.Errorf("the same snapshot gave another plan:\n%v\n%v", plan.Want, again.Want)
					}
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
			})
		})
	}
}

// TestNoStarvation lets small jobs come for ever. Policies that let anybody
// overtake starve a gang as large as the cluster; with the layer it runs once
// those that run when it gets its reservation have ended, even if they all say
// that they take a third of what they do.
func TestNoStarvation(t *testing.T) {
	for _, c := range []struct {
		spec     string
		estimate time.Duration
		starves  bool
	}{
		{"fifo:greedy", 15 * time.Minute, true},
		{"philly", 15 * time.Minute, true},
		{"srtf:preempt=false", 15 * time.Minute, true},
		{"fifo:greedy@reserve", 15 * time.Minute, false},
		{"philly@reserve", 15 * time.Minute, false},
		{"srtf:preempt=false@reserve", 15 * time.Minute, false},
		{"fifo:greedy@reserve", 5 * time.Minute, false},
		{"fifo:greedy@reserve", 0, false},
	} {
		t.Run(fmt.Sprint(c.spec, " ", c.estimate), func(t *testing.T) {
			w := crowd(t, c.estimate)
			if err := w.Submit(sched.Spec{ID: "gang", Tenant: "g", GPUs: 8, Estimate: sched.Duration(time.Hour)}, time.Hour); err != nil {
				t.Fatal(err)
			}
			if err := w.Play(build(t, c.spec), w.Now.Add(45*time.Minute), nil); err != nil {
				t.Fatal(err)
			}
			if j, ok := w.State.Job("gang"); !ok || (j.Starts == 0) != c.starves {
				t.Errorf("after 45 minutes the gang is %s; want it to starve: %t", j.Phase, c.starves)
			}
		})
	}
}

// crowd returns a world of eight GPUs with a stream of small jobs of a quarter of
// an hour: one more comes every minute, where one ends every two.
func crowd(t *testing.T, estimate time.Duration) *policytest.World {
	t.Helper()
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8}})
	if err != nil {
		t.Fatal(err)
	}
	const length = 15 * time.Minute
	for i := range 120 {
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("s", i)), Tenant: sched.TenantID(fmt.Sprint("t", i%2)), GPUs: 1,
			Estimate: sched.Duration(estimate), Submitted: w.Now.Add(max(0, time.Duration(i-8)*time.Minute)),
		}
		if i < 8 {
			// They end one by one.
			if err := w.Submit(spec, time.Duration(i+1)*2*time.Minute); err != nil {
				t.Fatal(err)
			}
			continue
		}
		w.Length[spec.ID] = length
		w.Arrivals = append(w.Arrivals, spec)
	}
	return w
}

// TestPromiseHolds: with right estimates nobody who is backfilled delays a gang
// beyond the time it was first given.
func TestPromiseHolds(t *testing.T) {
	backfilled := 0
	rapid.Check(t, func(t *rapid.T) {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 4}, {Name: "n1", GPUs: 4}, {Name: "n2", GPUs: 4}})
		if err != nil {
			t.Fatal(err)
		}
		at := policytest.Start
		for i := range rapid.IntRange(5, 40).Draw(t, "jobs") {
			length := time.Duration(rapid.IntRange(1, 60).Draw(t, "minutes")) * time.Minute
			at = at.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "apart")) * time.Minute)
			spec := sched.Spec{
				ID: sched.JobID(fmt.Sprint("j", i)), GPUs: rapid.SampledFrom([]int{1, 1, 2, 3, 8}).Draw(t, "gpus"),
				Estimate: sched.Duration(length), Submitted: at,
			}
			w.Arrivals = append(w.Arrivals, spec)
			w.Length[spec.ID] = length
		}
		p, err := policy.Builtin().New("fifo:greedy@reserve:gpus=8:share=0:after=0s:most=1:tolerance=1")
		if err != nil {
			t.Fatal(err)
		}
		promised := map[sched.JobID]time.Time{}
		err = w.Play(p, at.Add(72*time.Hour), func(seen policytest.Seen) {
			for _, a := range seen.Actions {
				if until, ok := promised[a.Job.ID]; ok && seen.At.After(until) {
					t.Errorf("job %s starts at %s; it was given %s", a.Job.ID, seen.At, until)
				}
				if len(promised) > 0 && a.Job.GPUs < 8 {
					backfilled++
				}
			}
			for i, j := range w.State.Snapshot(seen.At).Jobs {
				if seen.Ended != "" || len(seen.Plan.Want[i]) > 0 || seen.Plan.Why[i].Until.IsZero() {
					continue
				}
				if _, ok := promised[j.ID]; !ok {
					promised[j.ID] = seen.Plan.Why[i].Until
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.State.Jobs(); n > 0 {
			t.Errorf("%d jobs have not ended", n)
		}
	})
	if backfilled == 0 {
		t.Error("nobody was ever backfilled: the test has no force")
	}
}
