// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// gather lets every gang whose attempt is in progress keep the free GPUs that it could
// use, before anyone else is served: the attempt that began first chooses first. Which
// GPUs a gang keeps is not remembered but found anew in every decision.
func (d *decision) gather() {
	type trying struct {
		job int
		attempt
	}
	var gangs []trying
	for i, j := range d.s.Jobs {
		if len(d.plan.Want[i]) > 0 || !j.Ready(d.s.Now) || !d.s.Now.Before(j.Note.Since) {
			continue
		}
		if a := d.attempt(j, d.s.Now); a.open && a.next.Equal(j.Note.Since) {
			gangs = append(gangs, trying{i, a})
		}
	}
	slices.SortFunc(gangs, func(a, b trying) int {
		x, y := d.s.Jobs[a.job], d.s.Jobs[b.job]
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(y.Priority, x.Priority), x.Submitted.Compare(y.Submitted), cmp.Compare(x.Seq, y.Seq))
	})
	d.kept = make(map[int]sched.Placement, len(gangs))
	for _, g := range gangs {
		j := d.s.Jobs[g.job]
		if ask, ok := d.ask(j); ok && d.quota.Left(j) >= ask.GPUs {
			d.keepPart(g.job, wish{ask, g.rung})
		}
	}
}

// keepPart lets a gang that did not get all its GPUs keep a part of them: no other job
// gets them in this decision.
func (d *decision) keepPart(i int, w wish) {
	j := d.s.Jobs[i]
	if p := d.search.part(j, w); len(p) > 0 {
		d.kept[i] = p
		d.hold(j, p.GPUs())
	}
}

// letGo returns what a gang keeps, so that its own attempt can use it. Others may then
// fit where they did not.
func (d *decision) letGo(i int) {
	if p, ok := d.kept[i]; ok {
		d.free.Release(d.s.Jobs[i], p)
		d.hold(d.s.Jobs[i], -p.GPUs())
		clear(d.failed)
		clear(d.hopeless)
	}
}

// takeBack undoes letGo.
func (d *decision) takeBack(i int) (kept bool) {
	p, kept := d.kept[i]
	if kept {
		d.free.Take(d.s.Jobs[i], p)
		d.hold(d.s.Jobs[i], p.GPUs())
	}
	return kept
}
