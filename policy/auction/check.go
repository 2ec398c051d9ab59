// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultMaxRows is the default limit on the rows of a bid.
const DefaultMaxRows = 1024

// Check validates bids, which may come from strangers. It returns the indexes of
// the valid ones, in order of app name, and a refusal for each of the others, in
// the same order. maxRows of 0 stands for DefaultMaxRows.
func Check(o Offer, bids []Bid, maxRows int) (good []int, refused []Refusal) {
	if maxRows <= 0 {
		maxRows = DefaultMaxRows
	}
	named := map[string]int{}
	order := make([]int, len(bids))
	for i, b := range bids {
		named[b.App]++
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(bids[a].App, bids[b].App) })
	c := checker{offer: o, maxRows: maxRows, seen: make([]int, len(o.Machines))}
	for _, i := range order {
		b := bids[i]
		refusal := c.bid(b)
		if refusal == nil && named[b.App] > 1 {
			refusal = whole(SameName, "%d bids bear this name; an app has one", named[b.App])
		}
		if refusal == nil {
			good = append(good, i)
			continue
		}
		refusal.App, refusal.Bid = b.App, i
		refused = append(refused, *refusal)
	}
	return good, refused
}

type checker struct {
	offer   Offer
	maxRows int
	seen    []int // by machine: stamp of the row that named it last
	stamp   int
}

func whole(f Fault, format string, args ...any) *Refusal {
	return &Refusal{Row: -1, Fault: f, Text: fmt.Sprintf(format, args...)}
}

func (c *checker) bid(b Bid) *Refusal {
	switch {
	case b.App == "":
		return whole(NoName, "app is empty; a bid needs a name")
	case b.Gang < 0 || b.Task < 0 || b.gang()%b.task() != 0:
		return whole(BadGang, "gang = %d, task = %d; want 0 or more, and the task to divide the gang", b.Gang, b.Task)
	case len(b.Rows) > c.maxRows:
		return whole(TooManyRows, "%d rows; want at most %d", len(b.Rows), c.maxRows)
	}
	for _, s := range b.Holds {
		if s.Machine < 0 || s.Machine >= len(c.offer.Machines) || s.GPUs < 0 {
			return whole(BadShare, "holds %d GPUs of machine %d; want machines 0 to %d", s.GPUs, s.Machine, len(c.offer.Machines)-1)
		}
	}
	presents := 0
	for i, row := range b.Rows {
		if r := c.row(b, row); r != nil {
			r.Row = i
			return r
		}
		if len(row.Take) == 0 {
			presents++
		}
	}
	switch {
	case presents == 0:
		return whole(NoPresent, "no row takes nothing; one must say what rho is now")
	case presents > 1:
		return whole(TwoPresents, "%d rows take nothing; want one", presents)
	}
	return nil
}

func (c *checker) row(b Bid, row Row) *Refusal {
	if !(row.Rho >= MinRho && row.Rho <= MaxRho) { // also false for NaN
		return whole(BadRho, "rho = %g; want a number from %g to %g", row.Rho, MinRho, MaxRho)
	}
	c.stamp++
	total := 0
	for _, s := range row.Take {
		switch {
		case s.Machine < 0 || s.Machine >= len(c.offer.Machines):
			return whole(BadShare, "machine %d does not exist; there are %d", s.Machine, len(c.offer.Machines))
		case s.GPUs <= 0:
			return whole(BadShare, "takes %d GPUs of machine %d; want 1 or more", s.GPUs, s.Machine)
		case c.seen[s.Machine] == c.stamp:
			return whole(SameMachine, "names machine %d twice", s.Machine)
		case s.GPUs > c.offer.Machines[s.Machine].Free:
			return whole(MoreThanOffer, "takes %d GPUs of machine %d, which offers %d", s.GPUs, s.Machine, c.offer.Machines[s.Machine].Free)
		case s.GPUs%b.task() != 0:
			return whole(NotWhole, "takes %d GPUs of machine %d; want a multiple of the task, %d", s.GPUs, s.Machine, b.task())
		}
		c.seen[s.Machine] = c.stamp
		total += s.GPUs
	}
	if total%b.gang() != 0 {
		return whole(NotWhole, "takes %d GPUs; want a multiple of the gang, %d", total, b.gang())
	}
	return nil
}
