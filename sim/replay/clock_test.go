// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestStraighten: times that were recorded with a clock that was ahead are set back, and
// the caller's records stay as they are.
func TestStraighten(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	const month = 30 * 24 * time.Hour
	ends := noon.Add(2 * month)
	records := []api.Record{
		{Seq: 1, At: noon, Event: &sched.Event{Kind: sched.JobSubmitted, At: noon, Spec: &sched.Spec{ID: "x", Submitted: noon}}},
		{Seq: 2, At: noon.Add(month), Event: &sched.Event{Kind: sched.JobStarted, At: noon.Add(month), Job: "x"}, Basis: &api.Basis{Now: noon.Add(month)}},
		{Seq: 3, At: noon.Add(month), Token: &api.Token{Role: api.User, Expires: ends}},
		{Seq: 4, At: noon.Add(time.Minute), SetBack: sched.Duration(month)},
		{Seq: 5, At: noon.Add(2 * month)},
	}
	got, err := straighten(records)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want time.Time }{
		"before": {got[0].Event.Spec.Submitted, noon}, "record": {got[1].At, noon}, "event": {got[1].Event.At, noon}, "basis": {got[1].Basis.Now, noon},
		"token": {got[2].Token.Expires, ends}, "after": {got[4].At, ends}, "the caller's": {records[1].Event.At, noon.Add(month)},
	} {
		if !c.got.Equal(c.want) {
			t.Errorf("%s: %s; want %s", name, c.got, c.want)
		}
	}
}
