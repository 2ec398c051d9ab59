// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// lines is a journal in memory.
type lines struct{ payloads [][]byte }

func (l *lines) Append(_ context.Context, p ...[]byte) (uint64, error) {
	l.payloads = append(l.payloads, p...)
	return uint64(len(l.payloads) - len(p) + 1), nil
}
func (l *lines) Snapshot() ([]byte, uint64, bool) { return nil, 0, false }
func (l *lines) ReadHot(from uint64, fn func(uint64, []byte) error) error {
	for i := int(from) - 1; i < len(l.payloads); i++ {
		if err := fn(uint64(i+1), l.payloads[i]); err != nil {
			return err
		}
	}
	return nil
}
func (l *lines) Compact([]byte, uint64) error { return nil }

func (l *lines) records(t *testing.T) []api.Record {
	t.Helper()
	out := make([]api.Record, len(l.payloads))
	for i, p := range l.payloads {
		if err := json.Unmarshal(p, &out[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

var (
	dawn  = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	admin = api.Identity{User: "root", Tenant: "default", Role: api.Admin}
)

const tick = 5 * time.Second

// daemon is a state store on a machine of 8 GPUs, with a clock of the test's own and
// processes that only exist as a number of seconds left.
type daemon struct {
	t       *testing.T
	state   *state.Store
	journal *lines
	guard   *guard.Guard
	mu      sync.Mutex
	now     time.Time
	left    map[sched.JobID]float64 // seconds at the requested size
	whole   map[sched.JobID]float64
	agents  map[sched.JobID]bool
	told    map[api.AttemptID]bool // who has told its model
	running map[api.AttemptID]api.Attempt
	fails   map[sched.JobID]float64 // left when the next attempt fails
	coming  []arrival
	meddle  func(n int, actions []sched.Action) // while the policy thinks
}

type arrival struct {
	at      time.Time
	job     api.Submission
	seconds float64
	agent   bool
	failAt  float64 // seconds left at which an attempt fails; 0: none does
}

func newDaemon(t *testing.T, spec string, coming []arrival) *daemon {
	t.Helper()
	d := &daemon{
		t: t, journal: &lines{}, now: dawn, left: map[sched.JobID]float64{}, whole: map[sched.JobID]float64{},
		agents: map[sched.JobID]bool{}, running: map[api.AttemptID]api.Attempt{}, fails: map[sched.JobID]float64{}, coming: coming,
		told: map[api.AttemptID]bool{},
	}
	var err error
	if d.guard, err = guard.New(guard.Default()); err != nil {
		t.Fatal(err)
	}
	d.state, err = state.Open(t.Context(), state.Config{
		Journal: d.journal, Node: sched.Node{Name: "box", GPUs: 8, Type: "t4"}, Policies: policy.Builtin(), Standard: spec,
		Key: make([]byte, 32), Now: d.clock, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.state.Close)
	return d
}

func (d *daemon) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(time.Millisecond) // time passes between any two looks
	return d.now
}

func (d *daemon) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// decide does what the loop does; between looking and deciding something else
// may happen.
func (d *daemon) decide(between func([]sched.Action)) {
	s, err := d.state.Snapshot(d.t.Context())
	d.must(err)
	p, spec := d.state.InForce()
	actions, plan, err := sched.Decide(d.guard.Over(p), s)
	d.must(err)
	between(actions)
	d.must(d.state.Apply(d.t.Context(), loop.Decision{Policy: spec, Snapshot: s, Actions: actions, Plan: plan, Vetoes: d.guard.Vetoes()}))
	d.guard.Carried(s, plan)
}

// arrive submits what is due.
func (d *daemon) arrive() {
	for len(d.coming) > 0 && !d.coming[0].at.After(d.now) {
		a := d.coming[0]
		d.coming = d.coming[1:]
		jobs, err := d.state.Submit(d.t.Context(), admin, []api.Submission{a.job})
		d.must(err)
		id := jobs[0].ID
		d.left[id], d.whole[id], d.agents[id] = a.seconds, a.seconds, a.agent
		if a.failAt > 0 {
			d.fails[id] = a.failAt
		}
	}
}

// work lets the processes run for a tick and reports those that ended.
func (d *daemon) work() {
	now := map[api.AttemptID]api.Attempt{}
	for _, a := range d.state.Attempts() {
		now[a.AttemptID] = a
	}
	byName := func(a, b api.AttemptID) int {
		return slices.Compare([]string{string(a.Job), fmt.Sprint(a.Number)}, []string{string(b.Job), fmt.Sprint(b.Number)})
	}
	for _, id := range slices.SortedFunc(maps.Keys(d.running), byName) {
		if _, stays := now[id]; !stays {
			delete(d.running, id)
			d.must(d.state.Exited(d.t.Context(), api.Exit{AttemptID: id, At: d.now, Code: api.YieldCode, Yielded: true, Noticed: true}))
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(now), byName) {
		a := now[id]
		d.running[id] = a
		d.left[id.Job] -= tick.Seconds() * float64(a.Placement.GPUs()) / float64(a.Spec.GPUs)
		at, fails := d.fails[id.Job]
		switch {
		case fails && d.left[id.Job] < at:
			delete(d.fails, id.Job)
			delete(d.running, id)
			d.left[id.Job] = d.whole[id.Job]
			d.must(d.state.Exited(d.t.Context(), api.Exit{AttemptID: id, Code: 1, Why: "out of memory"}))
		case d.left[id.Job] <= 0:
			delete(d.running, id)
			d.must(d.state.Exited(d.t.Context(), api.Exit{AttemptID: id}))
		case d.agents[id.Job]:
			d.report(a)
		}
	}
}

// report reports what an agent would.
func (d *daemon) report(a api.Attempt) {
	done := d.whole[a.Job] - d.left[a.Job]
	gpus := a.Placement.GPUs()
	step := 0.01 + 0.001*float64(32)
	sync := 0.0
	if gpus > 1 {
		sync = 0.004 + 0.001*float64(gpus-2)
	}
	r := api.AgentReport{
		Done: done, Work: d.whole[a.Job], Rate: float64(gpus) / float64(a.Spec.GPUs), Checkpoint: true,
		Point: &api.Point{Batch: 32 * gpus},
	}
	if !d.told[a.AttemptID] { // once is enough: fitting takes most of the time of these tests
		d.told[a.AttemptID] = true
		r.Training = &api.Training{
			Limits: goodput.Limits{Initial: 64, Max: 4096, LocalMin: 8, LocalMax: 512}, Noise: 500,
			Samples: []goodput.Sample{{Nodes: 1, GPUs: gpus, Local: 32, Step: step + sync, Sync: sync, Count: 3}},
		}
	}
	_, err := d.state.Report(d.t.Context(), a.Token, r)
	d.must(err)
}

// run goes on until every job has ended, or for so long.
func (d *daemon) run(most time.Duration, each func(n int)) []api.Record {
	d.t.Helper()
	for n := 0; d.now.Sub(dawn) < most; n++ {
		d.arrive()
		d.work()
		d.decide(func(actions []sched.Action) {
			if n%7 == 3 { // something happens while the policy thinks
				d.arrive()
				d.work()
			}
			if d.meddle != nil {
				d.meddle(n, actions)
			}
		})
		if each != nil {
			each(n)
		}
		d.mu.Lock()
		d.now = d.now.Add(tick)
		d.mu.Unlock()
		o, err := d.state.Overview(admin)
		d.must(err)
		if len(d.coming) == 0 && o.Running+o.Waiting+o.Paused == 0 {
			break
		}
	}
	return d.journal.records(d.t)
}

// queue is a workload that keeps 8 GPUs busy.
func queue(seed uint64, jobs int, agents bool) []arrival {
	r := rand.New(rand.NewPCG(seed, 1))
	at := dawn
	var out []arrival
	for i := range jobs {
		at = at.Add(time.Duration(r.IntN(40)) * time.Second)
		gpus := 1 << r.IntN(4)
		a := arrival{at: at, seconds: float64(40 + r.IntN(300)), agent: agents && i%2 == 0}
		a.job = api.Submission{Task: api.Task{Name: "train", Command: []string{"true"}, Retries: 3, Preemptible: new(true)}}
		a.job.Estimate = sched.Duration(a.seconds * 1e9)
		a.job.GPUs, a.job.User = gpus, fmt.Sprintf("user%d", i%3)
		a.job.Tenant = sched.TenantID([]string{"blue", "green"}[i%2])
		if a.agent {
			a.job.MinGPUs, a.job.MaxGPUs = 1, 8
		}
		if i%6 == 5 {
			a.failAt = a.seconds * 2 / 3
		}
		out = append(out, a)
	}
	return out
}
