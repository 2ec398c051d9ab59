// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import "github.com/fairway-gpu/fairway/sched"

// A job that failed on a node stays away from it (Status.Avoid). It waits for
// another one if there are many like it: where jobs crash, GPUs are always free, and
// a bad node would else draw its victims back. If there are few, a node that may be
// bad is better than none.

// twins is how many nodes like it there must be for each one that is avoided before
// a job waits for one of those.
const twins = 3

// away searches for GPUs outside of the nodes that a job stays away from. They are
// hidden from the search and are back when it returns. If it finds none, wait says
// whether the job should rather wait than go to one of these.
func (f *Free) away(j *sched.Job, n int, search func(*sched.Job) (sched.Placement, bool)) (p sched.Placement, ok, wait bool) {
	var hidden []int
	for _, name := range j.Avoid {
		if i, known := f.c.Node(name); known && f.ready.has(i) {
			f.conceal(i)
			hidden = append(hidden, i)
		}
	}
	if len(hidden) == 0 {
		return nil, false, false
	}
	anywhere := *j
	anywhere.Avoid = nil
	if p, ok = search(&anywhere); !ok {
		wait = f.dispensable(j, n, hidden)
	}
	for _, i := range hidden {
		f.reveal(i)
	}
	return p, ok, wait
}

// dispensable reports whether the job could do without some nodes, which are
// hidden, if nothing ran: there are enough nodes like each of them, and room for
// the whole job within the level it demands.
func (f *Free) dispensable(j *sched.Job, n int, hidden []int) bool {
	for _, h := range hidden {
		like := 0
		for i := range f.c.Nodes {
			if f.ready.has(i) && f.c.TypeOf(i) == f.c.TypeOf(h) && f.capacity(j, i) >= f.capacity(j, h) {
				like++
			}
		}
		if like < twins*len(hidden) {
			return false
		}
	}
	if len(j.Topology) > 0 {
		level := bound(j, sched.CrossRack)
		return f.types(j, func(t int) bool {
			d := f.domainsFor(j, t, level, func(j *sched.Job, i int) (int, sched.GPUSet) {
				if !f.ready.has(i) {
					return 0, 0
				}
				return f.whenEmpty(j, i)
			})
			_, ok := d.fit(d.nodes, n, f.required(j, level))
			return ok
		})
	}
	room := make([]int, len(f.c.Racks)*len(f.c.Types))
	for i := range f.c.Nodes {
		if f.ready.has(i) && j.Suits(&f.c.Nodes[i]) {
			room[f.c.RackOf(i)*len(f.c.Types)+f.c.TypeOf(i)] += f.capacity(j, i)
		}
	}
	for t := range f.c.Types {
		all := 0
		for r := range f.c.Racks {
			k := room[r*len(f.c.Types)+t]
			if all += k; k >= n {
				return true
			}
		}
		if all >= n && bound(j, sched.CrossRack) == sched.CrossRack {
			return true
		}
	}
	return false
}

// conceal takes a ready node out of all counts and sets that searches look at.
func (f *Free) conceal(n int) {
	free := f.whole[n].Len()
	f.count(n, -free)
	f.bucket(n, free, 0)
	f.ready.remove(n)
}

func (f *Free) reveal(n int) {
	free := f.whole[n].Len()
	f.ready.add(n)
	f.count(n, free)
	f.bucket(n, 0, free)
}

// Outside is Within on nodes other than some.
func (f *Free) Outside(nodes []bool, j *sched.Job, n int, level sched.Level) (sched.Placement, bool) {
	var hidden []int
	for i, hide := range nodes {
		if hide && f.ready.has(i) {
			f.conceal(i)
			hidden = append(hidden, i)
		}
	}
	at, ok := f.Within(j, n, level)
	for _, i := range hidden {
		// A node that is hidden is not in the placement, so it has what it had.
		f.reveal(i)
	}
	return at, ok
}
