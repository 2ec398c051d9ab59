// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package executortest_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor/executortest"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// journal is a journal in memory.
type journal struct {
	mu      sync.Mutex
	records [][]byte
}

func (j *journal) Append(_ context.Context, payloads ...[]byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range payloads {
		j.records = append(j.records, bytes.Clone(p))
	}
	return uint64(len(j.records) - len(payloads) + 1), nil
}

func (j *journal) Snapshot() ([]byte, uint64, bool) { return nil, 0, false }

func (j *journal) ReadHot(from uint64, fn func(uint64, []byte) error) error {
	j.mu.Lock()
	records := slices.Clone(j.records)
	j.mu.Unlock()
	for i, p := range records {
		if seq := uint64(i) + 1; seq >= from {
			if err := fn(seq, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *journal) Compact([]byte, uint64) error { return nil }

// process is an attempt that runs.
type process struct {
	attempt api.Attempt
	asked   bool      // to stop
	leaves  time.Time // not before
	looks   int       // that it is still there for
	ending  bool      // by itself, with code
	code    int
	frozen  bool
	off     bool // its GPUs
	told    bool // that it is
}

// mutant is what is wrong with a world.
type mutant struct {
	backend func(loop.Backend) loop.Backend // wraps it
	crowds  bool                            // starts before an earlier holder of a GPU has left
	doubles bool                            // starts a job anew while an earlier attempt of it runs
	forgets bool                            // after a crash, that it has started something
	deaf    bool                            // does not stop what should not run
	silent  bool                            // does not tell the end of jobs
	astray  bool                            // starts on other GPUs than ordered
	kills   bool                            // processes die with the daemon

	hushes    bool // does not tell suspensions
	keeps     bool // does not free the GPUs of what is suspended
	hurries   bool // lets jobs go on before their GPUs are free
	mumbles   bool // does not tell refusals
	restarts  bool // starts suspended jobs anew
	hardens   bool // does not stop what is suspended
	thaws     bool // after a crash, what was suspended runs
	oversleep bool // does not let jobs go on
}

// world is a state store with pretended processes.
type world struct {
	journal *journal
	mutant  mutant

	mu      sync.Mutex
	state   *state.Store
	backend loop.Backend
	procs   map[api.AttemptID]*process
	begun   map[api.AttemptID]bool
	starts  map[sched.JobID]int
	linger  map[sched.JobID]time.Duration
	refuses map[sched.JobID]bool
	told    []api.Exit // ends that the state may not know yet
	stop    func()     // ends the executor
}

func open(m mutant) func(*testing.T) executortest.World {
	return func(t *testing.T) executortest.World { return openSuspender(m)(t) }
}

func openSuspender(m mutant) func(*testing.T) executortest.Suspender {
	return func(t *testing.T) executortest.Suspender {
		w := &world{
			journal: &journal{}, mutant: m, procs: map[api.AttemptID]*process{}, begun: map[api.AttemptID]bool{},
			starts: map[sched.JobID]int{}, linger: map[sched.JobID]time.Duration{}, refuses: map[sched.JobID]bool{},
		}
		w.boot(t)
		t.Cleanup(func() { w.stop() })
		return w
	}
}

func (w *world) boot(t *testing.T) {
	b, err := state.Open(context.Background(), state.Config{
		Journal: w.journal, Node: sched.Node{Name: "box", GPUs: 4, Suspend: true}, Policies: policy.Builtin(), Standard: "fifo",
		Key: []byte("key"), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.state, w.backend = b, b
	if w.mutant.backend != nil {
		w.backend = w.mutant.backend(b)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var executor sync.WaitGroup
	executor.Go(func() {
		for ctx.Err() == nil {
			w.step(ctx, b)
			select {
			case <-ctx.Done():
			case <-b.Ordered():
			case <-time.After(time.Millisecond):
			}
		}
	})
	w.stop = func() { cancel(); executor.Wait(); b.Close() }
}

// step makes the processes follow the orders.
func (w *world) step(ctx context.Context, b *state.Store) {
	ordered := map[api.AttemptID]api.Attempt{}
	list := b.Attempts()
	for _, a := range list {
		ordered[a.AttemptID] = a
	}
	leaving := b.Withdrawn()
	w.mu.Lock()
	now := time.Now()
	for id, p := range w.procs {
		if _, ok := ordered[id]; !ok && !p.asked && !w.mutant.deaf && !(w.mutant.hardens && p.frozen) {
			p.frozen = false // it runs again, without GPUs
			// One look for each millisecond: whoever looks sees it leave, however slow
			// the machine is.
			p.asked, p.leaves, p.looks = true, now.Add(w.linger[id.Job]), int(w.linger[id.Job].Milliseconds())
		}
		switch {
		case p.ending:
			delete(w.procs, id)
			w.told = append(w.told, api.Exit{AttemptID: id, Code: p.code})
		case p.asked && now.After(p.leaves) && p.looks <= 0:
			delete(w.procs, id)
			w.told = append(w.told, api.Exit{AttemptID: id, Code: api.YieldCode, Yielded: true, Noticed: true})
		}
	}
	for _, id := range leaving {
		if !w.begun[id] && !slices.ContainsFunc(w.told, func(e api.Exit) bool { return e.AttemptID == id }) {
			w.told = append(w.told, api.Exit{AttemptID: id, Noticed: true})
		}
	}
	w.mu.Unlock()
	w.suspend(ctx, b, list)
	w.mu.Lock()
	for _, a := range list {
		if !w.begun[a.AttemptID] && (!a.Suspended || w.mutant.forgets) && w.isClear(a) {
			if w.mutant.astray {
				a.Placement = sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(a.Placement.GPUs())}}
			}
			w.begun[a.AttemptID] = true
			w.starts[a.Job]++
			w.procs[a.AttemptID] = &process{attempt: a}
			b.Started(a.AttemptID)
		}
	}
	told := slices.Clone(w.told)
	w.mu.Unlock()
	if w.mutant.silent {
		return
	}
	for _, e := range told {
		if b.Exited(ctx, e) != nil {
			return
		}
	}
	w.mu.Lock()
	w.told = w.told[len(told):]
	w.mu.Unlock()
}

func (w *world) isClear(a api.Attempt) bool {
	for id, p := range w.procs {
		if id.Job == a.Job && !w.mutant.doubles || w.holds(p, a) && !w.mutant.crowds {
			return false
		}
	}
	return true
}

// holds reports whether a process holds a GPU of an attempt.
func (w *world) holds(p *process, a api.Attempt) bool {
	return (!p.told || w.mutant.keeps) && p.attempt.Placement[0].GPUs&a.Placement[0].GPUs != 0
}

// suspend suspends processes, or lets them go on, as they should be.
func (w *world) suspend(ctx context.Context, b *state.Store, list []api.Attempt) {
	for _, a := range list {
		w.mu.Lock()
		p, say := w.procs[a.AttemptID], api.Suspended{AttemptID: a.AttemptID}
		switch {
		case p == nil || p.told == a.Suspended:
			p = nil
		case a.Suspended && w.refuses[a.Job]:
			say.Failed = "it refuses"
		case a.Suspended:
			p.frozen, p.off, say.Out = true, true, 1
		case w.mutant.restarts:
			w.starts[a.Job]++
			fallthrough
		default:
			say.Back = 1
			for id, other := range w.procs {
				if id != a.AttemptID && w.holds(other, a) && !w.mutant.hurries || w.mutant.oversleep {
					p = nil
				}
			}
			if p != nil {
				p.frozen, p.off, p.told = false, false, false
			}
		}
		w.mu.Unlock()
		if p == nil || say.Failed != "" && w.mutant.mumbles {
			continue
		}
		if w.mutant.hushes && say.Out > 0 || b.Suspended(ctx, say) == nil {
			w.mu.Lock()
			p.told = say.Out > 0
			w.mu.Unlock()
		}
	}
}

func (w *world) Backend() loop.Backend {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.backend
}

var admin = api.Identity{User: "root", Role: api.Admin, Tenant: "default"}

func (w *world) now() *state.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *world) Submit(t *testing.T, j executortest.Job) sched.JobID {
	t.Helper()
	preemptible := new(true)
	if j.Plain {
		preemptible = nil
	}
	jobs, err := w.now().Submit(t.Context(), admin, []api.Submission{{Spec: j.Spec, Task: api.Task{Command: []string{"train"}, Preemptible: preemptible}}})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.linger[jobs[0].ID] = j.Linger
	return jobs[0].ID
}

func (w *world) Cancel(t *testing.T, id sched.JobID) {
	t.Helper()
	if _, err := w.now().Command(t.Context(), admin, id, api.Cancel); err != nil {
		t.Fatal(err)
	}
}

func (w *world) End(t *testing.T, id sched.JobID, code int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, p := range w.procs {
		if a.Job == id {
			p.ending, p.code = true, code
		}
	}
}

func (w *world) Cordon(t *testing.T, node string, cordoned bool) {
	t.Helper()
	state := sched.Ready
	if cordoned {
		state = sched.Cordoned
	}
	if _, err := w.now().SetNode(t.Context(), admin, node, state); err != nil {
		t.Fatal(err)
	}
}

func (w *world) Running() map[sched.JobID][]executortest.GPU {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[sched.JobID][]executortest.GPU{}
	for id, p := range w.procs {
		p.looks--
		if p.off {
			continue
		}
		for _, g := range p.attempt.Placement[0].GPUs.Indexes() {
			out[id.Job] = append(out[id.Job], executortest.GPU{Node: "box", Index: g})
		}
	}
	return out
}

func (w *world) Frozen() map[sched.JobID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[sched.JobID]bool{}
	for id, p := range w.procs {
		p.looks--
		out[id.Job] = p.frozen && p.off
	}
	return out
}

func (w *world) Refuse(_ *testing.T, id sched.JobID, refuses bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses[id] = refuses
}

func (w *world) Starts(id sched.JobID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starts[id]
}

func (w *world) Phase(id sched.JobID) sched.Phase {
	j, err := w.now().Job(admin, id)
	if err != nil {
		return sched.Pending
	}
	return j.Status.Phase
}

func (w *world) Restart(t *testing.T) {
	t.Helper()
	w.stop()
	w.mu.Lock()
	if w.mutant.forgets {
		clear(w.begun)
	}
	if w.mutant.kills {
		clear(w.procs)
	}
	for _, p := range w.procs {
		if w.mutant.thaws {
			p.frozen, p.off = false, false
		}
	}
	w.mu.Unlock()
	w.boot(t)
}
