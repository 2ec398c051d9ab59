// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package proc reads the processes of this machine from /proc, and signals exactly the
// process that was meant: a number and a start time name a process, a number alone does
// not, because the kernel uses numbers again.
package proc

// Process is what /proc reports of a process.
type Process struct {
	PID, Parent, Session int
	State                byte   // 'Z': dead, waiting for its parent
	Ticks                uint64 // CPU time of it and of its children that ended, in clock ticks
	Start                uint64 // clock ticks since boot
	RSS                  int64  // bytes
}
