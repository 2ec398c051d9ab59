// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"fmt"
)

// Machine is one machine of the offer. Machines of one Rack, Type and Kind are
// interchangeable except for their free GPUs: a bid for some of them may be served
// by others.
type Machine struct {
	Rack string
	Type string // of its GPUs
	Kind string // any other property that matters, such as its islands; may be empty
	Free int    // GPUs on offer, 0 to MaxFree
}

// MaxFree is the most GPUs that one machine may offer.
const MaxFree = 256

// Offer is what is for sale. A machine is identified by its index; machines without
// free GPUs may be listed, and must be if an app holds GPUs on them.
type Offer struct {
	Machines []Machine
}

// GPUs returns how many GPUs are on offer.
func (o Offer) GPUs() int {
	sum := 0
	for _, m := range o.Machines {
		sum += m.Free
	}
	return sum
}

func (o Offer) check() error {
	for i, m := range o.Machines {
		if m.Free < 0 || m.Free > MaxFree {
			return fmt.Errorf("machine %d: free = %d; want 0 to %d", i, m.Free, MaxFree)
		}
	}
	return nil
}

// Share is a number of GPUs of one machine.
type Share struct {
	Machine int
	GPUs    int
}

// Total returns the number of GPUs of all shares.
func Total(shares []Share) int {
	sum := 0
	for _, s := range shares {
		sum += s.GPUs
	}
	return sum
}

// Row is one line of a bid: with these GPUs in addition to what the app holds, its
// finish-time fairness would be Rho. The row that takes nothing gives the current
// value.
type Row struct {
	Take   []Share
	Rho    float64
	Pinned bool // exactly these machines, not others like them
}

// Bid is the table of one app.
type Bid struct {
	App  string
	Gang int // GPUs come in multiples of this; 0 stands for 1
	Task int // GPUs of one machine come in multiples of this; 0 stands for 1; divides Gang
	Rows []Row

	// Holds is what the app already has, outside the offer. It comes from the
	// seller, not from the bidder. A row that takes GPUs of a machine where the app
	// holds some means exactly that machine.
	Holds []Share
}

func (b Bid) gang() int { return max(1, b.Gang) }
func (b Bid) task() int { return max(1, b.Task) }

// The range of rho that is accepted. It bounds the weight of a single bid.
const (
	MinRho = 1e-6
	MaxRho = 1e9
)

// Fault says why a bid was refused.
type Fault uint8

// The faults of a bid.
const (
	NoName        Fault = iota + 1 // the bid has no app name
	SameName                       // several bids have this name: all of them are refused
	BadGang                        // gang or task size is negative, or does not divide
	TooManyRows                    // more rows than the limit
	NoPresent                      // there is no row that takes nothing
	TwoPresents                    // there are two rows that take nothing
	BadRho                         // rho is not a number from MinRho to MaxRho
	BadShare                       // the machine does not exist, or the number of GPUs is not positive
	SameMachine                    // a row names a machine twice
	MoreThanOffer                  // more GPUs of a machine than are on offer
	NotWhole                       // not a multiple of the gang or task size
)

func (f Fault) String() string {
	names := [...]string{
		NoName: "no-name", SameName: "same-name", BadGang: "bad-gang", TooManyRows: "too-many-rows",
		NoPresent: "no-present", TwoPresents: "two-presents", BadRho: "bad-rho", BadShare: "bad-share",
		SameMachine: "same-machine", MoreThanOffer: "more-than-offer", NotWhole: "not-whole",
	}
	if int(f) < len(names) && names[f] != "" {
		return names[f]
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// Refusal is a bid that does not take part. It does not affect other bids.
type Refusal struct {
	App   string
	Bid   int // index among the bids
	Row   int // index of the faulty row; -1: the whole bid is at fault
	Fault Fault
	Text  string
}
