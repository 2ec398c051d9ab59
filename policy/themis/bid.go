// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
)

// placements is the maximum number of rows of a bid for each number of gangs.
const placements = 4

// usable returns which machines suit an app: those that one of its jobs accepts
// and, if its gangs may not be spread, that have room for one.
func (r *round) usable(a *app) func(auction.Machine) bool {
	room := 1
	if g := a.groups[len(a.groups)-1]; !r.bears(g, sched.SameRack) {
		room = g.size
	}
	each := !r.marked && !slices.ContainsFunc(a.jobs, func(j *job) bool { return len(j.GPUTypes) > 0 })
	return func(m auction.Machine) bool {
		return m.Free >= room && (each || slices.ContainsFunc(a.jobs, func(j *job) bool {
			return j.Accepts(sched.GPUType(m.Type)) && (!r.marked || r.like[m.Kind].Matches(j.Selector))
		}))
	}
}

// bid returns the table of an app, or that of its own agent if it has one.
func (r *round) bid(a *app, o auction.Offer, want int) auction.Bid {
	b := auction.Bid{App: string(a.ID), Gang: a.gang, Task: a.task, Holds: a.holds}
	if a.Bid != nil {
		b.Rows = r.ownRows(a.Bid, o)
		return b
	}
	home := r.home(a)
	if r.Offer == Surplus {
		for _, j := range home {
			want += j.Placement.GPUs()
		}
	}
	b.Rows = r.table(a, o, b, want)
	if len(home) == 0 {
		return b
	}
	// Its own GPUs are on offer too. It would win back the first of its jobs, or
	// all of them and more.
	var back []auction.Share
	for _, j := range home {
		back = add(back, j.Placement)
		row := auction.Row{Take: slices.Clone(back), Rho: r.rho(a, r.power(a, merge(b.Holds, back)), 0)}
		row.Pinned = true
		b.Rows = append(b.Rows, row)
	}
	if more := want - auction.Total(back); more > 0 {
		less := auction.Offer{Machines: slices.Clone(o.Machines)}
		for _, s := range back {
			less.Machines[s.Machine].Free -= s.GPUs
		}
		with := b
		with.Holds = merge(b.Holds, back)
		for _, row := range r.table(a, less, with, more)[1:] {
			row.Take = merge(back, row.Take)
			b.Rows = append(b.Rows, row)
		}
	}
	b.Holds = merge(b.Holds, back) // so that its own nodes are not swapped for similar ones
	if len(b.Rows) > auction.DefaultMaxRows {
		b.Rows = b.Rows[:auction.DefaultMaxRows]
	}
	return b
}

// table returns the rows of a bid for GPUs in addition to those in b.Holds.
func (r *round) table(a *app, o auction.Offer, b auction.Bid, want int) []auction.Row {
	held := auction.Total(b.Holds)
	w := auction.Want{
		App: b.App, Gang: a.gang, Task: a.task, GPUs: want, Holds: b.Holds, Usable: r.usable(a),
		Turn: uint64(a.jobs[0].Seq),
	}
	if r.maker == nil {
		r.maker = auction.NewMaker(o.Machines)
	}
	rows := r.maker.Table(o, w, func(shares []auction.Share) float64 {
		return r.rho(a, r.power(a, shares), auction.Total(shares)-held)
	})
	size := a.groups[0].size
	if size == 1 || !r.bears(a.groups[0], sched.SameRack) {
		return rows
	}
	// An app that does not mind being spread can also use the pieces that others
	// leave.
	for gpus := size; gpus <= min(want, morePieces*size); gpus += size {
		if take := pieces(o, w, gpus); take != nil {
			rows = append(rows, auction.Row{Take: take, Rho: r.rho(a, r.power(a, merge(b.Holds, take)), gpus)})
		}
	}
	return rows
}

// morePieces is the number of gangs of pieces that an app bids for.
const morePieces = 4

// pieces returns GPUs of the machines that have the fewest on offer.
func pieces(o auction.Offer, w auction.Want, gpus int) []auction.Share {
	var all []auction.Share
	for i, m := range o.Machines {
		if free := m.Free - m.Free%max(1, w.Task); free > 0 && w.Usable(m) {
			all = append(all, auction.Share{Machine: i, GPUs: free})
		}
	}
	slices.SortStableFunc(all, func(x, y auction.Share) int { return cmp.Compare(x.GPUs, y.GPUs) })
	var take []auction.Share
	for _, s := range all {
		if k := min(s.GPUs, gpus); k > 0 {
			take = append(take, auction.Share{Machine: s.Machine, GPUs: k})
			gpus -= k
		}
	}
	if gpus > 0 || len(take) < 2 {
		return nil
	}
	return merge(nil, take)
}

// ownRows returns the bid of an app's own agent; the auction checks it. The agent
// saw all GPUs that may be sold, and this round offers a part, so a row that asks
// for more than the offer, but not for more than exists, is left out.
func (r *round) ownRows(bid *sched.Bid, o auction.Offer) []auction.Row {
	nodes := r.s.Cluster.Nodes
	rows := []auction.Row{{Rho: bid.Rho}}
	for _, own := range bid.Rows {
		row := auction.Row{Rho: own.Rho, Pinned: true}
		sold := false
		for _, s := range own.Take {
			row.Take = append(row.Take, auction.Share{Machine: int(s.Node), GPUs: s.GPUs})
			known := s.Node >= 0 && int(s.Node) < len(nodes)
			sold = sold || known && s.GPUs > o.Machines[s.Node].Free && s.GPUs <= nodes[s.Node].Usable().Len()
		}
		if sold {
			continue
		}
		slices.SortStableFunc(row.Take, func(x, y auction.Share) int { return cmp.Compare(x.Machine, y.Machine) })
		rows = append(rows, row)
	}
	return rows
}

// home returns the running jobs of an app whose GPUs are on offer.
func (r *round) home(a *app) []*job {
	var out []*job
	for _, j := range a.jobs {
		if j.expired && !j.won && !j.dropped {
			out = append(out, j)
		}
	}
	return out
}

// add adds a placement to shares, which are by node.
func add(shares []auction.Share, p sched.Placement) []auction.Share {
	more := make([]auction.Share, 0, len(p))
	for _, s := range p {
		more = append(more, auction.Share{Machine: int(s.Node), GPUs: s.GPUs.Len()})
	}
	return merge(shares, more)
}

// merge adds up shares by node.
func merge(a, b []auction.Share) []auction.Share {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y auction.Share) int { return cmp.Compare(x.Machine, y.Machine) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].Machine == s.Machine {
			out[n-1].GPUs += s.GPUs
		} else {
			out = append(out, s)
		}
	}
	return out
}
