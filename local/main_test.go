// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/sched"
)

// The test binary plays the supervisor, and the daemon that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "shim":
			os.Exit(ShimMain(os.Args[2:]))
		case "member":
			os.Exit(member())
		case "machine":
			os.Exit(crashMachine(os.Args[2]))
		}
	}
	// A program built with the race detector sleeps a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// fakeOrders is a list of attempts that a test changes.
type fakeOrders struct {
	mu      sync.Mutex
	list    []api.Attempt
	changed chan struct{}
	started []api.AttemptID
	exits   []api.Exit

	suspended []api.Suspended
	leaving   []api.AttemptID // taken back, and no end is known
	looks     int             // how often Withdrawn was asked
	refuse    int             // so many reports are refused
}

func newOrders() *fakeOrders { return &fakeOrders{changed: make(chan struct{}, 1)} }

func (o *fakeOrders) Attempts() []api.Attempt {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.list)
}

func (o *fakeOrders) Withdrawn() []api.AttemptID {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks++
	return slices.DeleteFunc(slices.Clone(o.leaving), func(id api.AttemptID) bool {
		return slices.ContainsFunc(o.exits, func(e api.Exit) bool { return e.AttemptID == id })
	})
}

func (o *fakeOrders) Ordered() <-chan struct{} { return o.changed }

func (o *fakeOrders) Started(id api.AttemptID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = append(o.started, id)
}

func (o *fakeOrders) Suspended(_ context.Context, s api.Suspended) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuse > 0 {
		o.refuse--
		return fmt.Errorf("not now")
	}
	o.suspended = append(o.suspended, s)
	return nil
}

func (o *fakeOrders) Exited(_ context.Context, e api.Exit) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuse > 0 {
		o.refuse--
		return fmt.Errorf("not now")
	}
	o.exits = append(o.exits, e)
	o.list = slices.DeleteFunc(o.list, func(a api.Attempt) bool { return a.AttemptID == e.AttemptID })
	return nil
}

func (o *fakeOrders) set(list ...api.Attempt) {
	o.mu.Lock()
	o.list = slices.Clone(list)
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *fakeOrders) exitsOf(id api.AttemptID) []api.Exit {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []api.Exit
	for _, e := range o.exits {
		if e.AttemptID == id {
			out = append(out, e)
		}
	}
	return out
}

func (o *fakeOrders) isStarted(id api.AttemptID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.started, id)
}

// rig is a machine that runs.
type rig struct {
	t      testing.TB
	m      *Machine
	orders *fakeOrders
	stop   func()
}

func testConfig(dir string) Config {
	c := Config{
		Dir: dir, Memory: dir /* on a disk: none */, API: "unix:///nowhere.sock", Shim: []string{"/proc/self/exe", "shim"},
		Node:        sched.Node{Name: "here", GPUs: 4, Type: "cpu", Memory: 8 << 30},
		GracePeriod: patience, Sample: 50 * time.Millisecond,
	}
	for range 4 {
		c.Devices = append(c.Devices, Device{Index: -1, Type: "cpu"})
	}
	return c
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	return newRigWith(t, change)
}

// newRigWith opens a machine that has orders from the beginning.
func newRigWith(t testing.TB, change func(*Config), list ...api.Attempt) *rig {
	t.Helper()
	dir := t.TempDir()
	c := testConfig(dir)
	if change != nil {
		change(&c)
	}
	r := &rig{t: t, orders: newOrders()}
	r.orders.set(list...)
	r.open(c)
	t.Cleanup(func() {
		r.stop()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.m.StopAll(ctx); err != nil {
			t.Error(err)
		}
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) open(c Config) {
	r.t.Helper()
	m, err := Open(c)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, r.orders) }()
	r.m = m
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// reopen is a restart of the daemon.
func (r *rig) reopen() {
	r.t.Helper()
	r.stop()
	if err := r.m.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open(r.m.cfg)
}

// patience is how long a machine with little time to spare may take for what
// takes a moment.
const patience = 2 * time.Minute

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// always checks that a condition keeps holding for a while.
func always(t testing.TB, what string, during time.Duration, f func() bool) {
	t.Helper()
	end := time.Now().Add(during)
	eventually(t, what, func() bool {
		if !f() {
			t.Fatalf("not so: %s", what)
		}
		return time.Now().After(end)
	})
}

// exit waits for the one exit of an attempt.
func (r *rig) exit(id api.AttemptID) api.Exit {
	r.t.Helper()
	eventually(r.t, "exit of "+id.String(), func() bool { return len(r.orders.exitsOf(id)) > 0 })
	exits := r.orders.exitsOf(id)
	if len(exits) != 1 {
		r.t.Fatalf("%s was reported %d times", id, len(exits))
	}
	if exits[0].At.IsZero() {
		r.t.Errorf("%s: exit without a time", id)
	}
	return exits[0]
}

func (r *rig) started(id api.AttemptID) {
	r.t.Helper()
	eventually(r.t, "start of "+id.String(), func() bool { return r.orders.isStarted(id) })
}

func attempt(job string, number int, gpus sched.GPUSet, script string) api.Attempt {
	return api.Attempt{
		AttemptID: api.AttemptID{Job: sched.JobID(job), Number: number},
		Spec:      sched.Spec{ID: sched.JobID(job), GPUs: gpus.Len()},
		Task:      api.Task{Command: []string{"sh", "-c", script}},
		Owner:     api.Owner{UID: -1, GID: -1},
		Placement: sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: gpus}},
		Token:     "secret",
	}
}

// show prints all of an exit, which prints as its attempt otherwise.
func show(e api.Exit) string {
	b, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// alive counts processes whose environment holds a text.
func alive(t testing.TB, text string) int {
	t.Helper()
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for pid, p := range all {
		if p.State != 'Z' && strings.Contains(string(environ(pid)), text) {
			n++
		}
	}
	return n
}

// ranksOf counts the processes of a job without its supervisor. Other tests may
// have a job of the same name at the same time.
func ranksOf(r *rig, job sched.JobID) int {
	r.t.Helper()
	return alive(r.t, keepDirVar+"="+r.m.jobDir(job)+"/")
}

// writeProgram writes a program that is going to be run. A process that another
// test starts meanwhile would have the file open for a moment, and the kernel runs
// no file that is open for writing: so none is started meanwhile.
func writeProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}
