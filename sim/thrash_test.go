// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// seesaw is a policy that lets two jobs take turns too short to get anywhere.
type seesaw struct{ turn int }

func (p *seesaw) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	p.turn++
	for i, j := range s.Jobs {
		if i == p.turn%len(s.Jobs) {
			plan.Want[i] = sched.Placement{on(0, 0b1, 1000)}
		} else {
			plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs}
		}
	}
	plan.Wake = s.Now.Add(time.Minute) // a restart takes 62 s
	return plan
}

func TestARunThatGetsNowhereEnds(t *testing.T) {
	c := config(t, "1x1", "fifo")
	c.Policy = &seesaw{}
	_, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start, Work: []sim.Work{
		job("a", 1, 0, 2*time.Hour), job("b", 1, 0, 2*time.Hour)}})
	if err == nil || !strings.Contains(err.Error(), "no job arrived or ended") {
		t.Errorf("error %v, want one about no progress", err)
	}
}
