// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// judge fills in what a new job's tenant and kind decide about it, and refuses it
// if it asks for more than its tenant may, or can never run here.
func (t *tx) judge(who api.Identity, s *api.Submission) (can sched.Ability, err error) {
	tenant := t.mem.tenant(s.Tenant)
	s.TimeLimit = cmp.Or(s.TimeLimit, tenant.TimeLimit, tenant.MaxTimeLimit)
	if who.Role != api.Admin {
		if err := keepsTo(tenant, s); err != nil {
			return 0, err
		}
	}
	if err := t.store.knowsLevels(s.Topology); err != nil {
		return 0, err
	}
	if err := t.mem.keepPlanned(s); err != nil {
		return 0, err
	}
	can = t.protect(s)
	if s.WaitForCapacity || !t.store.FixedNodes {
		return can, nil
	}
	j := &sched.Job{Spec: s.Spec, Status: sched.Status{Can: can}}
	j.Suspends = t.mem.state.Cluster().Suspends(j, t.now)
	return can, t.mem.possible(tenant, j)
}

// knowsLevels refuses a rule about a level that is not there: a name that nobody uses
// is a slip, and would wait for ever.
func (b *Store) knowsLevels(rules []sched.Rule) error {
	levels := b.Levels
	if levels == nil {
		levels = sched.Levels()
	}
	for i, r := range rules {
		field := "required"
		if r.Required == "" {
			field = "preferred"
		}
		if name := cmp.Or(r.Required, r.Preferred); !slices.Contains(levels, name) {
			return api.Errorf(api.Invalid, "is %q, which is no level of this cluster's topology", name).On(fmt.Sprintf("topology[%d].%s", i, field)).
				Try("use one of " + strings.Join(levels, ", "))
		}
	}
	return nil
}

// keepsTo says which of the tenant's terms a job does not keep to, if any.
func keepsTo(t sched.Tenant, s *api.Submission) error {
	change := func(flag string) string {
		return fmt.Sprintf("ask an admin to allow it: fairway tenants set %s --%s", t.ID, flag)
	}
	switch {
	case s.Priority > t.MaxPriority:
		return api.Errorf(api.Denied, "is %d; jobs of tenant %s may have at most %d", s.Priority, t.ID, t.MaxPriority).On("priority").
			Try(fmt.Sprintf("use %d, or %s", t.MaxPriority, change(fmt.Sprintf("max-priority %d", s.Priority))))
	case s.NonPreemptible && !t.NonPreemptible:
		field, value := "non_preemptible", true
		if s.Preemptible != nil {
			field, value = "preemptible", false
		}
		return api.Errorf(api.Denied, "is %v; jobs of tenant %s have to make room once they can save their work", value, t.ID).On(field).
			Try("leave it out, or " + change("non-preemptible"))
	case t.MaxTimeLimit > 0 && s.TimeLimit > t.MaxTimeLimit:
		return api.Errorf(api.Denied, "is %s; jobs of tenant %s may run for at most %s", s.TimeLimit, t.ID, t.MaxTimeLimit).On("time_limit").
			Try(fmt.Sprintf("use %s, or %s", t.MaxTimeLimit, change("max-time-limit "+s.TimeLimit.String())))
	}
	return nil
}

// possible says why a job can never run on the nodes there are, however long it
// waits, and what could instead.
func (m *memory) possible(tenant sched.Tenant, j *sched.Job) error {
	const wait = "wait for more with --wait-for-capacity (wait_for_capacity: true)"
	var nodes []sched.Node
	most := 0
	for _, n := range m.state.Cluster().Nodes {
		if n.State == sched.Down {
			continue
		}
		nodes = append(nodes, n)
		if j.Suits(&n) {
			most += holds(j, &n)
		}
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		return err
	}
	if need := strings.TrimPrefix(unmetNeed(j, c), "; "); need != "" {
		return api.Errorf(api.Invalid, "the job can never run here: %s", need).Try("ask for what there is, or " + wait)
	}
	least := j.NextSize(0)
	if least > most {
		remedy := fmt.Sprintf("ask for %d GPU%s", most, plural(most))
		if most == 0 {
			remedy = "ask for what there is"
		}
		return api.Errorf(api.Invalid, "the job can never run here: it needs %d GPU%s, and there are %d that it could use", least, plural(least), most).On("gpus").Try(remedy + ", or " + wait)
	}
	limit, what := m.limit(tenant, j)*sched.WholeGPU, "may hold"
	if own := m.guarantee(tenant); j.Pinned() && own < limit {
		limit, what = own, "may use, for jobs that cannot be preempted,"
	}
	if least*int(j.Milli()) <= limit {
		return nil
	}
	var remedies []string
	if fits := limit / int(j.Milli()); fits > 0 {
		remedies = append(remedies, fmt.Sprintf("ask for %d", fits))
	}
	if j.Pinned() && !j.NonPreemptible {
		remedies = append(remedies, "set preemptible: true if the job can be stopped")
	}
	return api.Errorf(api.Invalid, "the job can never run here: it needs %d GPU%s, and tenant %s %s %g%s", least, plural(least), tenant.ID, what, float64(limit)/sched.WholeGPU, boundsHeld(m.state.Peek(), indexOf(m.state.Peek(), tenant.ID), j)).
		On("gpus").Try(strings.Join(append(remedies, wait), ", or "))
}

// guarantee returns the GPUs of a tenant that pinned jobs may hold, in thousandths.
func (m *memory) guarantee(t sched.Tenant) int {
	s := m.state.Peek()
	all := s.Guarantees()
	if i := indexOf(s, t.ID); i >= 0 {
		return all[all.OfTenant(s, i)]
	}
	return all[len(all)-1]
}

// limit returns the most GPUs, all of one type that a job accepts, that a tenant may hold.
func (m *memory) limit(t sched.Tenant, j *sched.Job) int {
	s := m.state.Peek()
	i := indexOf(s, t.ID)
	if i < 0 {
		return t.Limit()
	}
	most := 0
	for _, gpu := range s.Cluster.Types {
		if j.Accepts(gpu) {
			most = max(most, s.LimitOf(i, j, gpu))
		}
	}
	return most
}

// indexOf returns the index of a declared tenant; -1: there is none.
func indexOf(s *sched.Snapshot, id sched.TenantID) int {
	return slices.IndexFunc(s.Tenants, func(t sched.Tenant) bool { return t.ID == id })
}

// holds returns how many GPUs of a node a job could have if nobody else used it.
func holds(j *sched.Job, n *sched.Node) int {
	most := n.GPUs
	if j.CPUs > 0 && n.CPUs > 0 {
		most = min(most, n.CPUs/j.CPUs)
	}
	if j.Memory > 0 && n.Memory > 0 {
		most = int(min(int64(most), n.Memory/j.Memory))
	}
	return most / j.Task() * j.Task()
}

// Expire ends the jobs that have run for their time limit: they are asked to save
// their work like any job that has to stop. It is called periodically.
func (b *Store) Expire(ctx context.Context) error {
	b.mu.RLock()
	due := b.mem.overdue(b.now())
	b.mu.RUnlock()
	if len(due) == 0 {
		return nil
	}
	return b.commit(ctx, func(t *tx) error {
		t.actor, t.decides = "scheduler", true
		for _, j := range t.mem.overdue(t.now) {
			e := sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Failed, Text: fmt.Sprintf("it ran for its time limit of %s; not retried", j.TimeLimit)}
			if err := t.event(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// overdue returns the running jobs that have reached their time limit.
func (m *memory) overdue(now time.Time) (due []*sched.Job) {
	for _, j := range m.state.Peek().Jobs {
		if j.TimeLimit > 0 && j.Phase == sched.Running && j.RanBy(now) >= j.TimeLimit.D() {
			due = append(due, j)
		}
	}
	return due
}
