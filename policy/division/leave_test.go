// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestLeave divides random worlds among some of their jobs: the others stay where they
// are, or wait.
func TestLeave(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := policytest.Random(rt)
		p := policyOf(usual())
		for range rapid.IntRange(1, 4).Draw(rt, "decisions") {
			for range rapid.IntRange(1, 4).Draw(rt, "events") {
				w.Stir(rt)
			}
			talk(rt, w)
			s := w.State.Snapshot(w.Now)
			leave := make([]bool, len(s.Jobs))
			for i := range leave {
				leave[i] = rapid.Bool().Draw(rt, "leave")
			}
			p.Begin()
			plan := p.Divide(s, Rules{Apart: true, Leave: leave})
			for _, v := range sched.Check(s, plan) {
				rt.Errorf("%s", v)
			}
			for i, j := range s.Jobs {
				if leave[i] && j.Phase == sched.Pending && len(plan.Want[i]) > 0 {
					rt.Errorf("job %s, which is left alone, starts on %s", j.ID, plan.Want[i].Text(s.Cluster))
				}
				if leave[i] && j.Phase == sched.Running && !j.Placement.Shared() && !plan.Want[i].Equal(j.Placement) {
					rt.Errorf("job %s, which is left alone, goes from %s to %s", j.ID, j.Placement.Text(s.Cluster), plan.Want[i].Text(s.Cluster))
				}
			}
			if _, _, err := w.Decide(p); err != nil {
				rt.Fatal(err)
			}
		}
	})
}
