// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package spare

import (
	"math"
	"time"
)

// Case is what the price of spares depends on.
//
// Nodes that are being repaired are the customers of an Erlang loss system. With n
// spares a gang stands still while n+1 nodes are away, and then none of its nodes fails.
// The part of the time that it does is Erlang's B formula for n+1 servers. If the gang
// waits for a bounded time only, its nodes fail all the time: the number of those away
// has the Poisson distribution, and a failure costs the wait if no spare is left. Both
// hold for every distribution of repair times.
type Case struct {
	Nodes  int           // in use
	Rate   float64       // failures in an hour that take a node out of use, for each node
	Repair time.Duration // mean time until a node is back
	// Gang is the number of GPUs that stand still while a node is missing. Of several
	// jobs, it is the mean size of the job that a GPU belongs to.
	Gang float64
	GPUs int // of a node: what a spare costs
	// Wait is how long a gang stands still at most: until it is given a node from
	// elsewhere, or goes on without. 0: until a node is repaired.
	Wait time.Duration
}

// Still returns the part of the time that a gang stands still with that many spares.
func (c Case) Still(spares int) float64 {
	perHour := float64(c.Nodes) * c.Rate
	away := perHour * c.Repair.Hours() // nodes on average
	if !(away > 0) {
		return 0
	}
	blocked := 1.0
	for k := 1; k <= spares+1; k++ {
		blocked = away * blocked / (float64(k) + away*blocked)
	}
	if c.Wait > 0 {
		none := 1.0 // probability that no spare is left
		for k, p := 0, math.Exp(-away); k < spares; k++ {
			none -= p
			p *= away / float64(k+1)
		}
		waits := perHour * c.Wait.Hours() * max(0, none)
		blocked = min(blocked, waits/(1+waits))
	}
	return blocked
}

// Gain returns the GPUs that this many spares add on average: those that do not stand
// still, less the spares.
func (c Case) Gain(spares int) float64 {
	return c.Gang*(c.Still(0)-c.Still(spares)) - float64(spares*c.GPUs)
}

// Pays returns the number of spares that gain the most.
func (c Case) Pays() int {
	best := 0
	for n := 1; n <= c.Nodes && float64(n*c.GPUs) < c.Gang*c.Still(0); n++ {
		if c.Gain(n) > c.Gain(best) {
			best = n
		}
	}
	return best
}
