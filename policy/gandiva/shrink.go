// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import "github.com/fairway-gpu/fairway/sched"

// shrink finds GPUs for the job by taking some from elastic jobs: what they have
// beyond the size they asked for or, if that is not enough, beyond their smallest.
func (d *decision) shrink(j *sched.Job, w *request) (sched.Placement, bool) {
	if len(d.elastic) == 0 || w.noShrink {
		return nil, false
	}
	for _, least := range []func(*sched.Job) int{(*sched.Job).StartSize, smallest} {
		find := d.shrinkServer
		if w.GPUs > d.stride {
			find = d.shrinkServers
		}
		if p, ok := find(j, w, least); ok {
			return p, true
		}
	}
	w.noShrink = d.everywhere(j)
	return nil, false
}

// spare returns how many GPUs a job could give up. It must run alone on whole GPUs
// of one server, where it ran before; least returns what it needs.
func (d *decision) spare(i int, least func(*sched.Job) int) int {
	j := d.s.Jobs[i]
	if !j.Elastic() || j.Pinned() || !d.runsOn(i) || len(j.Placement) != 1 ||
		j.Placement.Shared() || d.highest(j.Placement) > 1 {
		return 0
	}
	return max(0, j.Placement.GPUs()-least(j))
}

// shrinkServer makes room on the server where the fewest GPUs have to be given up.
func (d *decision) shrinkServer(j *sched.Job, w *request, least func(*sched.Job) int) (sched.Placement, bool) {
	best, most := -1, -1
	for _, e := range d.elastic {
		node := int(d.s.Jobs[e].Placement[0].Node)
		idle := d.idle.OnNode(node).Len()
		if idle < most || idle == most && node >= best || d.spare(e, least) == 0 || !d.takes(j, node) {
			continue
		}
		spare := 0
		for _, i := range d.runs[node] {
			spare += d.spare(i, least)
		}
		if idle+spare >= w.GPUs {
			best, most = node, idle
		}
	}
	if best < 0 {
		return nil, false
	}
	var shrunken []int
	for _, i := range d.elastic { // in order of submission
		if d.s.Jobs[i].Placement[0].Node == int32(best) && d.idle.OnNode(best).Len() < w.GPUs && d.spare(i, least) > 0 {
			d.relocate(i, lessOf(d.s.Jobs[i].Placement, least(d.s.Jobs[i])))
			shrunken = append(shrunken, i)
		}
	}
	s, ok := d.pick(j, best, d.idle.OnNode(best), w.GPUs)
	if !ok {
		for _, i := range shrunken {
			d.relocate(i, d.s.Jobs[i].Placement)
		}
		return nil, false
	}
	return sched.Placement{s}, true
}

// shrinkServers makes room on several servers: all elastic jobs shrink, and
// those whose GPUs are not used get them back.
func (d *decision) shrinkServers(j *sched.Job, w *request, least func(*sched.Job) int) (sched.Placement, bool) {
	var shrunken []int
	idle := d.idle.Total()
	for _, i := range d.elastic {
		if k := d.spare(i, least); k > 0 {
			idle += k
			shrunken = append(shrunken, i)
		}
	}
	if len(shrunken) == 0 || idle < w.GPUs {
		return nil, false
	}
	for _, i := range shrunken {
		d.relocate(i, lessOf(d.s.Jobs[i].Placement, least(d.s.Jobs[i])))
	}
	p, ok := d.spot(j, w)
	if ok {
		d.live.Take(j, p)
		defer d.live.Release(j, p)
	}
	for _, i := range shrunken {
		if !ok || d.regrows(i) {
			d.relocate(i, d.s.Jobs[i].Placement)
		}
	}
	return p, ok
}

// regrows reports whether a shrunk job can have its old size after all: its GPUs,
// and the CPUs and memory for them, are still free.
func (d *decision) regrows(i int) bool {
	j := d.s.Jobs[i]
	mark := d.live.Mark()
	defer d.live.Rollback(mark)
	d.live.Release(j, d.plan.Want[i])
	return d.live.Fits(j, j.Placement)
}

// lessOf returns the placement, on one node, with only n of its GPUs.
func lessOf(p sched.Placement, n int) sched.Placement {
	s := p[0]
	s.GPUs = s.GPUs.Lowest(n)
	return sched.Placement{s}
}

func overlap(p, q sched.Placement) bool {
	for _, a := range p {
		for _, b := range q {
			if a.Node == b.Node && a.GPUs&b.GPUs != 0 {
				return true
			}
		}
	}
	return false
}
