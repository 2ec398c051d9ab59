// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"syscall"
	"testing"
	"time"
)

// Processor measures the processor time of a benchmark from now until the function that it
// returns is called, after the loop. On a machine that does other work, this (cpu-ms/op)
// says more than the time.
func Processor(b *testing.B) (report func()) {
	b.Helper()
	began := processorTime(b)
	return func() {
		b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
	}
}

// processorTime returns the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
