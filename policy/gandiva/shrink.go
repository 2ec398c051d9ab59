// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"github.com/fairway-gpu/fairway/sched"
)

// shrink finds GPUs for the job by taking some from elastic jobs: what they
// have beyond the size they asked for or, if that is not enough, beyond their
// smallest. Only those shrink whose GPUs are used.
func (d *decision) shrink(j *sched.Job, w wish) (sched.Placement, bool) {
	if len(d.elastic) == 0 || d.noShrink[w] {
		return nil, false
	}
	for _, least := range []func(*sched.Job) int{size, smallest} {
		jobs := d.shrinkable(least)
		for _, i := range jobs {
			d.relocate(i, shrunk(d.s.Jobs[i].Placement, least(d.s.Jobs[i])))
		}
		if len(jobs) == 0 {
			continue
		}
		p, ok := d.spot(j, w)
		for _, i := range jobs {
			if old := d.s.Jobs[i].Placement; !ok || !overlap(p, old) {
				d.relocate(i, old)
			}
		}
		if ok {
			return p, true
		}
	}
	d.noShrink[w] = true
	return nil, false
}

// shrinkable returns the elastic jobs that could give GPUs away.
func (d *decision) shrinkable(least func(*sched.Job) int) []int {
	var out []int
	for _, i := range d.elastic {
		j := d.s.Jobs[i]
		if d.runsOn(i) && len(j.Placement) == 1 && !j.Placement.Shared() &&
			least(j) < j.Placement.GPUs() && d.highest(j.Placement) == 1 {
			out = append(out, i)
		}
	}
	return out
}

// shrunk returns the placement, on one node, with only n of its GPUs.
func shrunk(p sched.Placement, n int) sched.Placement {
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
