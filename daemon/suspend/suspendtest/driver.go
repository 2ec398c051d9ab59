// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package suspendtest has a GPU driver for tests, which keeps the state of processes as
// the CUDA driver would.
package suspendtest

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/fairway-gpu/fairway/daemon/suspend"
)

// Driver implements suspend.Driver. It may be used by several at a time.
type Driver struct {
	// Any says that every process uses CUDA, not only those of New.
	Any bool
	// Fails reports whether a call fails: "lock", "checkpoint", "restore" or "unlock". Nil:
	// none does. It may panic, as a crash would.
	Fails func(verb string, pid int) bool

	mu     sync.Mutex
	states map[int]suspend.GPUState
}

// New returns a driver of processes that are on their GPUs.
func New(pids ...int) *Driver {
	d := &Driver{states: map[int]suspend.GPUState{}}
	for _, pid := range pids {
		d.states[pid] = suspend.OnGPUs
	}
	return d
}

// Open opens the driver, as suspend.Host does.
func (d *Driver) Open() (suspend.Driver, error) { return d, nil }

// Set puts a process into a state.
func (d *Driver) Set(pid int, s suspend.GPUState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.states[pid] = s
}

// States returns the states of all processes that were ever asked for.
func (d *Driver) States() map[int]suspend.GPUState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.states)
}

// All reports whether all processes are in a state.
func (d *Driver) All(want suspend.GPUState) bool {
	for _, s := range d.States() {
		if s != want {
			return false
		}
	}
	return true
}

func (d *Driver) move(verb string, pid int, from, to suspend.GPUState) error {
	if d.Fails != nil && d.Fails(verb, pid) {
		return errors.New("CUDA_ERROR_NOT_SUPPORTED (801)")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.states[pid] != from {
		return fmt.Errorf("CUDA_ERROR_ILLEGAL_STATE (401): %d is in state %d", pid, d.states[pid])
	}
	d.states[pid] = to
	return nil
}

// State implements suspend.Driver.
func (d *Driver) State(pid int) (suspend.GPUState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.states[pid]
	if !ok && !d.Any {
		return 0, errors.New("CUDA_ERROR_INVALID_VALUE (1)")
	}
	d.states[pid] = s
	return s, nil
}

// Lock implements suspend.Driver.
func (d *Driver) Lock(pid int) error { return d.move("lock", pid, suspend.OnGPUs, suspend.Locked) }

// Checkpoint implements suspend.Driver.
func (d *Driver) Checkpoint(pid int) error {
	return d.move("checkpoint", pid, suspend.Locked, suspend.Away)
}

// Restore implements suspend.Driver.
func (d *Driver) Restore(pid int) error { return d.move("restore", pid, suspend.Away, suspend.Locked) }

// Unlock implements suspend.Driver.
func (d *Driver) Unlock(pid int) error { return d.move("unlock", pid, suspend.Locked, suspend.OnGPUs) }

// Close implements suspend.Driver.
func (d *Driver) Close() error { return nil }
