// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
)

const (
	minRho = auction.MinRho
	maxRho = auction.MaxRho
	// maxBidders bounds an auction, and maxOthers the apps that share its
	// leftovers, the worst-off first: in a queue of many thousand apps, the others
	// get their turn later.
	maxBidders = 256
	maxOthers  = 512
)

// auction offers GPUs to the worst-off apps, gives the winners what they won, and
// gives the leftovers to the others.
func (r *round) auction() {
	bidders := r.bidders()
	if len(bidders) == 0 {
		return
	}
	if r.breakLeases(bidders[0]) {
		for _, a := range bidders[1:] {
			a.bids = false
		}
		bidders = bidders[:1]
	}
	wants := r.wants(bidders)
	offer := r.makeOffer(bidders, wants)
	if offer.GPUs() > 0 {
		bids := make([]auction.Bid, 0, len(bidders))
		for i, a := range bidders {
			bids = append(bids, r.said(a, r.bid(a, offer, wants[i])))
		}
		r.award(offer, bids, bidders)
	}
	r.leftovers(bidders)
}

// worseOff orders apps, the worst-off first.
func worseOff(a, b *app) int {
	switch {
	case a.expectedRho != b.expectedRho:
		return cmp.Compare(b.expectedRho, a.expectedRho)
	case a.elapsed != b.elapsed:
		return cmp.Compare(b.elapsed, a.elapsed)
	}
	return cmp.Compare(a.nth, b.nth)
}

// bidders returns the worst-off apps that can use GPUs, the worst first.
func (r *round) bidders() []*app {
	var out []*app
	for _, a := range r.apps {
		if slices.ContainsFunc(a.jobs, func(j *job) bool { return j.waits(r) && r.quota.Left(j.Job) >= j.size || r.short(j) > 0 }) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, worseOff)
	most := max(1, int(math.Ceil((1-r.F)*float64(len(r.apps))-1e-9)))
	out = out[:min(len(out), most, maxBidders)]
	for _, a := range out {
		a.bids = true
	}
	return out
}

// breakLeases opens the leases of better-off apps to an app that has had nothing for
// too long, if that leaves room for one of its gangs: leases that end one by one
// would never. It reports whether it did. The app then bids alone, because newcomers
// would outbid it: whoever has waited least gains most, in proportion, by GPUs.
func (r *round) breakLeases(worst *app) bool {
	if r.Patience == 0 || len(worst.holds) > 0 {
		return false
	}
	for _, j := range worst.jobs {
		if j.Phase == sched.Running || r.s.Now.Sub(j.Since) < time.Duration(r.Patience)*r.Lease.D() {
			return false
		}
	}
	var better []*app
	room := r.free.Total()
	for _, a := range r.apps {
		if a == worst || r.losing(a)*headroom >= worst.expectedRho {
			continue
		}
		better = append(better, a)
		for _, j := range a.jobs {
			if j.expired || j.stays && r.movable(j.Job) {
				room += j.Placement.GPUs()
			}
		}
	}
	if room < worst.groups[len(worst.groups)-1].size {
		return false
	}
	for _, a := range better {
		for _, j := range a.jobs {
			if j.stays && r.movable(j.Job) {
				j.stays, j.won, j.expired = false, false, true
				r.plan.Want[j.index] = nil
				a.give(j.Placement)
			}
		}
		r.forecast(a)
	}
	return true
}

// losing returns the expected rho of an app without any GPUs that can be taken.
func (r *round) losing(a *app) float64 {
	var kept power
	lost := 0.0
	for _, j := range a.jobs {
		if j.stays && !r.movable(j.Job) {
			kept.speed += r.speedOf(j)
			kept.gangs++
		} else {
			lost = max(lost, j.length())
		}
	}
	return r.expect(a, kept, lost)
}

// wants returns the most GPUs that each bidder bids for. With offer=surplus that is
// what it needs to end in time, rho = 1, or what is idle.
func (r *round) wants(bidders []*app) []int {
	out := make([]int, len(bidders))
	for i, a := range bidders {
		waiting, first := 0, 0
		for _, j := range a.jobs {
			if j.waits(r) || r.Offer == All && j.expired {
				waiting += j.most
			} else {
				waiting += r.short(j)
			}
			if j.waits(r) && (first == 0 || j.size < first) {
				first = j.size
			}
		}
		want := waiting
		if r.Offer == Surplus {
			want = min(waiting, max(a.need()-r.has(a), first, r.free.Total()))
		}
		if left := r.quota.Left(a.jobs[0].Job); left < want {
			want = max(first, left)
		}
		step := a.gang
		want = (want + step - 1) / step * step
		out[i] = min(want, max(first, step*((r.Rows-1)/placements)))
	}
	return out
}

// has returns the GPUs that an app holds, on offer or not.
func (r *round) has(a *app) int {
	n := 0
	for _, j := range a.jobs {
		n += j.Placement.GPUs()
	}
	return n
}

// idle returns the nodes with their idle GPUs.
func (r *round) idle() []auction.Machine {
	out := make([]auction.Machine, len(r.s.Cluster.Nodes))
	for i, n := range r.s.Cluster.Nodes {
		out[i] = auction.Machine{Rack: n.Rack, Type: string(n.Type), Kind: kindOf(n)}
		if r.marked { // then nodes are interchangeable only if they have the same labels
			out[i].Kind += fmt.Sprint(" ", n.Dedicated, n.Labels)
			r.like[out[i].Kind] = &r.s.Cluster.Nodes[i]
		}
		if n.State == sched.Ready {
			out[i].Free = r.free.OnNode(i).Len()
		}
	}
	return out
}

// award carries out the auction.
func (r *round) award(o auction.Offer, bids []auction.Bid, bidders []*app) {
	opt := auction.Options{Rounding: roundings[r.Rounding]}
	result, err := auction.Run(o, bids, opt, r.rng)
	if err != nil {
		return // more bids or GPUs than it supports: everything is left over
	}
	// A refused bid has no outcome: its app misses this auction.
	budgets := make([]budget, len(bidders))
	for _, won := range result.Outcomes {
		budgets[won.Bid] = newBudget(won.Got)
		r.resume(bidders[won.Bid], budgets[won.Bid])
	}
	for i, a := range bidders {
		if budgets[i] != nil {
			r.spend(a, budgets[i])
		}
	}
	for i, a := range bidders {
		r.widen(a, budgets[i])
	}
}

// resume lets an app's running jobs continue within what it got.
func (r *round) resume(a *app, b budget) {
	for _, j := range a.jobs {
		if j.expired && !j.won && !j.dropped && b.covers(j.Placement) {
			b.take(j.Placement)
			r.renew(j)
		}
	}
}

// leftovers gives what the auction left to apps that did not bid: they continue
// with what they have, then get the rest at random; what they cannot use goes to
// the bidders.
func (r *round) leftovers(bidders []*app) {
	for _, a := range r.apps {
		for _, j := range a.jobs {
			switch {
			case !j.expired || j.won || j.dropped:
			case a.bids:
				r.drop(j)
			default:
				r.renew(j)
			}
		}
	}
	var others []*app
	for _, a := range r.apps {
		if !a.bids {
			others = append(others, a)
		}
	}
	r.handOut(others)
	for _, a := range bidders {
		for _, j := range a.jobs {
			if j.dropped && !j.won && r.canReturn(j) {
				r.renew(j)
			}
		}
	}
	r.handOut(bidders)
}

// handOut gives idle GPUs to some of the apps, gang by gang at random, nearby apps
// first.
func (r *round) handOut(apps []*app) {
	if r.free.Total() == 0 {
		return
	}
	apps = slices.DeleteFunc(slices.Clone(apps), func(a *app) bool {
		return !slices.ContainsFunc(a.jobs, func(j *job) bool { return j.waits(r) })
	})
	slices.SortFunc(apps, worseOff)
	var wants []auction.Want
	byID := map[string]*app{}
	for _, a := range apps[:min(len(apps), maxOthers)] {
		w := auction.Want{App: string(a.ID), Gang: a.gang, Task: a.task, Holds: a.holds, Usable: r.usable(a)}
		for _, j := range a.jobs {
			if j.waits(r) && w.GPUs+j.size <= r.quota.Left(j.Job) {
				w.GPUs += j.size
			}
		}
		if w.GPUs > 0 {
			wants = append(wants, w)
			byID[w.App] = a
		}
	}
	if len(wants) == 0 {
		return
	}
	for _, g := range auction.PlaceLeftovers(auction.Offer{Machines: r.idle()}, wants, nil, r.rng) {
		r.spend(byID[g.App], newBudget(g.Take))
	}
}

func kindOf(n sched.Node) string {
	if len(n.Islands) == 0 {
		return ""
	}
	kind := make([]byte, 0, len(n.Islands))
	for _, island := range n.Islands {
		kind = append(kind, byte('0'+island.Len()))
	}
	return string(kind)
}
