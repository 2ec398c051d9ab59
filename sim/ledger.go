// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// mostLedger bounds the entries in a result; the sums count all of them.
const mostLedger = 10_000

// Ledger is the list of trades that layers considered during a run, in GPU-seconds.
type Ledger struct {
	Layers  []LedgerSum   `json:"layers"`            // by name
	Entries []LedgerPoint `json:"entries"`           // by time: the first mostLedger
	Dropped int           `json:"dropped,omitempty"` // later entries
}

// LedgerSum sums the trades of one layer.
type LedgerSum struct {
	Layer       string  `json:"layer"`
	Taken       int     `json:"taken"`
	Moved       int     `json:"moved"` // jobs, in trades that were made
	Cost        float64 `json:"cost"`  // expected, of trades that were made
	Gain        float64 `json:"gain"`
	Refused     int     `json:"refused"`
	RefusedCost float64 `json:"refused_cost"`
	RefusedGain float64 `json:"refused_gain"`
}

// LedgerPoint is one trade, at T seconds since the start of the workload.
type LedgerPoint struct {
	T float64 `json:"t_s"`
	sched.LedgerEntry
}

// recordTrades records the trades of a decision.
func (r *run) recordTrades(entries []sched.LedgerEntry) {
	for _, e := range entries {
		if r.ledger == nil {
			r.ledger = &Ledger{}
		}
		r.ledger.add(r.now, e)
	}
}

func (l *Ledger) add(now time.Duration, e sched.LedgerEntry) {
	at, known := slices.BinarySearchFunc(l.Layers, e.Layer, func(s LedgerSum, name string) int { return strings.Compare(s.Layer, name) })
	if !known {
		l.Layers = slices.Insert(l.Layers, at, LedgerSum{Layer: e.Layer})
	}
	sum := &l.Layers[at]
	if e.Taken {
		sum.Taken++
		sum.Moved += len(e.Moved)
		sum.Cost += e.Cost
		sum.Gain += e.Gain
	} else {
		sum.Refused++
		sum.RefusedCost += e.Cost
		sum.RefusedGain += e.Gain
	}
	if len(l.Entries) == mostLedger {
		l.Dropped++
		return
	}
	l.Entries = append(l.Entries, LedgerPoint{now.Seconds(), e})
}

// Print writes the ledger as text: the sums, then at most that many trades.
func (l *Ledger) Print(w io.Writer, most int) error {
	var b strings.Builder
	if l == nil {
		b.WriteString("Ledger: nobody weighed up moving a job\n")
	} else {
		b.WriteString("Ledger\n")
		for _, s := range l.Layers {
			fmt.Fprintf(&b, "  %s: %d trades taken, %d jobs moved, cost %.2f GPU-h, gain %.2f GPU-h; %d refused, cost %.2f, gain %.2f\n",
				s.Layer, s.Taken, s.Moved, s.Cost/3600, s.Gain/3600, s.Refused, s.RefusedCost/3600, s.RefusedGain/3600)
		}
		for _, e := range l.Entries[:min(most, len(l.Entries))] {
			verdict := "refused"
			if e.Taken {
				verdict = "taken"
			}
			fmt.Fprintf(&b, "  %12s  %-7s  %s\n", time.Duration(e.T*1e9).Round(time.Second), verdict, e.Text)
		}
		if left := len(l.Entries) + l.Dropped - most; left > 0 {
			fmt.Fprintf(&b, "  ... and %d more\n", left)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
