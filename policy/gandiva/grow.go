// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import "github.com/fairway-gpu/fairway/sched"

// grow lets elastic jobs take idle GPUs of their server, when no job waits and the
// GPUs have been idle for a while (since Job.Note.Since).
func (d *decision) grow() {
	if !d.Grow || len(d.waiting) > 0 || d.queued > 0 {
		return
	}
	for _, i := range d.sorted(func(i int) bool { return d.s.Jobs[i].Elastic() && len(d.plan.Want[i]) == 1 }) {
		j := d.s.Jobs[i]
		p, ok := d.grown(i)
		if !ok {
			continue
		}
		since := j.Note.Since
		if since.IsZero() || since.After(d.s.Now) || !d.runsOn(i) {
			since = d.s.Now
		}
		if due := since.Add(d.GrowAfter.D()); due.After(d.s.Now) {
			d.notes()[i] = sched.Note{Since: since}
			d.plan.WakeBy(d.s.Now, due)
		} else if d.runsOn(i) {
			d.relocate(i, p)
		}
	}
}

// grown returns the larger placement that a job could have on its server.
func (d *decision) grown(i int) (sched.Placement, bool) {
	j, p := d.s.Jobs[i], d.plan.Want[i]
	if j.Pinned() || p.Shared() || d.highest(p) > 1 {
		return nil, false
	}
	s := p[0]
	idle := d.idle.OnNode(int(s.Node))
	more := min(idle.Len(), d.room(j))
	now := s.GPUs.Len()
	n := useful(j, now+1, now+more)
	if n == 0 {
		return nil, false
	}
	extra := idle.Lowest(n - now)
	if !d.live.Fits(j, sched.Placement{whole(int(s.Node), extra)}) {
		return nil, false
	}
	s.GPUs |= extra
	p = sched.Placement{s}
	return p, d.accepts(j, p)
}
