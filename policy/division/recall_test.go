// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math/rand/v2"
	"testing"
)

// In this scene a job does best to keep what it holds on three nodes, and three
// others have to share what is left. Shakes alone do not find that.
func TestRecall(t *testing.T) {
	t.Parallel()
	s := random(t, rand.New(rand.NewPCG(0x7f04532bb62, 4)), chaos{nodes: 4, jobs: 5, mixed: true})
	compare(t, s, -1, "a job across three nodes")
	p := s.problem(usual())
	if rows := (fast{1}).search(p); !rows[0].same(p.jobs[0].held) {
		t.Errorf("job %s has %v, want what it holds: %v", p.jobs[0].ID, rows[0], p.jobs[0].held)
	}
}
