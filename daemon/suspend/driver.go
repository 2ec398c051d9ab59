// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"fmt"
	"strings"
)

// Driver takes processes off their GPUs and puts them back. A process has to be locked
// before what it has on its GPUs is moved to the host, and unlocked after it was moved
// back.
type Driver interface {
	State(pid int) (GPUState, error) // an error: it does not use CUDA
	Lock(pid int) error
	Checkpoint(pid int) error
	Restore(pid int) error
	Unlock(pid int) error
	Close() error
}

// GPUState is where a process is for the driver (CUprocessState).
type GPUState int

// The states of a process.
const (
	OnGPUs GPUState = iota
	Locked
	Away // on the host
	Failed
)

// offGPUs takes processes off their GPUs, all or none: the error says which one could
// not be, and the others are back then. It does what is left to do, so it can be
// called again after a crash.
func offGPUs(d Driver, pids []int) error {
	var users []int
	err := func() error {
		for _, pid := range pids {
			s, err := d.State(pid)
			if err != nil {
				continue // it has a GPU's file open, but no context: a forked loader of data
			}
			users = append(users, pid)
			if s == Failed {
				return fmt.Errorf("process %d: an earlier suspension has failed", pid)
			}
			if s != OnGPUs {
				continue
			}
			if err := d.Lock(pid); err != nil {
				return fmt.Errorf("process %d: lock: %w", pid, explained(err))
			}
		}
		for _, pid := range users {
			if s, err := d.State(pid); err == nil && s == Away {
				continue
			}
			if err := d.Checkpoint(pid); err != nil {
				return fmt.Errorf("process %d: checkpoint: %w", pid, explained(err))
			}
		}
		return nil
	}()
	if err == nil {
		return nil
	}
	if back := ontoGPUs(d, users); back != nil {
		return fmt.Errorf("%w; and it could not be undone: %w", err, back)
	}
	return err
}

// explained adds what an error of the driver means.
func explained(err error) error {
	if strings.Contains(err.Error(), "(801)") {
		return fmt.Errorf("%w: the driver does not suspend programs like this, such as clients of MPS", err)
	}
	return err
}

// ontoGPUs puts processes back on their GPUs. Like offGPUs it does what is left to do.
func ontoGPUs(d Driver, pids []int) error {
	var errs []error
	each := func(from GPUState, what string, call func(int) error) {
		for _, pid := range pids {
			if s, err := d.State(pid); err != nil || s != from {
				continue // it has ended, or is further
			}
			if err := call(pid); err != nil {
				errs = append(errs, fmt.Errorf("process %d: %s: %w", pid, what, err))
			}
		}
	}
	each(Away, "restore", d.Restore)
	if len(errs) == 0 {
		each(Locked, "unlock", d.Unlock)
	}
	return errors.Join(errs...)
}
