// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// tape is an in-memory journal that fails on demand. What was written
// before stays, as on a disk.
type tape struct {
	records [][]byte
	snap    []byte
	upTo    uint64
	left    int // records until it breaks; negative: never
}

var errBroken = errors.New("the power is gone")

func (j *tape) Append(_ context.Context, payloads ...[]byte) (uint64, error) {
	if j.left == 0 {
		return 0, errBroken
	}
	j.left--
	first := j.upTo + uint64(len(j.records)) + 1
	for _, p := range payloads {
		j.records = append(j.records, bytes.Clone(p))
	}
	return first, nil
}

func (j *tape) Snapshot() ([]byte, uint64, bool) { return j.snap, j.upTo, j.snap != nil }

func (j *tape) ReadHot(from uint64, fn func(uint64, []byte) error) error {
	for i, p := range j.records {
		if seq := j.upTo + uint64(i) + 1; seq >= from {
			if err := fn(seq, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *tape) Compact(snapshot []byte, upTo uint64) error {
	j.records = j.records[upTo-j.upTo:]
	j.snap, j.upTo = snapshot, upTo
	return nil
}

// world is a state store, a search run and a machine whose trials follow known curves.
type world struct {
	t     failer
	tape  *tape
	state *state.Store
	now   time.Time
	steps map[sched.JobID]int // saved by each job
	work  int
	value func(params map[string]string, step int) float64
	fails func(params map[string]string, step int) bool
	opens int
}

var ann = api.Identity{User: "ann", Tenant: "blue", Role: api.User, Owner: api.Owner{Name: "ann", UID: 1001, GID: 1001}}

func newWorld(t failer) *world {
	w := &world{t: t, tape: &tape{left: -1}, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), steps: map[sched.JobID]int{}, work: 27}
	w.value = func(params map[string]string, step int) float64 {
		x, err := strconv.ParseFloat(params["x"], 64)
		if err != nil {
			t.Fatalf("a trial with the parameters %v", params)
		}
		return math.Abs(x) + math.Exp(-float64(step)/8)
	}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.opens++
	var err error
	w.state, err = state.Open(context.Background(), state.Config{
		Journal: w.tape, Node: sched.Node{Name: "box", GPUs: 4}, Policies: policy.Builtin(), Standard: "fifo",
		Key: bytes.Repeat([]byte("k"), 32), Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler), CheckSearch: Check,
	})
	if err != nil {
		w.t.Fatalf("open the state: %v", err)
	}
}

// crash throws everything away but the journal.
func (w *world) crash() {
	w.state.Close()
	w.tape.left = -1
	w.open()
}

func (w *world) config() Config {
	return Config{Jobs: w.state, Ledger: w.state, Log: slog.New(slog.DiscardHandler)}
}

// turn lets everybody act once: the hunt, the scheduler, the machine. It stops
// with the first error, as a daemon that is killed does.
func (w *world) turn() error {
	ctx := context.Background()
	w.now = w.now.Add(time.Second)
	for _, s := range w.state.OpenSearches() {
		if err := Step(ctx, w.config(), s); err != nil {
			return err
		}
	}
	snapshot, err := w.state.Snapshot(ctx)
	if err != nil {
		return err
	}
	p, spec := w.state.InForce()
	actions, plan, err := sched.Decide(p, snapshot)
	if err != nil {
		return err
	}
	if err := w.state.Apply(ctx, loop.Decision{Policy: spec, Snapshot: snapshot, Actions: actions, Plan: plan}); err != nil {
		return err
	}
	for _, id := range w.state.Withdrawn() {
		if err := w.state.Exited(ctx, api.Exit{AttemptID: id, Code: api.YieldCode, Yielded: true, Noticed: true}); err != nil {
			return err
		}
	}
	for _, a := range w.state.Attempts() {
		if err := w.train(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// train does one step of an attempt.
func (w *world) train(ctx context.Context, a api.Attempt) error {
	w.state.Started(a.AttemptID)
	params := map[string]string{}
	for k, v := range a.Task.Env {
		params[lower(k)] = v
	}
	w.steps[a.Job]++
	step := w.steps[a.Job]
	if w.fails != nil && w.fails(params, step) {
		return w.state.Exited(ctx, api.Exit{AttemptID: a.AttemptID, Code: 1, Why: "out of luck"})
	}
	value := w.value(params, step)
	r := api.AgentReport{Done: float64(step), Work: float64(w.work), Point: &api.Point{Metrics: map[string]float64{"error": value}}}
	if _, err := w.state.Report(ctx, a.Token, r); err != nil {
		return err
	}
	if step < w.work {
		return nil
	}
	return w.state.Exited(ctx, api.Exit{AttemptID: a.AttemptID})
}

func lower(variable string) string {
	name := []byte(variable[len(api.ParamPrefix):])
	return string(bytes.ToLower(name))
}

// play takes turns until the search is over.
func (w *world) play(id sched.AppID) api.Search {
	w.t.Helper()
	for range 5000 {
		if err := w.turn(); err != nil {
			w.t.Fatalf("take a turn: %v", err)
		}
		if s := w.search(id); s.Over() {
			return s
		}
	}
	w.t.Fatalf("no end: %+v", w.search(id))
	return api.Search{}
}

func (w *world) search(id sched.AppID) api.Search {
	w.t.Helper()
	s, err := w.state.Search(ann, id)
	if err != nil {
		w.t.Fatalf("search %s: %v", id, err)
	}
	return s
}

func (w *world) create(s api.SearchSpec) {
	w.t.Helper()
	if _, err := w.state.CreateSearch(context.Background(), ann, s); err != nil {
		w.t.Fatalf("create search: %v", err)
	}
}

// sweep is a search of one parameter.
func sweep(rule string, trials int) api.SearchSpec {
	low, high := 0.0, 1.0
	s := api.SearchSpec{
		ID: "sweep", Parameters: map[string]api.Parameter{"x": {Min: &low, Max: &high}}, Metric: api.Metric{Name: "error"},
		Stopping: api.StopRule{Rule: rule, Min: 3, Max: 27}, Trials: trials, AtOnce: 3, Seed: 5,
	}
	s.Trial.Command = []string{"train", "--x={x}", "{y}"}
	return s
}
