// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestTopology lets every policy, and some layers, decide in random worlds with domains
// and with jobs that require them.
func TestTopology(t *testing.T) {
	run := func(t *testing.T, spec string, promises policy.Promises) {
		rapid.Check(t, func(rt *rapid.T) {
			w := policytest.RandomTopology(rt)
			p := build(t, spec)
			for range rapid.IntRange(1, 6).Draw(rt, "decisions") {
				for range rapid.IntRange(1, 3).Draw(rt, "events") {
					w.Stir(rt)
				}
				s := w.State.Snapshot(w.Now)
				plan := p.Schedule(s)
				checkPlan(rt, s, plan)
				checkRules(rt, s, plan)
				if !strings.Contains(spec, "@") { // some layers remember what they tried
					checkPure(rt, spec, s, plan)
				}
				for i, j := range s.Jobs {
					if promises&policy.NeverPreempts != 0 && j.Phase == sched.Running && len(plan.Want[i]) == 0 {
						rt.Errorf("job %s was stopped by a policy that never preempts", j.ID)
					}
				}
				if _, _, err := w.Decide(p); err != nil {
					rt.Fatal(err)
				}
			}
		})
	}
	each(t, 0, run)
	for _, spec := range []string{"fifo@defrag", "las@defrag@reserve", "fairway@share", "srtf@screen"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			run(t, spec, 0)
		})
	}
}

// checkRules looks at the domain of every GPU of a job that starts, moves or changes,
// one by one and by name.
func checkRules(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	levels := s.Cluster.Levels()
	path := func(n *sched.Node, level string) string {
		var names []string
		for _, l := range levels {
			switch {
			case l == "machine":
				names = append(names, n.Name)
			default:
				for _, d := range n.Domains {
					if d.Level == l {
						names = append(names, d.Name)
					}
				}
			}
			if l == level {
				break
			}
		}
		return strings.Join(names, "/")
	}
	for i, j := range s.Jobs {
		want := plan.Want[i]
		if len(want) == 0 || want.Equal(j.Placement) || want.Equal(j.Suspended) {
			continue
		}
		for _, r := range j.Topology {
			if r.Required == "" {
				continue
			}
			var domains []string // by rank
			for _, slice := range want {
				n := &s.Cluster.Nodes[slice.Node]
				has := r.Required == "machine"
				for _, d := range n.Domains {
					has = has || d.Level == r.Required
				}
				if !has {
					t.Errorf("job %s is on node %s, which is in no %s", j.ID, n.Name, r.Required)
				}
				for range slice.GPUs.Len() {
					domains = append(domains, path(n, r.Required))
				}
			}
			for rank, d := range domains {
				first := 0
				if r.Segment > 0 {
					first = rank / r.Segment * r.Segment
				}
				if d != domains[first] {
					t.Errorf("job %s: %s; rank %d is in %s and rank %d in %s", j.ID, r, first, domains[first], rank, d)
				}
			}
		}
	}
}
