// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// salvaged counts what became of records that were found behind damage.
type salvaged struct{ back, jobs, left int }

func (s salvaged) String() string {
	return fmt.Sprintf("of %d intact records behind the damage %d were brought back, %d jobs among them", s.back+s.left, s.back, s.jobs)
}

// salvage brings back records that were found intact behind damage: jobs, how they
// ended or were paused, tenants, tokens and epochs. These mean the same without the
// records that are missing before them. Starts and exits do not: attempts come back
// from their folders (Claim), and the policy decides anew.
func (t *tx) salvage(found [][]byte) (s salvaged) {
	for _, payload := range found {
		var r api.Record
		if json.Unmarshal(payload, &r) != nil || !t.mem.wants(&r) {
			s.left++
			continue
		}
		r.Policy = "" // a new journal names it beside its epoch; it may have changed since
		if t.add(r) != nil {
			s.left++
			continue
		}
		s.back++
		if r.Event != nil && r.Event.Kind == sched.JobSubmitted {
			s.jobs++
		}
	}
	return s
}

// wants reports whether a record that was found behind damage adds something.
func (m *memory) wants(r *api.Record) bool {
	if r.Event == nil {
		return r.Token != nil || r.Epoch != nil && m.epochIndex(r.Epoch.ID) < 0
	}
	x := m.jobs[r.Job()]
	switch r.Event.Kind {
	case sched.TenantSet:
		return true
	case sched.JobSubmitted:
		if r.Event.Spec == nil {
			return false
		}
		_, known := m.keys[keyOf(r.Event.Spec.Tenant, r.Key)]
		return x == nil && r.Task != nil && (r.Key == "" || !known)
	case sched.JobEnded, sched.JobHeld:
		return x != nil && !x.Job.Phase.Ended()
	}
	return false
}
