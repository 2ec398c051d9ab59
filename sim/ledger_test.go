// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
)

func TestLedger(t *testing.T) {
	r := run{now: 90 * time.Second}
	r.recordTrades(nil)
	var b strings.Builder
	if err := r.ledger.Print(&b, 10); err != nil || b.String() != "Ledger: nobody weighed up moving a job\n" {
		t.Errorf("an empty ledger prints as %q, %v", b.String(), err)
	}
	r.recordTrades([]sched.LedgerEntry{
		{Layer: "z", For: "a", Moved: []sched.JobID{"b", "c"}, Cost: 360, Gain: 7200, Taken: true, Text: "a for b and c"},
		{Layer: "b", For: "d", Moved: []sched.JobID{"e"}, Cost: 720, Gain: 36, Text: "d for e"},
	})
	r.now = 2 * time.Hour
	r.recordTrades([]sched.LedgerEntry{{Layer: "z", For: "f", Moved: []sched.JobID{"f"}, Cost: 36, Gain: 3600, Taken: true, Text: "f for itself"}})
	b.Reset()
	if err := r.ledger.Print(&b, 2); err != nil {
		t.Fatal(err)
	}
	want := `Ledger
  b: 0 trades taken, 0 jobs moved, cost 0.00 GPU-h, gain 0.00 GPU-h; 1 refused, cost 0.20, gain 0.01
  z: 2 trades taken, 3 jobs moved, cost 0.11 GPU-h, gain 3.00 GPU-h; 0 refused, cost 0.00, gain 0.00
         1m30s  taken    a for b and c
         1m30s  refused  d for e
  ... and 1 more
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("print (-want +got):\n%s", d)
	}
	data, err := json.Marshal(r.ledger)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"t_s":7200,"layer":"z","for":"f","moved":["f"],"cost":36,"gain":3600,"taken":true,"text":"f for itself"}`; !strings.Contains(string(data), want) {
		t.Errorf("JSON %s lacks %s", data, want)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	for i := range mostLedger + 5 {
		l.add(0, sched.LedgerEntry{Layer: "x", For: sched.JobID(fmt.Sprint(i)), Cost: 1})
	}
	if len(l.Entries) != mostLedger || l.Dropped != 5 || l.Layers[0].Refused != mostLedger+5 {
		t.Errorf("%d entries, %d dropped, %d counted; want %d, 5 and all", len(l.Entries), l.Dropped, l.Layers[0].Refused, mostLedger)
	}
}
