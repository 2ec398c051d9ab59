// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/tune"
)

// account is what must be true of every search that has ended by itself.
func account(t failer, w *world, s api.Search, trials int) {
	t.Helper()
	page, err := w.state.List(ann, api.JobFilter{App: "sweep", Limit: 1000})
	if err != nil || page.Total != trials || len(s.Trials) != trials {
		t.Fatalf("%d trials and %d jobs, %v; want %d", len(s.Trials), page.Total, err, trials)
	}
	best := math.Inf(1)
	winner := -1
	jobs := map[string]bool{}
	for i, trial := range s.Trials {
		if trial.Number != i || trial.Job == "" || jobs[string(trial.Job)] || !api.HasEnded(trial.State) {
			t.Fatalf("trial %d: %+v", i, trial)
		}
		jobs[string(trial.Job)] = true
		j, err := w.state.Job(ann, trial.Job)
		if err != nil || j.State != trial.State || j.Env["FAIRWAY_PARAM_X"] != trial.Params["x"] || j.Command[1] != "--x="+trial.Params["x"] || j.Command[2] != "{y}" {
			t.Fatalf("trial %d: %+v, its job: %+v, %v", i, trial, j, err)
		}
		if trial.Early != (trial.State == api.Cancelled) || (trial.Why == "") != (trial.State == api.Finished) {
			t.Fatalf("trial %d: %+v", i, trial)
		}
		if trial.Value != nil && *trial.Value < best && trial.State != api.Failed {
			best, winner = *trial.Value, i
		}
	}
	if s.Best == nil || *s.Best != winner || s.State != api.Finished {
		t.Fatalf("%s, best %v; want finished and trial %d", s.State, s.Best, winner)
	}
}

// TestRules: every rule runs a search to its end, and those that stop trials
// early spare work.
func TestRules(t *testing.T) {
	for _, rule := range tune.Rules() {
		for _, method := range []string{"random", "tpe"} {
			w := newWorld(t)
			spec := sweep(string(rule), 9)
			spec.Method = method
			w.create(spec)
			s := w.play("sweep")
			account(t, w, s, 9)
			sum := 0
			for _, n := range w.steps {
				sum += n
			}
			if all := 9 * 27; (sum >= all) != (rule == tune.None) {
				t.Errorf("%s: %d steps of %d", rule, sum, all)
			}
			if b := s.Trials[*s.Best]; b.State != api.Finished || b.Done != 27 {
				t.Errorf("%s: the best trial is %+v; want it finished", rule, b)
			}
		}
	}
}

// TestCrashAnywhere: the journal breaks after any record, again and again. No
// trial is lost or doubled, and the search ends as if nothing had happened.
func TestCrashAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom(tune.Rules()).Draw(t, "rule")
		trials := rapid.IntRange(1, 10).Draw(t, "trials")
		w := newWorld(t)
		w.create(sweep(string(rule), trials))
		for range rapid.IntRange(0, 5).Draw(t, "crashes") {
			w.tape.left = rapid.IntRange(0, 40).Draw(t, "records")
			for range 200 {
				if w.turn() != nil {
					break
				}
			}
			if rapid.Bool().Draw(t, "compact") {
				w.tape.left = -1
				if err := w.state.Compact(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			before := w.search("sweep")
			w.crash()
			after := w.search("sweep")
			if len(after.Trials) < len(before.Trials) {
				t.Fatalf("%d trials before the crash, %d after", len(before.Trials), len(after.Trials))
			}
			for i, trial := range before.Trials {
				if !cmp.Equal(trial.Params, after.Trials[i].Params) || trial.Job != after.Trials[i].Job || trial.Rung != after.Trials[i].Rung {
					t.Fatalf("trial %d was %+v before the crash and is %+v after", i, trial, after.Trials[i])
				}
			}
		}
		account(t, w, w.play("sweep"), trials)
	})
}

// A crashed daemon that decides again decides the same: the parameters of random
// trials do not depend on it.
func TestSameTrialsAfterCrash(t *testing.T) {
	params := func(crash bool) []string {
		w := newWorld(t)
		w.create(sweep("asha", 8))
		for i := range 15 {
			if err := w.turn(); err != nil {
				t.Fatal(err)
			}
			if crash && i%4 == 3 {
				w.crash()
			}
		}
		var out []string
		for _, trial := range w.play("sweep").Trials {
			out = append(out, trial.Params["x"])
		}
		return out
	}
	if diff := cmp.Diff(params(false), params(true)); diff != "" {
		t.Error(diff)
	}
}

// TestStages: the policy knows what is left of a search, also after a crash.
func TestStages(t *testing.T) {
	w := newWorld(t)
	w.create(sweep("halving", 9))
	for range 4 {
		if err := w.turn(); err != nil {
			t.Fatal(err)
		}
	}
	s := w.state.OpenSearches()[0]
	want := []api.Stage{{Jobs: 9, Part: 3. / 27}, {Jobs: 3, Part: 6. / 27}, {Jobs: 1, Part: 18. / 27}}
	if moved(s.Stages, want) {
		t.Errorf("the policy knows of %v; want about %v", s.Stages, want)
	}
	w.crash()
	if again := w.state.OpenSearches()[0].Stages; !slices.Equal(again, s.Stages) {
		t.Errorf("after a crash it knows of %v; want %v", again, s.Stages)
	}
}

func TestFailedTrials(t *testing.T) {
	w := newWorld(t)
	w.fails = func(params map[string]string, step int) bool {
		x, _ := strconv.ParseFloat(params["x"], 64)
		return x > 0.5 && step == 2
	}
	w.create(sweep("halving", 8))
	s := w.play("sweep")
	account(t, w, s, 8)
	failed := 0
	for _, trial := range s.Trials {
		if trial.State == api.Failed && strings.Contains(trial.Why, "out of luck") {
			failed++
		}
	}
	if failed == 0 || failed == 8 {
		t.Errorf("%d trials failed; want some", failed)
	}
	w = newWorld(t)
	w.fails = func(map[string]string, int) bool { return true }
	w.create(sweep("none", 3))
	if s := w.play("sweep"); s.State != api.Failed || s.Best != nil || !strings.Contains(s.Why, "none of 3 trials reported error") {
		t.Errorf("%s: %s; want failed", s.State, s.Why)
	}
}

func TestGridTriesAll(t *testing.T) {
	w := newWorld(t)
	spec := sweep("none", 0)
	spec.Method = "grid"
	spec.Parameters = map[string]api.Parameter{"x": {Values: []string{"1", "-0.5", "2"}}, "unused": {Values: []string{"a", "b"}}}
	w.create(spec)
	s := w.play("sweep")
	account(t, w, s, 6)
	if got := s.Trials[*s.Best].Params["x"]; got != "-0.5" {
		t.Errorf("the best x is %s; want -0.5", got)
	}
}

// A target ends the search as soon as a trial reaches it.
func TestTarget(t *testing.T) {
	w := newWorld(t)
	spec := sweep("none", 30)
	target := 0.6
	spec.Stopping.Target = &target
	w.create(spec)
	s := w.play("sweep")
	if s.State != api.Finished || len(s.Trials) >= 30 || *s.Trials[*s.Best].Value > target {
		t.Errorf("%s after %d trials, the best %v", s.State, len(s.Trials), s.Best)
	}
	early := slices.DeleteFunc(slices.Clone(s.Trials), func(t api.Trial) bool { return !t.Early })
	if len(early) == 0 || !strings.Contains(early[0].Why, "reached the target") {
		t.Errorf("stopped early: %+v; want the others", early)
	}
}

func TestCommands(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.create(sweep("asha", 20))
	turns := func(n int) {
		for range n {
			if err := w.turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	turns(6)
	if _, err := w.state.CommandApp(ctx, ann, "sweep", api.Pause); err != nil {
		t.Fatal(err)
	}
	before := len(w.search("sweep").Trials)
	turns(10)
	if s := w.search("sweep"); s.State != api.SearchPaused || s.PausedBy != "ann" || len(s.Trials) != before {
		t.Errorf("%s by %q with %d trials; want it paused with %d", s.State, s.PausedBy, len(s.Trials), before)
	}
	w.crash()
	if _, err := w.state.CommandApp(ctx, ann, "sweep", api.Resume); err != nil {
		t.Fatal(err)
	}
	turns(10)
	s := w.search("sweep")
	if s.State != api.SearchRunning || len(s.Trials) <= before {
		t.Errorf("%s with %d trials after it was resumed; want more than %d", s.State, len(s.Trials), before)
	}
	stale := w.state.OpenSearches()[0]
	if _, err := w.state.CommandApp(ctx, ann, "sweep", api.Cancel); err != nil {
		t.Fatal(err)
	}
	// A step that was planned before the end must not bring it back.
	_ = Step(ctx, w.config(), stale)
	turns(3)
	s = w.search("sweep")
	if s.State != api.Cancelled || s.Why != "cancelled by ann" || len(w.state.OpenSearches()) != 0 {
		t.Errorf("%s: %s; want it killed by ann", s.State, s.Why)
	}
	for _, trial := range s.Trials {
		if !api.HasEnded(trial.State) {
			t.Errorf("trial %d is %s after the end of its search", trial.Number, trial.State)
		}
	}
	if page, _ := w.state.List(ann, api.JobFilter{States: []string{api.Waiting, api.Running, api.Starting, api.Paused}}); page.Total != 0 {
		t.Errorf("%d jobs are left", page.Total)
	}
	if _, err := w.state.CommandApp(ctx, ann, "sweep", api.Cancel); api.CodeOf(err) != api.Unknown {
		t.Errorf("cancelled twice: %v", err)
	}
	if _, err := w.state.CreateSearch(ctx, ann, sweep("asha", 2)); api.CodeOf(err) != api.Conflict {
		t.Errorf("the name is taken again: %v", err)
	}
}

// What belongs to another tenant does not exist.
func TestTenants(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.create(sweep("none", 2))
	bob := api.Identity{User: "bob", Tenant: "red", Role: api.User}
	if _, err := w.state.Search(bob, "sweep"); api.CodeOf(err) != api.Unknown {
		t.Errorf("bob sees it: %v", err)
	}
	if _, err := w.state.CommandApp(ctx, bob, "sweep", api.Cancel); api.CodeOf(err) != api.Unknown {
		t.Errorf("bob cancels it: %v", err)
	}
	if list, err := w.state.Searches(bob); err != nil || len(list) != 0 {
		t.Errorf("bob lists %v, %v", list, err)
	}
	if page, err := w.state.Records(bob, api.RecordFilter{Kind: "search-submitted"}); err != nil || len(page.Records) != 0 {
		t.Errorf("bob reads %v, %v", page.Records, err)
	}
	eve := api.Identity{User: "eve", Tenant: "blue", Role: api.Viewer}
	if _, err := w.state.CreateSearch(ctx, eve, sweep("none", 2)); api.CodeOf(err) != api.Denied {
		t.Errorf("a viewer creates a search: %v", err)
	}
	if _, err := w.state.CommandApp(ctx, eve, "sweep", api.Pause); api.CodeOf(err) != api.Denied {
		t.Errorf("a viewer pauses a search: %v", err)
	}
	if _, err := w.state.CreateSearch(ctx, bob, sweep("none", 2)); err != nil {
		t.Errorf("bob may have a search of that name: %v", err)
	}
	if list, err := w.state.Searches(eve); err != nil || len(list) != 1 || list[0].User != "ann" {
		t.Errorf("eve lists %v, %v; want ann's", list, err)
	}
}

func TestRefusals(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		edit  func(*api.SearchSpec)
		field string
	}{
		{func(s *api.SearchSpec) { s.ID = "a/b" }, "id"},
		{func(s *api.SearchSpec) { s.Method = "luck" }, "method"},
		{func(s *api.SearchSpec) { s.Metric.Goal = "improve" }, "metric.goal"},
		{func(s *api.SearchSpec) { s.Trials = 0 }, "trials"},
		{func(s *api.SearchSpec) { s.Trials = 5000 }, "trials"},
		{func(s *api.SearchSpec) { s.Parameters = nil }, "parameters"},
		{func(s *api.SearchSpec) { s.Parameters["a-b"] = api.Parameter{Values: []string{"1", "2"}} }, "parameters"},
		{func(s *api.SearchSpec) { s.Parameters["X"] = api.Parameter{Values: []string{"1", "2"}} }, "parameters"},
		{func(s *api.SearchSpec) { s.Parameters["y"] = api.Parameter{} }, "parameters.y"},
		{func(s *api.SearchSpec) { s.Parameters["y"] = api.Parameter{Min: number(1), Max: number(1)} }, "parameters.y"},
		{func(s *api.SearchSpec) {
			s.Parameters["y"] = api.Parameter{Min: number(0), Max: number(1), Log: true}
		}, "parameters.y"},
		{func(s *api.SearchSpec) {
			s.Parameters["y"] = api.Parameter{Min: number(0.5), Max: number(2), Int: true}
		}, "parameters.y"},
		{func(s *api.SearchSpec) { s.Parameters["y"] = api.Parameter{Values: []string{"a"}} }, "parameters.y"},
		{func(s *api.SearchSpec) { s.Parameters["y"] = api.Parameter{Values: []string{"a", "a"}} }, "parameters.y"},
		{func(s *api.SearchSpec) { s.Stopping.Rule = "best" }, "stopping.rule"},
		{func(s *api.SearchSpec) { s.Stopping.Max = 2 }, "stopping.max"},
		{func(s *api.SearchSpec) { s.Stopping = api.StopRule{Rule: "pop"} }, "stopping.max"},
		{func(s *api.SearchSpec) { s.Stopping.Eta = 1 }, "stopping.eta"},
		{func(s *api.SearchSpec) { s.Stopping.Target = number(math.NaN()) }, "stopping.target"},
		{func(s *api.SearchSpec) { s.Trial.Command = nil }, "trial.command"},
		{func(s *api.SearchSpec) { s.Trial.Key = "k" }, "trial"},
		{func(s *api.SearchSpec) { s.Trial.Env = map[string]string{"FAIRWAY_JOB": "x"} }, "trial.env"},
	} {
		s := sweep("asha", 4)
		c.edit(&s)
		w := newWorld(t)
		_, err := w.state.CreateSearch(context.Background(), ann, s)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.Invalid || e.Field != c.field || e.Remedy == "" && c.field != "parameters.y" {
			t.Errorf("%v; want an error about %s", err, c.field)
		}
	}
	s := sweep("asha", 4)
	s.Metric.Goal = "maximize"
	s.Complete()
	if s.Metric.Goal != api.Maximise {
		t.Errorf("goal %q", s.Metric.Goal)
	}
}

// TestRun: the loop reacts to what happens, and ends with its context.
func TestRun(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	c := w.config()
	c.Pace = time.Millisecond
	go func() { done <- Run(ctx, c) }()
	w.create(sweep("none", 3))
	for late := time.After(2 * time.Minute); ; {
		moved := w.state.Moved()
		if page, _ := w.state.List(ann, api.JobFilter{}); page.Total == 3 {
			break
		}
		select {
		case <-moved:
		case <-late:
			t.Fatal("no trials")
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzSpec: a search that is accepted can be run: its trials are jobs that the
// daemon takes, and their parameters are what was asked for.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","parameters":{"lr":{"min":1e-4,"max":1,"log":true},"o":{"values":["a","b"]}},"trials":8,"trial":{"command":["a","{lr}"]}}`,
		`{"id":"a","parameters":{"n":{"min":1,"max":3,"int":true,"steps":9}},"method":"grid","trial":{"command":["a"]}}`,
		`{"id":"a","method":"tpe","parameters":{"n":{"min":-1e15,"max":1e15}},"stopping":{"rule":"hyperband","max":9},"trials":3,"trial":{"command":["a"],"env":{"A":"{n}{m}"}}}`,
		`{"id":"a","parameters":{"n":{"min":1,"max":1.0000000000000002}},"stopping":{"rule":"pop","target":-1,"max":5},"trials":1,"trial":{"command":["{n}"],"work":1e15}}`,
		`{"id":"..","parameters":{"":{}}}`, `{"parameters":{"x":{"values":["\u0000","{x}"]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s api.SearchSpec
		if json.Unmarshal(text, &s) != nil {
			return
		}
		s.Complete()
		if s.Validate() != nil {
			return
		}
		h, err := newSearchRun(api.OpenSearch{Search: api.Search{ID: s.ID, Spec: s}})
		if err != nil {
			return // refused, with words
		}
		r := h.decide(h.tuner.Plan(h.app()))
		if r == nil || len(r.Propose) == 0 || len(r.Propose) > max(1, s.AtOnce) {
			t.Fatalf("%s: the first step is %+v", text, r)
		}
		for _, p := range r.Propose {
			if _, ok := h.point(p.Params); !ok {
				t.Errorf("%v is not in the space", p.Params)
			}
			j := s.Submission(p)
			j.ID = "x"
			if err := j.Validate(); err != nil && !strings.Contains(fmt.Sprint(err), "bytes") {
				t.Errorf("a trial is refused: %v", err)
			}
		}
	})
}
