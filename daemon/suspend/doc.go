// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package suspend takes processes off their GPUs and freezes them, and lets them go on
// later as if nothing had happened. The executor of one machine does so with the processes
// of an attempt, the agent of a Kubernetes node with those of its pods.
//
// A suspension has three steps: a file names the processes that use GPUs, the driver moves
// what they have there to the host, and all processes are frozen. Each step can be done
// again, and the file stays until the processes have gone on, so whoever restarts in
// between completes what was begun.
package suspend

import (
	"errors"
	"time"

	"github.com/fairway-gpu/fairway/daemon/proc"
)

// Host is the machine of the processes. Zero fields mean the default.
type Host struct {
	Open   func() (Driver, error)       // opens the driver for one suspension; default: the program fairway-cuda
	Uses   func(pid int) bool           // whether a process uses a GPU; default: it has the file of one open
	Memory func(pids []int) (sum int64) // bytes that processes have on GPUs; 0: not known
}

// Target is the processes that are suspended as one.
type Target struct {
	File string // the path of the file; it belongs to this package
	// Groups are the control groups that hold all processes, and nothing else. If one of
	// them cannot be frozen, the processes are stopped with SIGSTOP.
	Groups []string
	// Limits are the control groups whose limit of memory is raised meanwhile: the driver
	// moves what is on the GPUs into the memory of the processes.
	Limits    []string
	Processes func() ([]proc.Process, error)
}

// Result is what a suspension took.
type Result struct {
	Memory int64         // bytes that were on the GPUs
	Out    time.Duration // until all was frozen
	Told   bool          // Told was called
}

// ErrShort means that the memory of the host does not hold what is on the GPUs.
var ErrShort = errors.New("host memory is short")
