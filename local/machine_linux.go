// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/sched"
)

const (
	tick      = time.Second     // how often the machine is looked at even if nothing is heard
	keepEvery = 5 * time.Minute // how often old folders are looked for
	maxTries  = 3               // to start a supervisor before the attempt is lost
	atOnce    = 16              // attempts that are started, settled or reported at a time
	// stuckAfter is how long after its deadline a supervisor counts as stuck.
	stuckAfter = killPatience + 10*time.Second
	// tellAgain is how long an attempt may stay ordered after its exit was
	// acknowledged; an older list of orders is gone by then.
	tellAgain = 2 * time.Second
)

// Machine makes the processes of this machine follow orders.
type Machine struct {
	cfg   Config
	boot  string
	group bool // attempts get control groups
	lock  *os.File
	gauge gauge
	mps   mps
	warm  warmPool
	room  room

	wake chan struct{}
	slot chan struct{} // bounds concurrent work
	work sync.WaitGroup

	mu       sync.Mutex
	runs     map[api.AttemptID]*run
	stopping bool
	ordered  map[sched.JobID]bool // jobs of the last list
	leaveAt  time.Time            // when to look for attempts that were taken back; of step alone
	keepAt   time.Time
	aside    string // folder for what is not ours, of this run of the daemon
	moved    int    // folders that went there
}

// Open takes over the folder of a machine: it reads what is there and kills
// processes that belong to no attempt. Run adopts the rest.
func Open(c Config) (*Machine, error) {
	c = c.withDefaults()
	if c.Dir == "" || len(c.Shim) == 0 {
		return nil, errors.New("open machine: Dir and Shim must be set")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open machine: %w", err)
	}
	c.Dir = dir
	if len(c.Devices) == 0 {
		c.Devices = slices.Repeat([]Device{{Index: -1, Type: c.Node.Type}}, c.Node.GPUs)
	}
	m := &Machine{
		cfg: c, boot: bootID(),
		wake: make(chan struct{}, 1), slot: make(chan struct{}, atOnce),
		runs: map[api.AttemptID]*run{}, ordered: map[sched.JobID]bool{},
	}
	if err := os.MkdirAll(m.jobsDir(), 0o711); err != nil {
		return nil, fmt.Errorf("open machine: %w", err)
	}
	if m.lock, err = lockSoon(filepath.Join(dir, lockFile)); err != nil {
		return nil, fmt.Errorf("open machine: %w; only one daemon may use a folder", err)
	}
	groups := findCgroups()
	m.group = groups != nil
	c.Log.Info("control groups", "kind", groups.text())
	m.killStrays()
	m.sweepMemory()
	if err := m.load(); err != nil {
		m.lock.Close()
		return nil, fmt.Errorf("open machine: %w", err)
	}
	m.gauge.open(m)
	m.mps.open(&m.cfg)
	m.warm.open(&m.cfg)
	return m, nil
}

// Close releases the folder. Jobs keep running.
func (m *Machine) Close() error {
	m.work.Wait()
	m.quitMPS()
	m.closeWarm()
	m.closeMemory()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runs {
		r.unwatch()
	}
	return m.lock.Close()
}

// lockSoon takes a lock that a process which was just killed may still hold for a
// moment.
func lockSoon(path string) (*os.File, error) {
	for until := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		f, err := takeLock(path)
		if err == nil || !errors.Is(err, errHeld) || time.Now().After(until) {
			return f, err
		}
	}
}

// Run makes the machine follow the orders until the context ends. It does not stop
// the jobs then: the next Run finds them.
func (m *Machine) Run(ctx context.Context, orders executor.Port) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.work.Wait()
	defer cancel()
	m.work.Go(func() { m.gauge.run(ctx, m) })
	m.work.Go(func() { m.watchMPS(ctx) })
	m.work.Go(func() { m.watchWarm(ctx) })
	m.work.Go(func() { m.watchRoom(ctx) })
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		m.step(ctx, orders)
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		case <-orders.Ordered():
		case <-ticker.C:
		}
	}
}

// StopAll stops every attempt with its grace period and waits until all are gone.
// The machine then starts nothing more. The exits are reported when the machine
// runs, now or the next time.
func (m *Machine) StopAll(ctx context.Context) error {
	m.mu.Lock()
	m.stopping = true
	m.mu.Unlock()
	for {
		m.step(ctx, nil)
		left := 0
		m.mu.Lock()
		for _, r := range m.runs {
			if r.state == running || r.state == launching {
				left++
			}
		}
		m.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop all jobs: %d still running: %w", left, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// background works on a run without holding the machine's mutex. The caller holds
// the mutex; the work may take it only through m.update.
func (m *Machine) background(r *run, work func()) {
	r.busy = true
	m.work.Go(func() {
		m.slot <- struct{}{}
		work()
		<-m.slot
		m.update(func() { r.busy = false })
		m.poke()
	})
}

func (m *Machine) update(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// poke makes the machine look again soon.
func (m *Machine) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Machine) jobsDir() string { return filepath.Join(m.cfg.Dir, jobsFolder) }

func (m *Machine) jobDir(id sched.JobID) string { return filepath.Join(m.jobsDir(), string(id)) }

func (m *Machine) attemptDir(id api.AttemptID) string {
	return filepath.Join(m.jobDir(id.Job), strconv.Itoa(id.Number))
}
