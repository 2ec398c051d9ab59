// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// TestWeek: bob waits for ann, who holds three quarters of the GPUs, and for himself; then
// his job fails.
func TestWeek(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(h int) time.Time { return begin.Add(time.Duration(h) * time.Hour) }
	submit := func(h int, id sched.JobID, user string) api.Record {
		return api.Record{At: at(h), Event: &sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: id, User: user}}}
	}
	on := func(gpus sched.GPUSet) sched.Placement {
		return sched.Placement{{Node: 0, GPUs: gpus, Milli: sched.WholeGPU}}
	}
	records := []api.Record{
		{At: at(0), Event: &sched.Event{Kind: sched.NodeJoined}},
		submit(0, "a", "ann"),
		submit(0, "b", "bob"),
		{At: at(1), Event: &sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0b111)}},
		{At: at(1), Event: &sched.Event{Kind: sched.JobStarted, Job: "b", Placement: on(0b1000)}},
		submit(2, "c", "bob"),
		{At: at(6), Event: &sched.Event{Kind: sched.JobHeld, Job: "c", Paused: true}},
		{At: at(8), Event: &sched.Event{Kind: sched.JobHeld, Job: "c"}},
		{At: at(10), Event: &sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished}},
		{At: at(10), Exit: &api.Exit{AttemptID: api.AttemptID{Job: "b", Number: 1}, Finding: &diagnose.Finding{Reason: "oom", Text: "out of memory", Retry: diagnose.Rule{Say: "use less"}}}},
		{At: at(10), Event: &sched.Event{Kind: sched.JobEnded, Job: "b", Phase: sched.Failed}},
		{At: at(12), Event: &sched.Event{Kind: sched.JobEnded, Job: "c", Phase: sched.Cancelled}},
		submit(21, "d", "ann"),
		{At: at(22), Event: &sched.Event{Kind: sched.JobEnded, Job: "d", Phase: sched.Failed, Text: "it ran for its time limit"}},
	}
	const h = 3600
	want := []Wait{{"bob", "ann", 4.5 * h}, {"bob", "", 2 * h}, {"bob", "bob", 1.5 * h}}
	if diff := cmp.Diff(want, Waits(records, at(1), at(20)), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Failure{{Reason: "oom", Text: "out of memory", Attempts: 1, Jobs: []sched.JobID{"b"}, Users: []string{"bob"}, Advice: "use less"}}, Failures(records, at(1), at(20)), cmpopts.IgnoreFields(Failure{}, "Category")); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if got := Failures(records, at(11), at(20)); len(got) != 0 {
		t.Errorf("%+v after the failure; want none", got)
	}
	limit := []Failure{{Reason: "it ran for its time limit", Text: "it ran for its time limit", Attempts: 1, Jobs: []sched.JobID{"d"}, Users: []string{"ann"}}}
	if diff := cmp.Diff(limit, Failures(records, at(11), at(30))); diff != "" {
		t.Errorf("failures without an exit (-want +got):\n%s", diff)
	}
	exit := func(code int) api.Record {
		return api.Record{At: at(40), Exit: &api.Exit{AttemptID: api.AttemptID{Job: "d", Number: code}, Code: code,
			Finding: &diagnose.Finding{Reason: diagnose.ReasonUnknown, Text: "not known"}}}
	}
	if got := Failures([]api.Record{exit(7), exit(3), exit(7)}, at(39), at(41)); len(got) != 2 || got[0].Text != "exit code 7, and not known" || got[0].Attempts != 2 {
		t.Errorf("%+v; want each exit code that nothing explains for itself", got)
	}
	if got := Within(records, at(10), at(11)); len(got) != 4 || got[0].Event.Kind != sched.NodeJoined {
		t.Errorf("%d records; want the node and the three of that time", len(got))
	}
}
