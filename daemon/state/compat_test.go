// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/api/apitest"
)

// TestV01Journal: a snapshot and records of version 0.1 in which no field is empty
// are read and written without loss. What they mean is for e2e.TestV01Data, which
// starts a daemon on a folder of that version.
func TestV01Journal(t *testing.T) {
	snapshot, err := os.ReadFile("testdata/v0.1/snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, old []byte, into any) {
		lost, err := apitest.RoundTrip(old, into)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, l := range lost {
			t.Errorf("%s: %s", what, l)
		}
	}
	check("snapshot", snapshot, new(Saved))
	for _, line := range apitest.Lines[json.RawMessage](t, "testdata/v0.1/records.jsonl") {
		record := new(api.Record)
		check("record", line, record)
		if record.Event == nil {
			t.Errorf("record %.80s has no event", line)
		}
	}
}
