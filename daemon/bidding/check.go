// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"errors"
	"fmt"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// checkRho refuses a value that cannot be a finish-time fairness.
func checkRho(rho float64) error {
	if !(rho >= auction.MinRho && rho <= auction.MaxRho) { // also when it is not a number
		return fmt.Errorf("rho = %g; want a number from %g to %g", rho, auction.MinRho, auction.MaxRho)
	}
	return nil
}

// Check returns what is wrong with an answer to the offer, if anything: the rules
// of package auction, and those of the exchange.
func (o Offer) Check(t BidTable) error {
	switch {
	case t.Round != o.Round:
		return fmt.Errorf("round = %d; want that of the offer, %d", t.Round, o.Round)
	case len(t.Rows) > MaxRows:
		return fmt.Errorf("%d rows; want at most %d", len(t.Rows), MaxRows)
	}
	machines, index := o.machines()
	bid := auction.Bid{App: string(o.App.ID), Gang: o.Gang, Task: o.Task, Rows: make([]auction.Row, len(t.Rows))}
	shares := 0
	for i, row := range t.Rows {
		if shares += len(row.Take); shares > MaxShares {
			return fmt.Errorf("row %d: more than %d nodes named in all rows; want fewer rows", i, MaxShares)
		}
		take := make([]auction.Share, len(row.Take))
		for k, s := range row.Take {
			m, known := index[s.Node]
			if !known {
				return fmt.Errorf("row %d: node %.60q has nothing on offer", i, s.Node)
			}
			take[k] = auction.Share{Machine: m, GPUs: s.GPUs}
		}
		bid.Rows[i] = auction.Row{Take: take, Rho: row.Rho}
		// A sum of offered GPUs cannot overflow; more than that is refused below.
		if n := auction.Total(take); n > o.Demand && n <= (auction.Offer{Machines: machines}).GPUs() {
			return fmt.Errorf("row %d: takes %d GPUs; the app can use %d more", i, n, o.Demand)
		}
	}
	_, refused := auction.Check(auction.Offer{Machines: machines}, []auction.Bid{bid}, MaxRows)
	if len(refused) > 0 {
		r := refused[0]
		if r.Row >= 0 {
			return fmt.Errorf("row %d: %s (%s)", r.Row, r.Text, r.Fault)
		}
		return fmt.Errorf("%s (%s)", r.Text, r.Fault)
	}
	return nil
}

// machines returns the offer as the auction sees it, and where each node is.
func (o Offer) machines() ([]auction.Machine, map[string]int) {
	machines, index := make([]auction.Machine, len(o.Free)), make(map[string]int, len(o.Free))
	for i, f := range o.Free {
		machines[i] = auction.Machine{Rack: f.Rack, Type: string(f.Type), Free: f.GPUs}
		index[f.Node] = i
	}
	return machines, index
}

// Fault is how an agent failed.
type Fault string

// The faults.
const (
	Silent   Fault = "silent"   // it cannot be reached
	Slow     Fault = "slow"     // no answer within the deadline
	Refused  Fault = "refused"  // an answer other than 200
	TooLarge Fault = "large"    // an answer over the limit
	Nonsense Fault = "nonsense" // an answer that makes no sense
)

// Error is an agent's failure.
type Error struct {
	Fault Fault
	Err   error
}

func (e *Error) Error() string { return string(e.Fault) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fault(f Fault, format string, args ...any) *Error {
	return &Error{Fault: f, Err: fmt.Errorf(format, args...)}
}

// faultOf returns the fault of an error; Silent if it has none.
func faultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return Silent
}
