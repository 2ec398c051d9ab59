// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestEveryJobEnds plays random workloads to the end. Nothing may starve, no
// plan may be refused, and the number of decisions must be of the order of the
// number of things that happen and of attempts that are due.
func TestEveryJobEnds(t *testing.T) {
	for _, spec := range []string{"philly", "philly:relax=off", "philly:relax=at-once", "philly:gang_timeout=0s:back_off=0s", "philly:preempt_above=0", "philly:gather=true", "philly:gather=true:relax=off:preempt_above=0.5"} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(spec, "/", seed), func(t *testing.T) {
				w := randomWorld(t, seed)
				p := mustBuild(t, spec)
				decisions, ended := 0, 0
				err := w.Play(p, policytest.Start.Add(30*24*time.Hour), func(seen policytest.Seen) {
					if seen.Ended != "" {
						ended++
					} else {
						decisions++
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range w.State.Snapshot(w.Now).Jobs {
					t.Errorf("job %s (%d GPUs, tenant %q) has not ended: %s, note %+v", j.ID, j.GPUs, j.Tenant, j.Phase, j.Note)
				}
				if ended != jobs {
					t.Errorf("%d jobs have ended; want %d", ended, jobs)
				}
				// At most one for each arrival and end, and one for each tick of the
				// two days or so that the work takes.
				if most := 2*jobs + 2*24*120; decisions > most {
					t.Errorf("%d decisions; want at most %d", decisions, most)
				}
			})
		}
	}
}

const jobs = 50

// randomWorld has 4 servers in 2 domains, 3 virtual clusters (one may not
// borrow) and jobs of 1 to 16 GPUs, some of them of no declared tenant.
func randomWorld(t *testing.T, seed uint64) *policytest.World {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var nodes []sched.Node
	for i := range 4 {
		nodes = append(nodes, sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, CPUs: 64, Rack: fmt.Sprint("r", i/2)})
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []sched.Tenant{
		{ID: "a", Quota: 16, Borrow: true}, {ID: "b", Quota: 8, Borrow: true}, {ID: "c", Quota: 8},
	} {
		if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &tenant}); err != nil {
			t.Fatal(err)
		}
	}
	at := policytest.Start
	for i := range jobs {
		at = at.Add(time.Duration(rng.IntN(600)) * time.Second)
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("j", i)), Submitted: at,
			Tenant: sched.TenantID([]string{"a", "b", "c", "none"}[rng.IntN(4)]),
			GPUs:   []int{1, 1, 2, 4, 8, 3}[rng.IntN(6)], CPUs: rng.IntN(9),
			NonPreemptible: rng.IntN(8) == 0, Priority: rng.IntN(2),
		}
		if spec.Tenant != "c" && rng.IntN(6) == 0 {
			spec.GPUs = 16
		}
		// Beyond its tenant's guarantee a job that cannot be preempted never starts.
		spec.NonPreemptible = spec.NonPreemptible && spec.Tenant != "none" && spec.GPUs <= 8
		w.Arrivals = append(w.Arrivals, spec)
		w.Length[spec.ID] = time.Duration(rng.IntN(7200)+60) * time.Second
	}
	return w
}

func mustBuild(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
