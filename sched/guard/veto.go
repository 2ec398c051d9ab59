// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import "github.com/fairway-gpu/fairway/sched"

// veto gives back their GPUs to jobs that may not be preempted or moved, and makes
// the rest of the plan fit around them. The plan keeps the rules before and
// after.
func (r *review) veto() {
	base, exchanged := r.plan, r.vetoes
	barred := make([]bool, len(r.s.Jobs)) // that cannot be kept
	for {
		r.plan, r.vetoes = clone(base), exchanged[:len(exchanged):len(exchanged)]
		k := keeping{review: r, base: base, kept: make([]bool, len(r.s.Jobs)), back: make([]bool, len(r.s.Jobs))}
		any := false
		for i, j := range r.s.Jobs {
			if barred[i] || !r.victim(i) && !r.guard.hasty(r.s, r.plan, i) {
				continue
			}
			if rule, text := r.forbidden(i); rule != "" {
				k.kept[i], any = true, true
				r.vetoes = append(r.vetoes, Veto{Job: j.ID, Rule: rule, Text: text})
			}
		}
		if !any {
			return
		}
		k.settle()
		stuck, ok := k.repair()
		if ok {
			k.spare()
			return
		}
		if stuck < 0 { // nobody can say who: keep none
			copy(barred, k.kept)
		} else {
			barred[stuck] = true
		}
	}
}

// keeping is one try to keep some victims.
type keeping struct {
	*review
	base sched.Plan // before anybody was kept
	kept []bool     // by a rule
	back []bool     // as they were before the plan, kept ones included
}

// put leaves a running job where it is.
func (k *keeping) put(i int) {
	k.back[i] = true
	k.plan.Want[i], k.plan.Why[i] = k.s.Jobs[i].Placement, sched.Reason{}
}

// revert leaves a job as it is: where it runs, or waiting.
func (k *keeping) revert(i int) {
	if k.s.Jobs[i].Phase == sched.Running {
		k.put(i)
		return
	}
	k.back[i] = true
	k.plan.Why[i] = sched.Reason{Code: sched.Behind, Need: k.plan.Want[i].GPUs()}
	k.plan.Want[i] = nil
}

// settle puts the kept jobs back where they are. A job that was to get their
// GPUs stays as it is.
func (k *keeping) settle() {
	used := map[sched.Slice]int32{} // thousandths that jobs put back hold, by single GPU
	each := func(p sched.Placement, f func(gpu sched.Slice, milli int32)) {
		for _, slice := range p {
			for g := slice.GPUs; g != 0; g &= g - 1 {
				f(sched.Slice{Node: slice.Node, GPUs: g & -g}, slice.Milli)
			}
		}
	}
	hold := func(i int) {
		each(k.plan.Want[i], func(g sched.Slice, milli int32) { used[g] += milli })
	}
	for i, kept := range k.kept {
		if kept {
			k.put(i)
			hold(i)
		}
	}
	for again := true; again; {
		again = false
		for i, want := range k.plan.Want {
			if k.back[i] || len(want) == 0 {
				continue
			}
			fits := true
			each(want, func(g sched.Slice, milli int32) { fits = fits && used[g]+milli <= sched.WholeGPU })
			if !fits {
				k.revert(i)
				hold(i)
				again = true
			}
		}
	}
}

// repair takes back what else stands in the way of the kept jobs: their
// tenant's limit, or the CPUs and memory of their nodes. It returns a kept job
// that breaks a rule all the same; -1 if the rule is broken by another.
func (k *keeping) repair() (stuck int, ok bool) {
	index := make(map[sched.JobID]int, len(k.s.Jobs))
	for i, j := range k.s.Jobs {
		index[j.ID] = i
	}
	for {
		violations := sched.Check(k.s, k.plan)
		if len(violations) == 0 {
			return 0, true
		}
		progress := false
		stuck = -1
		for _, v := range violations {
			i, named := index[v.Job]
			switch {
			case !named:
				progress = k.shrink() || progress
			case !k.back[i]:
				k.revert(i)
				progress = true
			case v.Rule == "capacity" && k.clear(i):
				progress = true
			case k.kept[i]:
				stuck = i
			}
		}
		if !progress {
			return stuck, false
		}
	}
}

// shrink reverts the jobs that get more GPUs of tenants that are over their
// limit.
func (k *keeping) shrink() bool {
	left := make([]int, len(k.s.Tenants))
	for t := range left {
		left[t] = k.s.Tenants[t].Limit()
	}
	for i, j := range k.s.Jobs {
		t, ok := k.s.Tenant(j)
		for ; ok && t >= 0; t = k.s.Parent(t) {
			left[t] -= k.plan.Want[i].GPUs()
		}
	}
	progress := false
	for i, j := range k.s.Jobs {
		t, ok := k.s.Tenant(j)
		for ok && t >= 0 && left[t] >= 0 {
			t = k.s.Parent(t)
		}
		if !ok || t < 0 || k.back[i] {
			continue
		}
		if k.plan.Want[i].GPUs() > j.Placement.GPUs() {
			k.revert(i)
			progress = true
		}
	}
	return progress
}

// clear reverts what comes anew to the nodes of a job.
func (k *keeping) clear(i int) bool {
	progress := false
	for n, want := range k.plan.Want {
		if k.back[n] || want.Equal(k.s.Jobs[n].Placement) {
			continue
		}
		for _, a := range want {
			for _, b := range k.s.Jobs[i].Placement {
				if a.Node == b.Node && !k.back[n] {
					k.revert(n)
					progress = true
				}
			}
		}
	}
	return progress
}

// spare lets victims go on whose GPUs nobody takes any more.
func (k *keeping) spare() {
	before := clone(k.plan)
	for i := range k.s.Jobs {
		if k.victim(i) && len(takers(k.s, k.base, i)) > 0 && len(takers(k.s, k.plan, i)) == 0 {
			k.put(i)
		}
	}
	if len(sched.Check(k.s, k.plan)) > 0 {
		k.plan = before
	}
}
