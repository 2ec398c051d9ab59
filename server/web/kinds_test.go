// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// oneOfEach returns a record of each kind.
func oneOfEach(t *testing.T) []api.Record {
	t.Helper()
	search := func(r api.SearchRecord) api.Record { r.ID = "s"; return api.Record{Search: &r} }
	node := func(s diagnose.NodeState) api.Record {
		return api.Record{Event: &sched.Event{Kind: sched.NodeJoined}, Quarantine: &diagnose.NodeChange{State: s}}
	}
	list := []api.Record{
		{Event: &sched.Event{Kind: sched.JobReported}, SaveFailed: "disk full"}, {Event: &sched.Event{Kind: sched.JobNoted}, Warning: "look"},
		{Accepted: &sched.Spec{ID: "x-1"}}, {Exit: &api.Exit{}}, {Policy: "las"}, {Token: &api.Token{}}, {Bidder: &api.Bidder{}}, {Text: "a word"}, {Epoch: &api.Epoch{}}, {SetBack: 1},
		{Damage: &api.Damage{Text: "a page"}}, {Damage: &api.Damage{}},
		search(api.SearchRecord{Spec: &api.SearchSpec{}}), search(api.SearchRecord{}), search(api.SearchRecord{State: api.Finished}),
		node(diagnose.InUse), node(diagnose.Quarantined), node(diagnose.Withheld),
	}
	for k := range sched.EventKinds() {
		list = append(list, api.Record{Event: &sched.Event{Kind: sched.EventKind(k)}})
	}
	var got []string
	for i := range list {
		got = append(got, list[i].Kind())
	}
	want := api.Kinds()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("records of the kinds %v; want %v", got, want)
	}
	return list
}

// TestKinds: the filter of the page offers every kind that the API has.
func TestKinds(t *testing.T) {
	source, err := os.ReadFile("events.js")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)const kinds = \[(.*?)\]`).FindSubmatch(source)
	if list == nil {
		t.Fatal("events.js has no list of kinds")
	}
	var got []string
	for _, m := range regexp.MustCompile(`'([a-z-]+)'`).FindAllSubmatch(list[1], -1) {
		got = append(got, string(m[1]))
	}
	want := api.Kinds()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the page offers %v; want %v", got, want)
	}
}

// testKinds: the page names the kind of every record as the API does.
func testKinds(t *testing.T, w window) {
	f := newFake()
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	for _, r := range oneOfEach(t) {
		record, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got := eval[string](p, fmt.Sprintf("import('/feed.js').then((m) => m.kindOf(%s))", record)); got != r.Kind() {
			t.Errorf("the page calls %s %q; want %q", record, got, r.Kind())
		}
	}
	p.silent()
}
