// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// review is one look at one plan.
type review struct {
	s      *sched.Snapshot
	plan   sched.Plan
	guard  *Guard
	vetoes []Veto
}

func (r *review) victim(i int) bool {
	return stopped(r.s.Jobs[i], r.plan, i)
}

// forbidden returns the rule that protects a job which is stopped or moved, if one does.
func (r *review) forbidden(i int) (rule, text string) {
	j := r.s.Jobs[i]
	if r.guard.hasty(r.s, r.plan, i) {
		return "settle", fmt.Sprintf("has not trained since it was started %s ago", sched.Brief(r.s.Now.Sub(j.Since)))
	}
	if b := r.guard.Bound; b > 0 && j.Preemptions >= b {
		return "bound", fmt.Sprintf("was preempted %d times; the bound is %d", j.Preemptions, b)
	}
	for _, by := range takers(r.s, r.plan, i) {
		if r.guard.tookFrom(j.ID, by, r.s.Now) {
			return "cycle", fmt.Sprintf("was given these GPUs at the cost of %s less than %s ago", by, r.guard.Window)
		}
	}
	return "", ""
}

// tookFrom reports whether job a got GPUs of job b within the window, directly
// or through others.
func (g *Guard) tookFrom(a, b sched.JobID, now time.Time) bool {
	if g.Window == 0 {
		return false
	}
	lost, seen := []sched.JobID{b}, map[sched.JobID]bool{b: true}
	for len(lost) > 0 {
		victim := lost[0]
		lost = lost[1:]
		for _, t := range g.taken {
			if t.victim != victim || now.Sub(t.at) > g.Window.D() {
				continue
			}
			for _, by := range t.by {
				if by == a {
					return true
				}
				if !seen[by] {
					seen[by] = true
					lost = append(lost, by)
				}
			}
		}
	}
	return false
}

// exchange replaces victims by cheaper ones.
func (r *review) exchange() {
	if r.guard.Margin == 0 {
		return
	}
	for i := range r.s.Jobs {
		if !r.victim(i) {
			continue
		}
		if k := r.cheaper(i); k >= 0 {
			v, j := r.s.Jobs[i], r.s.Jobs[k]
			r.vetoes = append(r.vetoes, Veto{Job: v.ID, Rule: "cheaper-victim", Text: fmt.Sprintf(
				"would lose %.0f GPU-seconds since its last checkpoint; %s, of the same shape, loses %.0f and goes instead", v.Unsaved(r.s.Now), j.ID, j.Unsaved(r.s.Now))})
			r.swap(i, k)
		}
	}
}

// cheaper returns the job that should be stopped in place of victim i; -1 if
// none should.
func (r *review) cheaper(i int) int {
	const small = 60 // GPU-seconds
	v := r.s.Jobs[i]
	best, least := -1, v.Unsaved(r.s.Now)
	if least < small || v.Placement.Shared() {
		return -1
	}
	bar := least / r.guard.Margin
	for k, j := range r.s.Jobs {
		if k == i || j.Phase != sched.Running || j.Pinned() || j.Screening || !r.plan.Want[k].Equal(j.Placement) {
			continue
		}
		alike := j.Tenant == v.Tenant && j.Priority == v.Priority && j.Placement.SameNodes(v.Placement) && !j.Placement.Shared()
		if b := r.guard.Bound; !alike || (b > 0 && j.Preemptions >= b) {
			continue
		}
		if loss := j.Unsaved(r.s.Now); loss <= bar && loss < least {
			best, least = k, loss
		}
	}
	return best
}

// swap lets victim i stay and stops k: whoever was to get the GPUs of i gets
// those of k.
func (r *review) swap(i, k int) {
	v, j := r.s.Jobs[i], r.s.Jobs[k]
	for n, want := range r.plan.Want {
		if n == i || n == k || !overlap(want, v.Placement) {
			continue
		}
		want = slices.Clone(want)
		for w := range want {
			for p := range v.Placement {
				if want[w].Node == v.Placement[p].Node {
					want[w].GPUs = exchangeGPUs(want[w].GPUs, v.Placement[p].GPUs, j.Placement[p].GPUs)
				}
			}
		}
		r.plan.Want[n] = want
	}
	r.plan.Want[i], r.plan.Want[k] = v.Placement, nil
	r.plan.Why[k], r.plan.Why[i] = r.plan.Why[i], sched.Reason{}
}

// exchangeGPUs replaces the GPUs of set that are in from by as many of to, the
// lowest for the lowest.
func exchangeGPUs(set, from, to sched.GPUSet) sched.GPUSet {
	out := set &^ from
	for from != 0 && to != 0 {
		a, b := from&-from, to&-to
		if set&a != 0 {
			out |= b
		}
		from, to = from&^a, to&^b
	}
	return out
}
