// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// makeOffer decides which leases end, renews the others, and returns what is then
// free. Machines are nodes, by index.
func (r *round) makeOffer(bidders []*app, wants []int) auction.Offer {
	worst := bidders[0].expectedRho // they are sorted by it
	o := &offering{round: r, avail: make([]int, len(r.s.Cluster.Nodes)), over: make([][]*job, len(r.s.Cluster.Nodes))}
	r.onOffer = make([][]*job, len(r.s.Cluster.Nodes))
	o.Machines = r.idle()
	for i, m := range o.Machines {
		o.avail[i] = m.Free
	}
	for _, a := range r.apps {
		for _, j := range a.jobs {
			switch {
			case !j.expired:
			case r.Offer == All:
				o.open(j)
			case a.rhoIfLost*headroom >= worst:
				r.renew(j)
			default:
				for _, s := range j.Placement {
					o.over[s.Node] = append(o.over[s.Node], j)
				}
			}
		}
	}
	for _, jobs := range o.over {
		slices.SortFunc(jobs, dearer)
	}
	if r.Offer == Surplus {
		for i, a := range bidders {
			o.serve(a, wants[i])
		}
	}
	for _, jobs := range o.over {
		for _, j := range jobs {
			if !j.won && !j.onOffer && !j.dropped {
				r.renew(j)
			}
		}
	}
	return o.Offer
}

// headroom is how much better off than the worst-off bidder an app must stay
// without its expired leases for them to be offered: moving GPUs between equals
// costs restarts and gains nothing.
const headroom = 1.05

// dearer orders running jobs by what losing them means to their app.
func dearer(a, b *job) int {
	switch {
	case a.app.rhoIfLost != b.app.rhoIfLost:
		return cmp.Compare(a.app.rhoIfLost, b.app.rhoIfLost)
	case a.left != b.left:
		return cmp.Compare(a.left, b.left)
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// offering is an offer under construction.
type offering struct {
	auction.Offer
	*round
	avail []int    // by node: GPUs offered and not yet intended for a bidder
	over  [][]*job // by node: expired leases that could be offered
}

// open adds the GPUs of a running job to the offer.
func (o *offering) open(j *job) {
	j.onOffer = true
	for _, s := range j.Placement {
		o.onOffer[s.Node] = append(o.onOffer[s.Node], j)
		o.Machines[s.Node].Free += s.GPUs.Len()
		o.avail[s.Node] += s.GPUs.Len()
	}
}

// serve opens leases until a bidder could have what it wants: gang by gang, each on
// one node if it fits, where the loss is smallest.
func (o *offering) serve(a *app, want int) {
	size := a.groups[0].size
	if size > o.s.Cluster.MaxGPUs() {
		for _, jobs := range o.over {
			for _, j := range jobs {
				if !j.onOffer {
					o.open(j)
				}
			}
		}
		return
	}
	for ; want > 0; want -= size {
		node := o.fits(size)
		if node < 0 {
			node = o.cheapest(a, size)
		}
		if node < 0 {
			return
		}
		for _, j := range o.over[node] {
			if o.avail[node] >= size {
				break
			}
			if !j.onOffer && j.app != a {
				o.open(j)
			}
		}
		o.avail[node] -= size
	}
}

// fits returns the node with the fewest GPUs among those that have enough, or -1.
func (o *offering) fits(size int) int {
	best := -1
	for n, k := range o.avail {
		if k >= size && (best < 0 || k < o.avail[best]) {
			best = n
		}
	}
	return best
}

// cheapest returns the node on which enough leases can be opened at the least loss,
// or -1: the smallest maximum loss first, then the fewest GPUs.
func (o *offering) cheapest(a *app, size int) int {
	best, bestCost, bestOver := -1, 0.0, 0
	for n, jobs := range o.over {
		have, cost := o.avail[n], 0.0
		for _, j := range jobs {
			if have >= size {
				break
			}
			if !j.onOffer && j.app != a {
				for _, s := range j.Placement {
					if int(s.Node) == n {
						have += s.GPUs.Len()
					}
				}
				cost = j.app.rhoIfLost
			}
		}
		if have < size {
			continue
		}
		if best < 0 || cost < bestCost || cost == bestCost && have < bestOver {
			best, bestCost, bestOver = n, cost, have
		}
	}
	return best
}
