// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package proc reads the processes of this machine from /proc, and signals exactly the
// process that was meant: a number and a start time name a process, a number alone does
// not, because the kernel uses numbers again.
package proc
