// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
)

// TestMirrored: jobs with an origin are found, before and after a restart.
func TestMirrored(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("plain", 1))
	made := submission("made", 1)
	made.Origin, made.Key = "TrainingJob/team/made", "uid-1"
	id := d.submit(ann, made)
	over := submission("over", 1)
	over.Origin, over.Key = "TrainingJob/team/over", "uid-2"
	gone := d.submit(bob, over)
	d.command(gone, api.Cancel)
	want := []Mirrored{
		{ID: id, Tenant: "blue", Origin: "TrainingJob/team/made", Key: "uid-1"},
		{ID: gone, Tenant: "red", Origin: "TrainingJob/team/over", Key: "uid-2", Ended: true},
	}
	for name, b := range map[string]*desk{"first": d, "reopened": reopen(t, d.tape.copyTape(), d.clock)} {
		got, seq := b.Mirrored()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		page, err := b.Records(admin, api.RecordFilter{Limit: api.MaxPage})
		if err != nil || seq != page.Next {
			t.Errorf("%s: up to record %d, %v; want %d", name, seq, err, page.Next)
		}
	}
}
