// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// rivals bounds how many running and how many waiting jobs an explanation names.
const rivals = 3

// ahead fills in which jobs go before a waiting job, and why.
func (b *Store) ahead(who api.Identity, x *entry, e *api.Explanation) {
	about := b.Policies.About(b.mem.Policy)
	e.Order = about.Order.String()
	var running, waiting []*entry
	whys := map[*entry]string{}
	for o := range b.mem.queue() {
		switch {
		case o == x:
		case o.Job.Phase == sched.Running:
			if b.blocks(o, x) {
				running = append(running, o)
			}
		case !o.Job.Ready(e.Now) || o.reason.Code == sched.Impossible: // it does not compete
		case len(about.Order) == 0:
			if o.Job.Seq < x.Job.Seq {
				e.Ahead++
				whys[o], waiting = "was submitted before it; "+about.Name+" weighs all jobs at once", append(waiting, o)
			}
		default:
			if why, first := about.Order.Ahead(o.Job, x.Job, e.Now); first {
				e.Ahead++
				if r := o.reason.Until; !r.IsZero() && about.Promises&policy.NoDelay != 0 {
					why += ", and has a reservation for " + r.Format("15:04")
				}
				whys[o], waiting = why, append(waiting, o)
			}
		}
	}
	slices.SortStableFunc(running, func(a, c *entry) int { return cmp.Compare(c.Job.Placement.GPUs(), a.Job.Placement.GPUs()) })
	slices.SortStableFunc(waiting, func(a, c *entry) int {
		if _, first := about.Order.Ahead(a.Job, c.Job, e.Now); first {
			return -1
		}
		if _, last := about.Order.Ahead(c.Job, a.Job, e.Now); last {
			return 1
		}
		return 0
	})
	for _, o := range running[:min(len(running), rivals)] {
		whys[o] = b.keeps(o.Job, x.Job, about, e)
	}
	for _, o := range slices.Concat(running[:min(len(running), rivals)], waiting[:min(len(waiting), rivals)]) {
		r := api.Rival{GPUs: o.Job.Placement.GPUs(), Why: whys[o]}
		r.Job, r.Tenant = shown(who, o.Job)
		e.Before = append(e.Before, r)
	}
}

// blocks reports whether a running job holds what a waiting one waits for: GPUs that
// it could use, or its tenant's share.
func (b *Store) blocks(o, x *entry) bool {
	switch {
	case x.PausedBy != "" || !x.reason.Code.Competes():
		return false
	case x.reason.OverShare():
		return b.mem.compete(o.Job, x.Job)
	}
	nodes := b.mem.state.Cluster().Nodes
	return slices.ContainsFunc(o.Job.Placement, func(s sched.Slice) bool { return x.Job.Suits(&nodes[s.Node]) })
}

// keeps says why a running job keeps its GPUs from a waiting one.
func (b *Store) keeps(j, from *sched.Job, about policy.About, e *api.Explanation) string {
	switch why, first := about.Order.Ahead(j, from, e.Now); {
	case about.Promises&policy.NeverPreempts != 0:
		return "runs; " + about.Name + " never preempts"
	case j.NonPreemptible:
		return "runs and may not be preempted"
	case j.Pinned() && j.SaveFailed:
		return "runs and is protected: it could not save its work"
	case j.Pinned():
		return "runs and is protected: it has not shown that it can save its work"
	case first:
		return "runs; " + why
	}
	if len(about.Order) == 0 {
		return "runs; " + about.Name + " weighs all jobs at once, and leaves it its GPUs"
	}
	return "runs; " + about.Name + " does not take its GPUs now"
}

// larger says why a running job does not have more GPUs, if its request allows more.
func (b *Store) larger(x *entry, free int) string {
	j, have := x.Job, x.Job.Placement.GPUs()
	about := b.Policies.About(b.mem.Policy)
	switch {
	case j.MaxGPUs <= have || j.Screening:
		return ""
	case j.NonPreemptible:
		return "it may not be preempted, so it stays at the size it started with"
	case j.Protected && j.SaveFailed:
		return "it keeps its GPUs until it can save its work again"
	case j.Protected && j.Can == sched.Unproven:
		return "it is protected: no agent has reported from its script, so it stays at the size it started with"
	case !j.Elastic():
		return "its agent has not reported that the job goes on at another size"
	case !about.Resizes:
		return fmt.Sprintf("%s runs every job at the size it asks for, %d", cmp.Or(about.Name, b.mem.Policy), j.GPUs)
	case about.Agents && j.Perf == nil:
		return "its agent has not reported yet how fast it trains"
	}
	return b.worth(x, free)
}

// worth says why a job that can be resized does not have more GPUs.
func (b *Store) worth(x *entry, free int) string {
	j, have := x.Job, x.Job.Placement.GPUs()
	next := j.NextSize(have)
	if next == 0 {
		return ""
	}
	var parts []string
	if gain, ok := b.speedup(j, next); ok {
		text := fmt.Sprintf("%s would make it %.2f times as fast by its agent's model", gpuCount(next), gain)
		if gain < 1.05 {
			return text + ", which is not worth a restart"
		}
		parts = append(parts, text)
	}
	if quotas(b.mem.state.Peek()).Left(j) < next-have {
		parts = append(parts, fmt.Sprintf("tenant %s may hold no more GPUs now", j.Tenant))
	} else if free < next-have {
		parts = append(parts, "other jobs hold the GPUs")
	} else if at := b.mem.wake; at.After(b.now()) {
		parts = append(parts, "the policy decides again at "+at.Format("15:04:05"))
	} else {
		parts = append(parts, "the policy has not chosen a larger size")
	}
	return strings.Join(parts, "; ")
}

// speedup returns how many times as fast a job would be on n GPUs of its type, on as
// few nodes as now.
func (b *Store) speedup(j *sched.Job, n int) (float64, bool) {
	if j.Perf == nil {
		return 0, false
	}
	t := b.mem.gpuType(j.Placement)
	_, now, ok := j.Perf.Goodput(t, goodput.Shape{Nodes: len(j.Placement), GPUs: j.Placement.GPUs()})
	_, then, both := j.Perf.Goodput(t, goodput.Shape{Nodes: len(j.Placement), GPUs: n})
	return then / now, ok && both && now > 0
}

func gpuCount(n int) string { return fmt.Sprintf("%d GPU%s", n, plural(n)) }
