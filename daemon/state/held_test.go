// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// after is a job that waits for others.
func after(name string, jobs ...string) api.Submission {
	s := submission(name, 1)
	s.DependsOn = jobs
	return s
}

// runs starts a job and ends it with an exit code.
func (d *desk) runs(id sched.JobID, code int) {
	d.t.Helper()
	d.decide(wants{id: on(0)})
	e := exitOf(id, d.job(id).Status.Starts)
	e.Code = code
	d.exited(e)
}

// queue returns the ids that a policy sees.
func (d *desk) queue() (ids []sched.JobID) {
	d.t.Helper()
	s, err := d.Snapshot(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, j := range s.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func (d *desk) wantQueue(want ...sched.JobID) {
	d.t.Helper()
	if got := d.queue(); !slices.Equal(got, want) {
		d.t.Errorf("the scheduler sees %v; want %v", got, want)
	}
}

// TestDependsOn: a job queues when the job it depends on has finished, and until then
// nothing that policies and fairness look at has it.
func TestDependsOn(t *testing.T) {
	d := open(t)
	prep := d.submit(ann, submission("prep", 1))
	train := d.submit(ann, after("train", "prep"))
	if train != "train-2" {
		t.Fatalf("the job is %s; want train-2", train)
	}
	d.wantQueue(prep)
	j := d.job(train)
	if j.State != api.Waiting || j.Reason == nil || j.Reason.Code != "dependency" || j.Reason.Text != "prep-1 has to finish first" {
		t.Errorf("%s, %+v; want it to wait for prep-1", j.State, j.Reason)
	}
	if !slices.Equal(j.DependsOn, []string{"prep-1"}) {
		t.Errorf("it depends on %v; want the id", j.DependsOn)
	}
	o, err := d.Overview(admin)
	if err != nil || o.Waiting != 2 || o.WaitingFor["dependency"] != 1 {
		t.Errorf("%+v, %v; want 2 that wait, one for a dependency", o, err)
	}
	if s, _ := d.Snapshot(t.Context()); s.Apps() != 1 {
		t.Errorf("%d active apps; want 1", s.Apps())
	}
	d.wantDurable()
	d.clock.add(time.Hour)
	d.runs(prep, 0)
	d.wantQueue(train)
	if j := d.job(train); !j.Submitted.Equal(d.clock.Now()) || j.Accepted.IsZero() || j.Submitted.Sub(j.Accepted) != time.Hour || j.Status.Waited > 0 {
		t.Errorf("submitted %s, accepted %s, waited %s; want its wait to begin now", j.Submitted, j.Accepted, j.Status.Waited)
	}
	d.wantDurable()
	d.runs(train, 0)
	d.wantState(train, api.Finished)
	if got := d.queued(); got != (load{}) {
		t.Errorf("after the end %+v counts as queued; want nothing", got)
	}
}

func (d *desk) queued() load {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.mem.queued.all
}

// TestDependencyFails: who waits for a job to finish that fails or is cancelled is
// cancelled, with the reason, and so is who waits for that; who waits for its end runs.
func TestDependencyFails(t *testing.T) {
	d := open(t)
	prep := d.submit(ann, submission("prep", 1))
	train := d.submit(ann, after("train", "prep"))
	test := d.submit(ann, after("test", "train"))
	clean := d.submit(ann, after("clean", "prep:any", "train:any"))
	d.wantDurable()
	d.runs(prep, 1)
	d.wantState(train, api.Cancelled)
	d.wantState(test, api.Cancelled)
	d.wantQueue(clean)
	for id, want := range map[sched.JobID]string{train: "and prep-1 failed", test: "and train-2 was cancelled"} {
		e, err := d.Explain(ann, id)
		if err != nil || !strings.Contains(e.Job.Why, want) || !strings.Contains(e.Summary, want) {
			t.Errorf("%s: %q, %q, %v; want %q", id, e.Job.Why, e.Summary, err, want)
		}
	}
	d.wantDurable()
	_, err := d.Submit(t.Context(), ann, []api.Submission{after("late", "prep")})
	wantCode(t, "a job that waits for one that has failed", err, api.Conflict)
	if late := d.submit(ann, after("late", "prep:any")); d.job(late).Reason.Code == "dependency" {
		t.Error("a job whose dependency has ended waits for it")
	}
}

// TestDependsWithinRequest: jobs of one request depend on earlier ones by name, also when
// others have that name.
func TestDependsWithinRequest(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("a", 1))
	jobs, err := d.Submit(t.Context(), ann, []api.Submission{submission("a", 1), after("b", "a")})
	if err != nil {
		t.Fatal(err)
	}
	if got := jobs[1].DependsOn; !slices.Equal(got, []string{"a-2"}) {
		t.Errorf("b depends on %v; want a-2", got)
	}
	before := len(d.queue())
	_, err = d.Submit(t.Context(), ann, []api.Submission{after("b", "late"), submission("late", 1)})
	wantCode(t, "a job that waits for a later one", err, api.Unknown)
	_, err = d.Submit(t.Context(), bob, []api.Submission{after("b", "a-2")})
	wantCode(t, "a job that waits for one of another tenant", err, api.Unknown)
	if n := len(d.queue()); n != before {
		t.Errorf("%d jobs queue; want %d: a refused request changes nothing", n, before)
	}
	d.wantDurable()
}

// TestCancelHeld: a job that waits for another can be cancelled, not paused, and its app
// with it.
func TestCancelHeld(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("a", 1))
	b := d.submit(ann, after("b", "a"))
	_, err := d.Command(t.Context(), ann, b, api.Pause)
	wantCode(t, "pause", err, api.Conflict)
	d.command("b", api.Cancel)
	d.wantState(b, api.Cancelled)
	s := after("c", "a")
	s.App = "pipe"
	c := d.submit(ann, s)
	if _, err := d.CommandApp(t.Context(), ann, "pipe", api.Cancel); err != nil {
		t.Fatal(err)
	}
	d.wantState(c, api.Cancelled)
	d.wantQueue("a-1")
	d.wantDurable()
}

// TestHeldInSnapshot: jobs that wait for others survive a compaction, and what has been
// met before it stays met.
func TestHeldInSnapshot(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("a", 1))
	d.submit(ann, submission("b", 1))
	c := d.submit(ann, after("c", "a", "b"))
	d.runs("a-1", 0)
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantDurable()
	again := reopen(t, d.tape.copyTape(), d.clock)
	again.wantQueue("b-2")
	again.runs("b-2", 0)
	again.wantQueue(c)
}

// TestHeldSalvaged: of jobs that wait for others, what stands behind damage comes back, and
// one that has ended does not run again.
func TestHeldSalvaged(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	prep := d.submit(ann, submission("prep", 1))
	train := d.submit(ann, after("train", "prep"))
	before := len(d.tape.records)
	d.runs(prep, 0) // and train is submitted
	behind := len(d.tape.records)
	d.command(train, api.Cancel)
	other := d.submit(ann, submission("other", 1))
	late := d.submit(ann, after("late", "other"))
	damaged := d.tape.copyTape()
	found := damaged.cut(before, behind)
	d = reopen(t, damaged, d.clock, func(c *Config) { c.Seen, c.Lost, c.Found = mark, "a bad page", found })
	d.wantState(train, api.Cancelled)
	if r := d.job(late).Reason; r == nil || r.Code != api.WaitsForJobs {
		t.Errorf("%s waits for %+v; want its dependency", late, r)
	}
	d.runs(other, 0)
	if !slices.Contains(d.queue(), late) || slices.Contains(d.queue(), train) {
		t.Errorf("the scheduler sees %v; want %s among them, not %s", d.queue(), late, train)
	}
	d.wantDurable()
}

// sweepOf submits an array.
func (d *desk) sweepOf(array string, edit ...func(*api.Submission)) []api.Job {
	d.t.Helper()
	s := submission("sweep", 1)
	s.Array = array
	for _, e := range edit {
		e(&s)
	}
	jobs, err := d.Submit(d.t.Context(), ann, []api.Submission{s})
	if err != nil {
		d.t.Fatal(err)
	}
	return jobs
}

// TestArray: an array becomes jobs of one app that know their index, so many at once,
// and is one job to those who ask for it.
func TestArray(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("first", 1))
	jobs := d.sweepOf("0-4%2")
	if len(jobs) != 5 || jobs[3].ID != "sweep-2_3" || jobs[3].App != "blue/sweep-2" && jobs[3].App != "sweep-2" || jobs[3].Member.Index != 3 || jobs[3].Member.Of != 5 {
		t.Fatalf("%+v", jobs)
	}
	d.wantQueue("first-1", "sweep-2_0", "sweep-2_1")
	if r := d.job("sweep-2_4").Reason; r.Code != "array-limit" {
		t.Errorf("%+v; want it to wait for its array", r)
	}
	d.decide(wants{"sweep-2_1": on(1)})
	vars := (&d.Attempts()[0]).Variables()
	if vars["FAIRWAY_ARRAY_INDEX"] != "1" || vars["FAIRWAY_ARRAY"] != "sweep-2" || vars["FAIRWAY_ARRAY_COUNT"] != "5" {
		t.Errorf("the job is told %v", vars)
	}
	j := d.job("sweep")
	if j.ID != "sweep-2" || j.State != api.Starting || j.Members[api.Waiting] != 4 || j.Members[api.Starting] != 1 {
		t.Errorf("the array is %s, %s, %v", j.ID, j.State, j.Members)
	}
	if e, err := d.Explain(ann, "sweep"); err != nil || !strings.HasPrefix(e.Summary, "An array of 5 jobs: 1 starting, 4 waiting.") {
		t.Errorf("%q, %v", e.Summary, err)
	}
	d.wantDurable()
	d.exited(exitOf("sweep-2_1", 1))
	d.wantQueue("first-1", "sweep-2_0", "sweep-2_2")
	if next := d.submit(ann, submission("next", 1)); next != "next-7" {
		t.Errorf("the next job is %s; want next-7: five of six are the array's", next)
	}
	page, err := d.List(ann, api.JobFilter{Fold: true})
	if err != nil || page.Total != 3 || page.Jobs[1].ID != "sweep-2" || page.Jobs[1].Members[api.Finished] != 1 {
		t.Errorf("%+v, %v; want 3 rows, the array second", page, err)
	}
	d.command("sweep", api.Cancel)
	if j := d.job("sweep-2"); j.Members[api.Cancelled] != 4 || j.State != api.Cancelled {
		t.Errorf("the cancelled array is %s, %v", j.State, j.Members)
	}
	d.wantDurable()
}

// TestRecordsOfArray: an array and an app stand for all their jobs.
func TestRecordsOfArray(t *testing.T) {
	d := open(t)
	d.sweepOf("0-1")
	d.sweepOf("0-1", func(s *api.Submission) { s.App = "tune" })
	other := submission("other", 1)
	other.App = "tune"
	d.submit(bob, other) // of another tenant
	for _, c := range []struct {
		who  api.Identity
		f    api.RecordFilter
		want []sched.JobID
	}{
		{ann, api.RecordFilter{Job: "sweep-1"}, []sched.JobID{"sweep-1_0", "sweep-1_1"}},
		{ann, api.RecordFilter{Job: "sweep-1_1"}, []sched.JobID{"sweep-1_1"}},
		{ann, api.RecordFilter{App: "tune"}, []sched.JobID{"sweep-3_0", "sweep-3_1"}},
		{ann, api.RecordFilter{App: "tune", Job: "sweep-1"}, nil},
		{admin, api.RecordFilter{App: "tune"}, []sched.JobID{"sweep-3_0", "sweep-3_1", "other-5"}},
		{bob, api.RecordFilter{Job: "sweep-1"}, nil},
	} {
		page, err := d.Records(c.who, c.f)
		var got []sched.JobID
		for _, r := range page.Records {
			got = append(got, r.Job())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s asks for %+v and gets records of %v, %v; want %v", c.who.User, c.f, got, err, c.want)
		}
	}
}

// TestAfterArray: a job waits for all jobs of an array, and one of them that fails is
// enough to cancel it.
func TestAfterArray(t *testing.T) {
	d := open(t)
	d.sweepOf("0-1")
	all := d.submit(ann, after("all", "sweep"))
	any := d.submit(ann, after("any", "sweep:any"))
	d.runs("sweep-1_0", 0)
	d.wantQueue("sweep-1_1")
	d.runs("sweep-1_1", 1)
	d.wantState(all, api.Cancelled)
	d.wantQueue(any)
	d.wantDurable()
}

// TestArrayPages: every job is on one page, also those of arrays and those that wait.
func TestArrayPages(t *testing.T) {
	d := open(t)
	d.sweepOf("0-6%3")
	d.submit(ann, after("all", "sweep"))
	for fold, want := range map[bool]int{false: 8, true: 2} {
		f, seen := api.JobFilter{Limit: 1, Fold: fold}, map[sched.JobID]bool{}
		for range 20 {
			page, err := d.List(ann, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Jobs {
				seen[j.ID] = true
			}
			if f.After = page.Next; f.After == "" {
				break
			}
		}
		if len(seen) != want {
			t.Errorf("folded %v: %v; want %d jobs", fold, seen, want)
		}
	}
}

// TestArrayKey: an array that is submitted twice with one key exists once.
func TestArrayKey(t *testing.T) {
	d := open(t)
	key := func(s *api.Submission) { s.Key = "k" }
	first := d.sweepOf("1,3,5%1", key)
	again := d.sweepOf("1,3,5%1", key)
	for i := range first {
		if first[i].ID != again[i].ID {
			t.Errorf("job %d is %s and %s; want one", i, first[i].ID, again[i].ID)
		}
	}
}

// TestNamed: a name stands for the only job that has it, or the only one that has not
// ended; otherwise the candidates are named, to those who may see them.
func TestNamed(t *testing.T) {
	d := open(t)
	first := d.submit(ann, submission("x", 1))
	if j, err := d.Job(ann, "x"); err != nil || j.ID != first {
		t.Errorf("%s, %v; want %s", j.ID, err, first)
	}
	last := d.submit(ann, submission("x", 1))
	_, err := d.Job(ann, "x")
	wantCode(t, "an ambiguous name", err, api.Conflict)
	if err == nil || !strings.Contains(err.Error(), "x-2 (waiting), x-1 (waiting)") {
		t.Errorf("%v; want the candidates, newest first", err)
	}
	if j, err := d.Command(t.Context(), ann, first, api.Cancel); err != nil || j.ID != first {
		t.Errorf("%s, %v; want %s", j.ID, err, first)
	}
	if j, err := d.Command(t.Context(), ann, "x", api.Cancel); err != nil || j.ID != last {
		t.Errorf("%s, %v; want the one that had not ended, %s", j.ID, err, last)
	}
	if _, err := d.Job(ann, "x"); err == nil || !strings.Contains(err.Error(), "x-2 (cancelled), x-1 (cancelled)") {
		t.Errorf("%v; want the candidates with what became of them", err)
	}
	if _, err := d.Job(bob, "x"); api.CodeOf(err) != api.Unknown || strings.Contains(err.Error(), string(last)) {
		t.Errorf("%v; want nothing about the jobs of others", err)
	}
}
