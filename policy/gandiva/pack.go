// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// half is the share of each GPU that a packed job holds, in thousandths.
const half = sched.WholeGPU / 2

// pack runs waiting jobs beside running ones with the same number of GPUs: the
// lowest utilisation first, beside the lowest utilisation. It is called when idle
// GPUs have been allocated, and skips jobs that can run without it.
func (d *decision) pack() {
	if !d.Pack {
		return
	}
	var guests []int
	for _, i := range d.waiting {
		if d.packable(i) && !d.fits(i) {
			guests = append(guests, i)
		}
	}
	if len(guests) == 0 {
		return
	}
	d.sortByUse(guests)
	hosts := d.hostsBySize()
	for _, i := range guests {
		n := d.home[i].GPUs()
		for at, host := range hosts[n][:min(len(hosts[n]), mostHosts)] {
			if d.s.Jobs[i].GPUUtil+d.s.Jobs[host].GPUUtil > d.MaxPackedUtil {
				break // all further ones have more
			}
			if d.beside(i, host) {
				hosts[n] = slices.Delete(hosts[n], at, at+1)
				break
			}
		}
	}
}

// mostHosts bounds the search for a job to be packed with.
const mostHosts = 64

// packable reports whether a job may be packed: it allows it, and its utilisation
// is known from running alone.
func (d *decision) packable(i int) bool {
	j := d.s.Jobs[i]
	return j.Shareable && j.GPUUtil > 0 && j.RanBy(d.s.Now) >= d.Profile.D()
}

func (d *decision) sortByUse(jobs []int) {
	slices.SortFunc(jobs, func(a, b int) int {
		x, y := d.s.Jobs[a], d.s.Jobs[b]
		return cmp.Or(cmp.Compare(x.GPUUtil, y.GPUUtil), cmp.Compare(x.Seq, y.Seq))
	})
}

// hostsBySize returns the running jobs that one more can be packed with, by
// their number of GPUs, the lowest utilisation first.
func (d *decision) hostsBySize() map[int][]int {
	hosts := map[int][]int{}
	for _, i := range d.hosts {
		j := d.s.Jobs[i]
		if d.runsOn(i) && d.alone(i) && (!j.Pinned() || j.Placement.Shared()) {
			hosts[j.Placement.GPUs()] = append(hosts[j.Placement.GPUs()], i)
		}
	}
	for _, jobs := range hosts {
		d.sortByUse(jobs)
	}
	return hosts
}

// alone reports whether no other job runs on a job's GPUs. Only a job that was
// packed before can have company.
func (d *decision) alone(i int) bool {
	p := d.plan.Want[i]
	if !p.Shared() {
		return true
	}
	for _, s := range p {
		for _, b := range d.runs[s.Node] {
			if b != i && overlap(sched.Placement{s}, d.plan.Want[b]) {
				return false
			}
		}
	}
	return true
}

// beside packs a waiting job with a running one, if they suit each other.
func (d *decision) beside(i, host int) bool {
	j := d.s.Jobs[i]
	if !d.suit(i, host) || !d.accepts(j, d.plan.Want[host]) || d.quota.Left(j) < d.plan.Want[host].GPUs() {
		return false
	}
	p := halved(d.plan.Want[host])
	// No other job may wait for the GPUs: packing prolongs the turn.
	others := d.highest(p) - 1
	if sameGPUs(d.home[i], p) {
		others--
	} else if d.limits.left(j) < p.GPUs() {
		return false
	}
	if others > 0 {
		return false
	}
	old := d.plan.Want[host]
	d.stop(host)
	d.home[host] = p
	d.run(host)
	if !d.live.Fits(j, p) {
		d.stop(host)
		d.home[host] = old
		d.run(host)
		return false
	}
	d.leave(i)
	d.settle(i, p)
	d.run(i)
	d.ripe(d.s.Now) // the trial begins
	return true
}

// suit reports whether it is worth trying two jobs on the same GPUs: they are not
// too busy and have room, and no trial has failed.
func (d *decision) suit(i, k int) bool {
	a, b := d.s.Jobs[i], d.s.Jobs[k]
	sum := a.GPUUtil + b.GPUUtil
	if !a.Shareable || !b.Shareable || a.GPUUtil == 0 || b.GPUUtil == 0 ||
		sum > d.MaxPackedUtil || d.apart(a, b) {
		return false
	}
	if a.GPUMemory == 0 || b.GPUMemory == 0 {
		return true
	}
	for _, s := range d.plan.Want[k] {
		if has := d.s.Cluster.Nodes[s.Node].GPUMemory; has > 0 && a.GPUMemory+b.GPUMemory > has {
			return false
		}
	}
	return true
}

// accepts reports whether the job could run on exactly these GPUs.
func (d *decision) accepts(j *sched.Job, p sched.Placement) bool {
	for _, s := range p {
		if !d.takes(j, int(s.Node)) || s.GPUs.Len()%j.Task() != 0 {
			return false
		}
	}
	return j.Spreads(d.s.Cluster.Level(p))
}

// halved returns the placement with half of each GPU.
func halved(p sched.Placement) sched.Placement {
	q := slices.Clone(p)
	for i := range q {
		q[i].Milli = half
	}
	return q
}

func sameGPUs(p, q sched.Placement) bool {
	return slices.EqualFunc(p, q, func(a, b sched.Slice) bool { return a.Node == b.Node && a.GPUs == b.GPUs })
}
