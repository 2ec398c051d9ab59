// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package federate chooses among clusters: where a job is submitted, and when one that
// waits should move. It asks nobody and remembers nothing; callers bring what each cluster
// has answered.
package federate

import (
	"cmp"
	"time"
)

// Offer is what a cluster says about a job.
type Offer struct {
	Never bool          // the job can never run there
	Known bool          // Wait is known
	Wait  time.Duration // until the expected start
	Price float64       // of a GPU hour; 0: none is set
	Ousts int           // running jobs that would have to make room
}

// Rule says what a choice is made by.
type Rule struct {
	// Patience is how much later than the earliest a cheaper cluster may start the job.
	Patience time.Duration
	// A waiting job moves if it starts earlier by Least, and by this part of its wait: an
	// expected start is no promise, and a job that moves goes to the end of a queue.
	Least time.Duration
	Part  float64
}

// Default is the rule of the command line and of the simulation.
var Default = Rule{Least: time.Minute, Part: 0.25}

// Choose returns the index of the offer to take: the cheapest of those that start the job
// no more than Patience after the earliest; of equals the earlier start, then the one that
// ousts fewer jobs, then the first. An offer without an expected start counts only if none
// has one. ok is false if the job can run nowhere.
func (r Rule) Choose(offers []Offer) (best int, ok bool) {
	var earliest time.Duration
	known := false
	for _, o := range offers {
		if !o.Never && o.Known && (!known || o.Wait < earliest) {
			earliest, known = o.Wait, true
		}
	}
	best = -1
	for i, o := range offers {
		if o.Never || o.Known != known || known && o.Wait > earliest+r.Patience {
			continue
		}
		if best < 0 || o.compare(offers[best]) < 0 {
			best = i
		}
	}
	return max(best, 0), best >= 0
}

func (o Offer) compare(p Offer) int {
	return cmp.Or(cmp.Compare(o.Price, p.Price), cmp.Compare(o.Wait, p.Wait), cmp.Compare(o.Ousts, p.Ousts))
}

// Move returns the offer that a waiting job should move to; ok is false if it should stay.
// stay is what its own cluster says, as it waits there now. A job moves only to an earlier
// start, never for a price: it would lose its place in the queue for that.
func (r Rule) Move(stay Offer, offers []Offer) (best int, ok bool) {
	if !stay.Known || stay.Never {
		return 0, false // nothing says what would be gained
	}
	if best, ok = r.Choose(offers); !ok || !offers[best].Known {
		return 0, false
	}
	gain := stay.Wait - offers[best].Wait
	return best, gain >= r.Least && gain.Seconds() >= r.Part*stay.Wait.Seconds()
}
