// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// salvaged counts, by kind, what became of records that were found behind damage.
type salvaged struct {
	back, left map[string]int
	notes      []string
}

func (s salvaged) String() string {
	text := fmt.Sprintf("%d records were intact behind the damage, and %d of them were brought back, with %d jobs",
		total(s.back)+total(s.left), total(s.back), s.back[sched.JobSubmitted.String()])
	if len(s.back) > 0 {
		text += " (" + counts(s.back) + ")"
	}
	if len(s.left) > 0 {
		text += "; not brought back: " + counts(s.left)
	}
	return strings.Join(append([]string{text}, s.notes...), "; ")
}

func total(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

// counts lists numbers by kind.
func counts(m map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// salvage brings back records that were found intact behind damage: jobs, how they
// ended or were paused, searches, the policy, cordons, tenants, tokens, bidders and
// epochs. These mean the same without the records that are missing before them.
// Starts and exits do not: attempts come back from their folders (Claim), and the
// policy decides anew. Nor do quarantines: the failures behind them are missing.
func (t *tx) salvage(found [][]byte) salvaged {
	s := salvaged{back: map[string]int{}, left: map[string]int{}}
	before := t.mem.Policy
	for _, payload := range found {
		var r api.Record
		if json.Unmarshal(payload, &r) != nil {
			s.left["unreadable"]++
			continue
		}
		kind := r.Kind()
		if r.Policy != "" {
			if _, err := t.store.buildPolicy(r.Policy); err != nil {
				s.notes = append(s.notes, fmt.Sprintf("the policy %.100q is not available", r.Policy))
				r.Policy = ""
			}
		}
		if !t.mem.wants(&r) || t.bringBack(&r) != nil {
			s.left[kind]++
			continue
		}
		s.back[kind]++
	}
	if t.mem.Policy != before {
		t.store.policy, _ = t.store.buildPolicy(t.mem.Policy) // it was built a moment ago
		s.notes = append(s.notes, "the policy is "+t.mem.Policy+" again")
	}
	s.notes = append(s.notes, t.endTorn()...)
	return s
}

// bringBack adds a record that was found behind damage. If a job has ended of which the
// submission to the scheduler is lost, it is submitted first: it must not run again.
func (t *tx) bringBack(r *api.Record) error {
	if x := t.mem.waiting[r.Job()]; x != nil && r.Event != nil && r.Event.Kind == sched.JobEnded {
		if err := t.submitHeld(x); err != nil {
			return err
		}
	}
	return t.add(*r)
}

// wants reports whether a record that was found behind damage adds something. It
// reduces the record of a node to what an administrator decided about it.
func (m *memory) wants(r *api.Record) bool {
	switch {
	case r.Search != nil:
		return m.wantsSearch(r.Search)
	case r.Event != nil:
	case r.Accepted != nil:
		return m.wantsJob(r, r.Accepted)
	case r.Epoch != nil:
		return m.epochIndex(r.Epoch.ID) < 0
	default:
		return r.Token != nil || r.Bidder != nil || r.Policy != ""
	}
	x := m.jobs[r.Job()]
	switch r.Event.Kind {
	case sched.TenantSet:
		return true
	case sched.NodeJoined:
		return m.wantsNode(r)
	case sched.JobSubmitted:
		return x != nil && x.Hold || r.Event.Spec != nil && m.wantsJob(r, r.Event.Spec)
	case sched.JobEnded, sched.JobHeld:
		return x != nil && !x.Job.Phase.Ended()
	}
	return false
}

// wantsJob reports whether a job is not known yet.
func (m *memory) wantsJob(r *api.Record, s *sched.Spec) bool {
	_, known := m.keys[keyOf(s.Tenant, r.Key)]
	return m.jobs[s.ID] == nil && r.Task != nil && (r.Key == "" || !known)
}

// wantsNode reports whether an administrator has cordoned or uncordoned a node. Of
// the node itself, what is known now counts.
func (m *memory) wantsNode(r *api.Record) bool {
	n := r.Event.Node
	if n == nil || !byPerson(r) || n.State == sched.Down {
		return false
	}
	if i, ok := m.state.Cluster().Node(n.Name); ok {
		now := m.state.Cluster().Nodes[i]
		now.State = n.State
		r.Event.Node = &now
	}
	return true
}

// wantsSearch reports whether a step of a search follows what is known of it.
func (m *memory) wantsSearch(n *api.SearchRecord) bool {
	s := m.searches[n.ID]
	if n.Spec != nil {
		return s == nil
	}
	if s == nil || s.Over() {
		return false
	}
	for i, p := range n.Propose {
		if p.Number != len(s.Trials)+i {
			s.torn = s.torn || p.Number > len(s.Trials)
			return false
		}
	}
	return true
}

// endTorn ends searches that have lost trials: the search would number others like
// them, and take their jobs for its own. It returns what it did.
func (t *tx) endTorn() (did []string) {
	for _, x := range t.mem.inOrder() {
		if s := t.mem.searches[x.Job.App]; s != nil && x.Key != "" {
			if _, trial := t.mem.trialOf(x); trial == nil {
				s.torn = true
			}
		}
	}
	for _, s := range slices.Clone(t.mem.Searches) {
		if !s.torn || s.Over() {
			continue
		}
		why := fmt.Sprintf("the journal has lost trials of search %s", s.ID)
		if t.add(api.Record{Search: &api.SearchRecord{ID: s.ID, Tenant: s.Tenant, State: api.Failed, Why: why}, Text: why}) == nil {
			did = append(did, why+": it has ended, its jobs go on, and it can be submitted again under another name")
		}
	}
	return did
}
