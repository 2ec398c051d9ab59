// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package biddertest

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/daemon/bidding"
)

// Reference is an agent of an app whose work is known: it goes as fast as it has
// GPUs, and slower for every further node it is spread over.
type Reference struct {
	Work   float64 // GPU-seconds in all
	Done   float64 // of these
	Spread float64 // part of the speed that a further node costs

	mu   sync.Mutex
	wins []bidding.Win
}

var _ bidding.Agent = (*Reference)(nil)

// Rho implements bidding.Agent.
func (r *Reference) Rho(_ context.Context, q bidding.RhoQuery) (bidding.RhoReply, error) {
	return bidding.RhoReply{Rho: r.rho(q.App, q.Now, q.Lease, nil)}, nil
}

// Bid implements bidding.Agent: one row for every number of gangs, on the fewest
// nodes that have them.
func (r *Reference) Bid(_ context.Context, o bidding.Offer) (bidding.BidTable, error) {
	present := r.rho(o.App, o.Now, o.Lease, nil)
	t := bidding.BidTable{Round: o.Round, Rows: []bidding.Row{{Take: []bidding.Share{}, Rho: present}}}
	free := slices.Clone(o.Free)
	slices.SortStableFunc(free, func(a, b bidding.Free) int { return cmp.Compare(b.GPUs, a.GPUs) })
	task, gang := max(1, o.Task), max(1, o.Gang)
	best := present
	// Fewer rows of larger steps, if there would be too many.
	step := gang * max(1, o.Demand/gang/64)
	for gpus := gang; gpus <= o.Demand; gpus += step {
		take, ok := fewest(free, gpus, task)
		if !ok {
			break
		}
		if rho := r.rho(o.App, o.Now, o.Lease, take); rho < best {
			best = rho
			t.Rows = append(t.Rows, bidding.Row{Take: take, Rho: rho})
		}
	}
	return t, nil
}

// fewest takes GPUs of nodes, the emptiest first, in whole tasks.
func fewest(free []bidding.Free, gpus, task int) (take []bidding.Share, ok bool) {
	for _, f := range free {
		n := min(gpus, f.GPUs-f.GPUs%task)
		if n > 0 {
			take = append(take, bidding.Share{Node: f.Node, GPUs: n})
			gpus -= n
		}
		if gpus == 0 {
			return take, true
		}
	}
	return nil, false
}

// Win implements bidding.Agent.
func (r *Reference) Win(_ context.Context, w bidding.Win) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wins = append(r.wins, w)
	return nil
}

// Wins returns what the agent was told.
func (r *Reference) Wins() []bidding.Win {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wins)
}

// rho returns the finish-time fairness with some GPUs on top of those held: the
// app has them for one lease, and after that its equal share at least.
func (r *Reference) rho(a bidding.App, now time.Time, lease float64, take []bidding.Share) float64 {
	share := max(1, float64(a.ClusterGPUs)/max(1, a.Contention))
	left := max(1, r.Work-r.Done)
	elapsed := max(0, now.Sub(a.Submitted).Seconds())
	gpus, nodes := 0, map[string]bool{}
	for _, s := range slices.Concat(a.Holds, take) {
		gpus += s.GPUs
		nodes[s.Node] = true
	}
	speed := float64(gpus) * math.Pow(1-r.Spread, float64(max(0, len(nodes)-1)))
	end := lease + (left-speed*lease)/max(share, speed)
	if speed*lease >= left {
		end = left / speed
	}
	return max(0.001, (elapsed+end)/max(1, r.Work/share))
}
