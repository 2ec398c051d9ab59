// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor/executortest"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/daemon/suspend/suspendtest"
	"github.com/fairway-gpu/fairway/local"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/store"
)

// TestBackend: the journal, the state and the executor of one machine together keep the
// rules of the executor port, with real processes.
func TestBackend(t *testing.T) {
	executortest.Run(t, executortest.Quick(), func(t *testing.T) executortest.World { return openMachine(t) })
}

// TestSuspension: so do they with real processes that are suspended, and a driver that is
// pretended.
func TestSuspension(t *testing.T) {
	executortest.RunSuspension(t, executortest.Quick(), func(t *testing.T) executortest.Suspender { return openMachine(t) })
}

func openMachine(t *testing.T) *machineWorld {
	w := &machineWorld{t: t, dir: shortDir(t), out: t.TempDir(), driver: suspendtest.New(), refuses: map[string]bool{}}
	w.driver.Any, w.driver.Fails = true, w.fails
	if err := os.WriteFile(filepath.Join(w.out, "worker.sh"), []byte(obedient), 0o755); err != nil {
		t.Fatal(err)
	}
	w.open()
	t.Cleanup(func() { w.close(); endOrphans(w.dir) })
	return w
}

// obedient runs until it is told to end, and takes a while to stop.
const obedient = `#!/bin/sh
out=$1; linger=$2
[ "$RANK" = 0 ] && echo "$FAIRWAY_ATTEMPT" >> "$out/$FAIRWAY_JOB.starts"
trap 'sleep "$linger"; exit 75' TERM
while :; do
  [ -f "$out/$FAIRWAY_JOB.end" ] && exit "$(cat "$out/$FAIRWAY_JOB.end")"
  sleep 0.02
done
`

// machineWorld is this machine with four CPU slots. A restart drops everything without
// telling the jobs; TestCrash kills the real process.
type machineWorld struct {
	t        *testing.T
	dir, out string
	mu       sync.Mutex
	store    *store.Store
	state    *state.Store
	machine  *local.Machine
	cancel   context.CancelFunc
	done     chan error

	driver  *suspendtest.Driver
	refuses map[string]bool // by job
}

var root = api.Identity{User: "root", Role: api.Admin, Tenant: "default", Owner: api.Owner{UID: -1, GID: -1}}

func (w *machineWorld) open() {
	w.t.Helper()
	path, err := program()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	quiet := slog.New(slog.DiscardHandler)
	s, _, err := store.Open(store.Config{Dir: filepath.Join(w.dir, "journal")})
	if err != nil {
		w.t.Fatal(err)
	}
	c := local.Config{Dir: filepath.Join(w.dir, "machine"), Shim: []string{path, "shim"}, Slots: 4, GracePeriod: patience, Log: quiet}
	if c.Node, c.Devices, err = local.Discover(ctx, c); err != nil {
		w.t.Fatal(err)
	}
	c.Suspend = suspend.Host{Open: w.driver.Open, Uses: func(pid int) bool { return comm(pid) != "sleep" }}
	c.Node.Suspend, _ = local.CanSuspend(c)
	m, err := local.Open(c)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := state.Open(ctx, state.Config{
		Journal: s, Node: c.Node, Policies: policy.Builtin(), Standard: "fifo", Key: make([]byte, 32), Now: time.Now, Log: quiet, Use: m.Use,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.machine, w.state, w.cancel, w.done = s, m, b, cancel, make(chan error, 1)
	go func() { w.done <- m.Run(ctx, b) }()
}

func (w *machineWorld) close() {
	w.cancel()
	<-w.done
	w.state.Close()
	if err := w.machine.Close(); err != nil {
		w.t.Error(err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *machineWorld) now() *state.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Backend implements executortest.World.
func (w *machineWorld) Backend() loop.Backend { return w.now() }

// Submit implements executortest.World.
func (w *machineWorld) Submit(t *testing.T, j executortest.Job) sched.JobID {
	t.Helper()
	s := api.Submission{Spec: j.Spec}
	s.ID, s.Submitted = "", time.Time{}
	if !j.Plain {
		s.Preemptible = new(true)
	}
	s.Command = []string{filepath.Join(w.out, "worker.sh"), w.out, fmt.Sprintf("%.3f", j.Linger.Seconds())}
	jobs, err := w.now().Submit(context.Background(), root, []api.Submission{s})
	if err != nil {
		t.Fatal(err)
	}
	return jobs[0].ID
}

// Cancel implements executortest.World.
func (w *machineWorld) Cancel(t *testing.T, id sched.JobID) {
	t.Helper()
	if _, err := w.now().Command(context.Background(), root, id, api.Cancel); err != nil {
		t.Fatal(err)
	}
}

// End implements executortest.World.
func (w *machineWorld) End(t *testing.T, id sched.JobID, code int) {
	t.Helper()
	path := filepath.Join(w.out, string(id)+".end")
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(code)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Cordon implements executortest.World.
func (w *machineWorld) Cordon(t *testing.T, node string, cordoned bool) {
	t.Helper()
	state := sched.Ready
	if cordoned {
		state = sched.Cordoned
	}
	if _, err := w.now().SetNode(context.Background(), root, node, state); err != nil {
		t.Fatal(err)
	}
}

// Running implements executortest.World: it lists the processes that have a rank in
// their environment. Processes may end and start meanwhile, but no rank comes back, so
// it repeats until two lists are the same: that list was true at one moment.
func (w *machineWorld) Running() map[sched.JobID][]executortest.GPU {
	out := map[sched.JobID][]executortest.GPU{}
	node := w.nodeName()
	for r, is := range w.steadyRanks() {
		if !is.away {
			out[r.job] = append(out[r.job], executortest.GPU{Node: node, Index: is.slot})
		}
	}
	return out
}

// Frozen implements executortest.Suspender.
func (w *machineWorld) Frozen() map[sched.JobID]bool {
	out := map[sched.JobID]bool{}
	for r, is := range w.steadyRanks() {
		out[r.job] = is.away && !is.moving
	}
	return out
}

// Refuse implements executortest.Suspender.
func (w *machineWorld) Refuse(_ *testing.T, id sched.JobID, refuses bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses[string(id)] = refuses
}

// fails is a driver that does not suspend the jobs that refuse.
func (w *machineWorld) fails(verb string, pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return verb == "checkpoint" && w.refuses[environment(pid)["FAIRWAY_JOB"]]
}

// rank is one rank of an attempt.
type rank struct {
	job            sched.JobID
	attempt, local string
}

// rankState is what its processes do. A worker and its sleep count as one.
type rankState struct {
	slot   int
	away   bool // off its GPU
	moving bool // some of them are not frozen
}

func (w *machineWorld) steadyRanks() map[rank]rankState {
	ranks := w.ranks()
	for again := w.ranks(); !maps.Equal(ranks, again); again = w.ranks() {
		ranks = again
	}
	return ranks
}

// ranks returns every rank that has processes.
func (w *machineWorld) ranks() map[rank]rankState {
	out := map[rank]rankState{}
	gpus := w.driver.States()
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		pid, _ := strconv.Atoi(filepath.Base(p))
		env := environment(pid)
		local, err := strconv.Atoi(env["LOCAL_RANK"])
		slots := strings.Split(env["FAIRWAY_SLOTS"], ",")
		if !strings.HasPrefix(env["FAIRWAY_CHECKPOINT_DIR"], w.dir) || err != nil || local >= len(slots) {
			continue // the supervisor, or of another world
		}
		r := rank{sched.JobID(env["FAIRWAY_JOB"]), env["FAIRWAY_ATTEMPT"], env["LOCAL_RANK"]}
		is := out[r]
		is.slot, _ = strconv.Atoi(slots[local])
		is.away = is.away || gpus[pid] == suspend.Away
		is.moving = is.moving || !isFrozen(pid)
		out[r] = is
	}
	return out
}

// environment returns the variables of a process.
func environment(pid int) map[string]string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	env := map[string]string{}
	for kv := range strings.SplitSeq(string(text), "\x00") {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return env
}

// comm returns the name of the program of a process.
func comm(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// isFrozen reports whether a process is stopped, or its control group frozen. A parent
// between vfork and exec, whose child is stopped, waits.
func isFrozen(pid int) bool {
	if p, err := proc.Read(pid); err != nil || p.State == 'T' || p.State == 'D' || p.State == 'Z' {
		return true
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		events, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup", f[2], "cgroup.events"))
		state, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", f[2], "freezer.state"))
		if f[1] == "" && bytes.Contains(events, []byte("frozen 1")) || f[1] == "freezer" && bytes.HasPrefix(state, []byte("FROZEN")) {
			return true
		}
	}
	return false
}

func (w *machineWorld) nodeName() string {
	nodes, err := w.now().Nodes(root)
	if err != nil || len(nodes) == 0 {
		return ""
	}
	return nodes[0].Name
}

// Starts implements executortest.World.
func (w *machineWorld) Starts(id sched.JobID) int {
	text, err := os.ReadFile(filepath.Join(w.out, string(id)+".starts"))
	if err != nil {
		return 0
	}
	return len(strings.Fields(string(text)))
}

// Phase implements executortest.World.
func (w *machineWorld) Phase(id sched.JobID) sched.Phase {
	j, err := w.now().Job(root, id)
	if err != nil {
		w.t.Error(err)
	}
	return j.Status.Phase
}

// Restart implements executortest.World.
func (w *machineWorld) Restart(t *testing.T) {
	t.Helper()
	w.close()
	w.open()
}
