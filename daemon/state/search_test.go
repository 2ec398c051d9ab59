// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func sweep(id sched.AppID) api.SearchSpec {
	return api.SearchSpec{
		ID: id, Parameters: map[string]api.Parameter{"x": {Values: []string{"1", "2"}}}, Metric: api.Metric{Name: "acc", Goal: api.Maximise},
		Trials: 4, AtOnce: 2, Trial: api.Submission{Task: api.Task{Command: []string{"train", "{x}"}}},
	}
}

func (d *desk) create(s api.SearchSpec) api.Search {
	d.t.Helper()
	made, err := d.CreateSearch(d.t.Context(), ann, s)
	if err != nil {
		d.t.Fatal(err)
	}
	return made
}

func (d *desk) noteSearch(r api.SearchRecord) {
	d.t.Helper()
	if err := d.NoteSearch(d.t.Context(), r); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) search() api.Search {
	d.t.Helper()
	s, err := d.Search(ann, "sweep")
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// startTrials proposes, submits and starts trials 0 and 1.
func (d *desk) startTrials() (first, second sched.JobID) {
	d.t.Helper()
	s := d.create(sweep("sweep"))
	d.noteSearch(api.SearchRecord{ID: s.ID, Propose: []api.Proposal{
		{Number: 0, Params: map[string]string{"x": "1"}}, {Number: 1, Params: map[string]string{"x": "2"}},
	}})
	var ids []sched.JobID
	for _, trial := range d.search().Trials {
		ids = append(ids, d.submit(ann, s.Spec.Submission(api.Proposal{Number: trial.Number, Params: trial.Params})))
	}
	d.decide(wants{ids[0]: on(0), ids[1]: on(1)})
	return ids[0], ids[1]
}

func reading(done, acc float64) api.AgentReport {
	return api.AgentReport{Done: done, Point: &api.Point{Metrics: map[string]float64{"acc": acc}}}
}

// TestSearchJournal: what is known about a search is the sum of the records, with
// or without a snapshot in between.
func TestSearchJournal(t *testing.T) {
	d := open(t)
	first, second := d.startTrials()
	d.report(first, 1, reading(1, 0.3))
	d.report(first, 1, reading(2, 0.5))
	d.report(first, 1, reading(1, 0.9)) // done before: no new reading, but a value
	d.report(second, 1, reading(1, 0.1))
	d.report(second, 1, api.AgentReport{Done: 2, Point: &api.Point{Metrics: map[string]float64{"other": 1}}})
	d.noteSearch(api.SearchRecord{ID: "blue/sweep", Promote: []api.Promotion{{Trial: 0, Rung: 1}, {Trial: 9, Rung: 1}},
		Stop: []api.TrialStop{{Trial: 1, Why: "too bad"}}})
	d.command(second, api.Cancel)
	want := d.search()
	if diff := cmp.Diff([]api.CurvePoint{{Done: 1, Value: 0.3}, {Done: 2, Value: 0.5}}, want.Trials[0].Curve); diff != "" {
		t.Error(diff)
	}
	if got := want.Trials[0]; got.Job != first || got.Rung != 1 || *got.Value != 0.9 || got.Done != 2 || got.State != api.Starting {
		t.Errorf("trial 0: %+v", got)
	}
	if got := want.Trials[1]; got.State != api.Cancelled || !got.Early || got.Why != "too bad" || len(got.Curve) != 1 {
		t.Errorf("trial 1: %+v", got)
	}
	if want.Best == nil || *want.Best != 0 || want.ID != "blue/sweep" || want.User != "ann" || want.Tenant != "blue" {
		t.Errorf("%+v", want)
	}
	page, err := d.Records(ann, api.RecordFilter{Job: second, Kind: "job-ended"})
	if err != nil || len(page.Records) != 1 || page.Records[0].Text != "stopped early: too bad" {
		t.Errorf("records %+v, %v; want the reason", page.Records, err)
	}
	check := func(how string, j *tape) {
		again := reopen(t, j, d.clock)
		if diff := cmp.Diff(want, again.search()); diff != "" {
			t.Errorf("%s: the search differs:\n%s", how, diff)
		}
		if open := again.OpenSearches(); len(open) != 1 || open[0].Owner != ann.Owner {
			t.Errorf("%s: open searches %+v; want one that runs as ann", how, open)
		}
	}
	check("records", d.tape.copyTape())
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("snapshot", d.tape.copyTape())
	d.report(first, 1, reading(3, 0.95))
	want = d.search()
	check("snapshot and records", d.tape.copyTape())
}

// The curve of a long training has a bound, and what was in it stays.
func TestSearchCurveIsBounded(t *testing.T) {
	d := open(t)
	first, _ := d.startTrials()
	for i := range 200 {
		d.report(first, 1, reading(float64(i+1), float64(i)))
	}
	before := d.search().Trials[0]
	for i := 200; i < 3000; i++ {
		d.report(first, 1, reading(float64(i+1), float64(i)))
	}
	after := d.search().Trials[0]
	if n := len(after.Curve); n > 300 || n <= len(before.Curve) || !cmp.Equal(before.Curve, after.Curve[:len(before.Curve)]) {
		t.Errorf("%d readings, then %d; want few more, and the same at the front", len(before.Curve), n)
	}
	if after.Done != 3000 || *after.Value != 2999 {
		t.Errorf("done %g, best %g; want the last ones", after.Done, *after.Value)
	}
}

// Notes that were planned on a search as it was earlier are refused.
func TestStaleNotes(t *testing.T) {
	d := open(t)
	d.startTrials()
	propose := func(n int) api.SearchRecord {
		return api.SearchRecord{ID: "blue/sweep", Propose: []api.Proposal{{Number: n, Params: map[string]string{"x": "1"}}}}
	}
	refused := func(r api.SearchRecord, code api.Code) {
		t.Helper()
		if err := d.NoteSearch(t.Context(), r); api.CodeOf(err) != code {
			t.Errorf("%+v: %v; want %s", r, err, code)
		}
	}
	refused(propose(1), api.Conflict)
	refused(propose(3), api.Conflict)
	refused(api.SearchRecord{ID: "red/sweep"}, api.Conflict)
	refused(api.SearchRecord{ID: "blue/sweep", Command: api.Pause}, api.Invalid)
	d.noteSearch(propose(2))
	spec := d.search().Spec
	if _, err := d.CommandApp(t.Context(), ann, "sweep", api.Pause); err != nil {
		t.Fatal(err)
	}
	refused(propose(3), api.Conflict)
	trial := spec.Submission(api.Proposal{Number: 2, Params: map[string]string{"x": "1"}})
	if _, err := d.Submit(t.Context(), ann, []api.Submission{trial}); api.CodeOf(err) != api.Conflict {
		t.Errorf("a trial of a paused search is taken: %v", err)
	}
	if _, err := d.CommandApp(t.Context(), ann, "sweep", api.Cancel); err != nil {
		t.Fatal(err)
	}
	refused(propose(3), api.Conflict)
	if _, err := d.Submit(t.Context(), ann, []api.Submission{trial}); api.CodeOf(err) != api.Conflict {
		t.Errorf("a trial of a search that was cancelled is taken: %v", err)
	}
	if s := d.search(); s.State != api.Cancelled || s.Trials[2].State != api.Cancelled || s.Trials[0].Why != "cancelled by ann" {
		t.Errorf("%+v; want all killed", s)
	}
}

// Searches that have ended are forgotten when they are many; one with a key is
// made once.
func TestSearchesAreForgotten(t *testing.T) {
	d := open(t)
	spec := sweep("kept")
	spec.Key = "once"
	d.create(spec)
	if again := d.create(spec); len(d.OpenSearches()) != 1 || again.ID != "blue/kept" {
		t.Errorf("%d searches; want one", len(d.OpenSearches()))
	}
	for i := range keepSearches + 10 {
		d.create(sweep(sched.AppID(fmt.Sprint("s", i))))
		d.noteSearch(api.SearchRecord{ID: sched.AppID(fmt.Sprint("blue/s", i)), State: api.Failed, Why: "no luck"})
	}
	all, err := d.Searches(ann)
	if err != nil || len(all) != keepSearches+1 || all[0].ID != sched.AppID(fmt.Sprint("blue/s", keepSearches+9)) || all[keepSearches].ID != "blue/kept" {
		t.Errorf("%d searches, %v; want the last %d and the one that goes on", len(all), err, keepSearches)
	}
	if _, err := d.Search(ann, "s0"); api.CodeOf(err) != api.Unknown {
		t.Errorf("the oldest is there: %v", err)
	}
	d.submit(ann, api.Submission{Spec: sched.Spec{App: "taken", GPUs: 1}, Task: api.Task{Command: []string{"a"}}})
	if _, err := d.CreateSearch(t.Context(), ann, sweep("taken")); api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), "another name") {
		t.Errorf("a search takes the name of an app: %v", err)
	}
}

// TestOpenSearchesAreDurable: no job is submitted for a trial that the journal refuses.
func TestOpenSearchesAreDurable(t *testing.T) {
	d := open(t)
	id := d.create(sweep("sweep")).ID
	entered, release := d.tape.hold()
	proposed := make(chan error, 1)
	go func() {
		proposed <- d.NoteSearch(context.Background(), api.SearchRecord{ID: id, Propose: []api.Proposal{{Number: 0}}})
	}()
	<-entered
	seen := make(chan []api.OpenSearch, 1)
	go func() { seen <- d.OpenSearches() }()
	time.Sleep(20 * time.Millisecond) // it reads what is not durable yet, or waits
	release(errDisk)
	if err := <-proposed; err == nil {
		t.Error("a proposal that the journal refused was accepted")
	}
	if open := <-seen; len(open) != 1 || len(open[0].Trials) != 0 {
		t.Errorf("open searches %+v; want one without trials", open)
	}
}
