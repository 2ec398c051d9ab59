// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"strings"
)

// gpuDriver takes processes off their GPUs and puts them back. A process has to be
// locked before what it has on its GPUs is moved to the host, and unlocked after it
// was moved back.
type gpuDriver interface {
	State(pid int) (gpuState, error) // an error: it does not use CUDA
	Lock(pid int) error
	Checkpoint(pid int) error
	Restore(pid int) error
	Unlock(pid int) error
	Close() error
}

// gpuState is where a process is for the driver (CUprocessState).
type gpuState int

const (
	gpuRunning gpuState = iota
	gpuLocked
	gpuAway // on the host
	gpuFailed
)

// offGPUs takes processes off their GPUs, all or none: the error says which one could
// not be, and the others are back then. It does what is left to do, so it can be
// called again after a crash.
func offGPUs(d gpuDriver, pids []int) error {
	var users []int
	err := func() error {
		for _, pid := range pids {
			s, err := d.State(pid)
			if err != nil {
				continue // it has a GPU's file open, but no context: a forked loader of data
			}
			users = append(users, pid)
			if s == gpuFailed {
				return fmt.Errorf("process %d: an earlier suspension has failed", pid)
			}
			if s != gpuRunning {
				continue
			}
			if err := d.Lock(pid); err != nil {
				return fmt.Errorf("process %d: lock: %w", pid, explained(err))
			}
		}
		for _, pid := range users {
			if s, err := d.State(pid); err == nil && s == gpuAway {
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
func ontoGPUs(d gpuDriver, pids []int) error {
	var errs []error
	each := func(from gpuState, what string, call func(int) error) {
		for _, pid := range pids {
			if s, err := d.State(pid); err != nil || s != from {
				continue // it has ended, or is further
			}
			if err := call(pid); err != nil {
				errs = append(errs, fmt.Errorf("process %d: %s: %w", pid, what, err))
			}
		}
	}
	each(gpuAway, "restore", d.Restore)
	if len(errs) == 0 {
		each(gpuLocked, "unlock", d.Unlock)
	}
	return errors.Join(errs...)
}
