// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os/exec"
	"testing"
)

// TestJoined: processes that run side by side are told from those that have met.
func TestJoined(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	r := newRig(t, nil)
	apart := attempt("apart", 1, 0b11, "exec sleep 100")
	alone := attempt("alone", 1, 0b100, "exec sleep 100")
	met := attempt("met", 1, 0b1000, "")
	met.Task.Command = []string{python, "-c", `
import os, socket, time
s = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"]))) if os.environ["RANK"] == "0" else None
time.sleep(100)`}
	r.orders.set(apart, alone)
	r.started(apart.AttemptID)
	r.started(alone.AttemptID)
	if joined, ok := r.m.Joined(apart.AttemptID); joined || !ok {
		t.Errorf("two that sleep: joined %v, known %v; want that they have not", joined, ok)
	}
	if _, ok := r.m.Joined(alone.AttemptID); ok {
		t.Error("one process: want nothing to tell")
	}
	met.Placement[0].GPUs = 0b11
	met.Task.Single = false
	r.orders.set(met)
	r.exit(apart.AttemptID)
	r.started(met.AttemptID)
	eventually(t, "the two meet", func() bool { joined, ok := r.m.Joined(met.AttemptID); return joined && ok })
}
