// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/daemon/suspend/suspendtest"
)

// crashAfter makes a driver crash after so many calls; 0: never.
func crashAfter(d *suspendtest.Driver, calls int) {
	left := calls
	d.Fails = func(string, int) bool {
		if left--; calls > 0 && left < 0 {
			panic("crash")
		}
		return false
	}
}

// TestDriver: processes leave their GPUs together or not at all, and a crash at any
// call is made good by the next try.
func TestDriver(t *testing.T) {
	t.Parallel()
	pids := []int{11, 12, 13, 14} // 14 does not use CUDA
	d := suspendtest.New(11, 12, 13)
	if err := suspend.OffGPUs(d, pids); err != nil || !d.All(suspend.Away) {
		t.Errorf("off: %v, %v", err, d.States())
	}
	if err := suspend.OntoGPUs(d, pids); err != nil || !d.All(suspend.OnGPUs) {
		t.Errorf("back: %v, %v", err, d.States())
	}
	for _, verb := range []string{"lock", "checkpoint"} {
		for _, pid := range pids[:3] {
			d := suspendtest.New(11, 12, 13)
			d.Fails = func(v string, p int) bool { return v == verb && p == pid }
			err := suspend.OffGPUs(d, pids)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d: %s: ", pid, verb)) || !d.All(suspend.OnGPUs) {
				t.Errorf("%s of %d fails: %v, %v; want all on GPUs, and which failed", verb, pid, err, d.States())
			}
		}
	}
	try := func(d *suspendtest.Driver, f func(suspend.Driver, []int) error) (crashed bool) {
		defer func() { crashed = recover() != nil }()
		_ = f(d, pids)
		return false
	}
	for calls := 1; calls <= 6; calls++ {
		d := suspendtest.New(11, 12, 13)
		crashAfter(d, calls)
		crashed := try(d, suspend.OffGPUs)
		crashAfter(d, 0)
		if err := suspend.OffGPUs(d, pids); crashed != (calls < 6) || err != nil || !d.All(suspend.Away) {
			t.Errorf("crash after %d calls, then off: %v, %v", calls, err, d.States())
		}
		crashAfter(d, calls)
		try(d, suspend.OntoGPUs)
		crashAfter(d, 0)
		if err := suspend.OntoGPUs(d, pids); err != nil || !d.All(suspend.OnGPUs) {
			t.Errorf("crash after %d calls, then back: %v, %v", calls, err, d.States())
		}
	}
	d = suspendtest.New()
	d.Set(11, suspend.Failed)
	if err := suspend.OffGPUs(d, pids); err == nil {
		t.Error("a process that the driver gave up was suspended")
	}
}
