// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// inEpoch is an attempt of a journal's epoch.
func inEpoch(epoch string, a api.Attempt) api.Attempt {
	a.Epoch = epoch
	return a
}

// claims knows the attempts of some epochs.
func claims(epochs ...string) func(api.Attempt) (bool, error) {
	return func(a api.Attempt) (bool, error) {
		for _, e := range epochs {
			if a.Epoch == e {
				return true, nil
			}
		}
		return false, nil
	}
}

func logOf(t *testing.T, m *Machine, job sched.JobID) string {
	t.Helper()
	var out strings.Builder
	if err := m.CopyLog(t.Context(), job, api.LogQuery{}, &out); err != nil {
		return err.Error()
	}
	return out.String()
}

// TestSetAside: a job that has the name of one of another journal runs, and has
// neither its exit, its output nor its files.
func TestSetAside(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Claim = claims("one") })
	blue := inEpoch("one", attempt("train-1", 1, 0b1, `echo blue > $FAIRWAY_CHECKPOINT_DIR/model; echo secret of blue`))
	r.orders.set(blue)
	r.exit(blue.AttemptID)
	r.stop()
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}

	c := r.m.cfg
	c.Claim = claims("two")
	r.orders = newOrders()
	red := inEpoch("two", attempt("train-1", 1, 0b1, `cat $FAIRWAY_CHECKPOINT_DIR/model; echo red; exit 3`))
	r.orders.set(red)
	r.open(c)
	if text := r.m.SetAside(); !strings.Contains(text, "1 folder") || !strings.Contains(text, setAsideDir) {
		t.Errorf("said %q; want how many and where", text)
	}
	if e := r.exit(red.AttemptID); e.Code != 3 {
		t.Errorf("%s; want the code of the new job, 3", show(e))
	}
	if log := logOf(t, r.m, "train-1"); strings.Contains(log, "blue") || !strings.Contains(log, "red") {
		t.Errorf("log %q; want that of the new job alone", log)
	}
	kept, err := filepath.Glob(filepath.Join(c.Dir, setAsideDir, "*", "train-1", checkpointDir, "model"))
	if err != nil || len(kept) != 1 {
		t.Errorf("set aside: %v, %v; want the model of the old job", kept, err)
	}
}

// TestSetAsideRunning: an attempt of another journal that still runs is asked to
// stop, and is never taken for the one that has its name now.
func TestSetAsideRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Claim = claims("one") })
	blue := inEpoch("one", attempt("train-1", 1, 0b1, `trap 'echo saved; exit 75' TERM; echo secret of blue; while :; do sleep 0.02; done`))
	r.orders.set(blue)
	r.started(blue.AttemptID)
	eventually(t, "up", func() bool { return strings.Contains(logOf(t, r.m, "train-1"), "blue") })
	r.stop()
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}

	c := r.m.cfg
	c.Claim = claims("two")
	r.orders = newOrders()
	red := inEpoch("two", attempt("train-1", 1, 0b1, `echo red; exit 3`))
	r.open(c)
	if log := logOf(t, r.m, "train-1"); strings.Contains(log, "blue") {
		t.Errorf("log %q while the other one leaves; want nothing of it", log)
	}
	r.orders.set(red)
	if e := r.exit(red.AttemptID); e.Code != 3 {
		t.Errorf("%s; want the code of the new job, 3", show(e))
	}
	if log := logOf(t, r.m, "train-1"); log != "red\n" {
		t.Errorf("log %q; want that of the new job alone", log)
	}
	kept, _ := filepath.Glob(filepath.Join(c.Dir, setAsideDir, "*", "train-1", "1", "rank-0.log"))
	if len(kept) != 1 || !strings.Contains(read(t, kept[0]), "saved") {
		t.Errorf("set aside: %v; want the whole output, with what it said on notice", kept)
	}
}

// TestSetAsideAttempt: of our own job, only the attempt that is not ours goes.
func TestSetAsideAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first := inEpoch("one", attempt("train-1", 1, 0b1, `echo model > $FAIRWAY_CHECKPOINT_DIR/model`))
	r.orders.set(first)
	r.exit(first.AttemptID)
	r.stop()
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	c := r.m.cfg
	c.Claim = func(a api.Attempt) (bool, error) { return a.Number == 0 || a.Epoch == "two", nil }
	r.orders = newOrders()
	again := inEpoch("two", attempt("train-1", 1, 0b1, `cat $FAIRWAY_CHECKPOINT_DIR/model`))
	r.orders.set(again)
	r.open(c)
	if e := r.exit(again.AttemptID); e.Code != 0 {
		t.Errorf("%s; want 0: the checkpoint is the job's own", show(e))
	}
	if kept, _ := filepath.Glob(filepath.Join(c.Dir, setAsideDir, "*", "train-1", "1", attemptFile)); len(kept) != 1 {
		t.Errorf("set aside: %v; want the attempt", kept)
	}
}

// TestToldAgainWhenWithdrawn: an end that the journal has lost is reported again for
// an attempt that should no longer run.
func TestToldAgainWhenWithdrawn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := attempt("train-1", 1, 0b1, `exit 4`)
	r.orders.set(a)
	r.exit(a.AttemptID)
	r.stop()
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	c := r.m.cfg
	r.orders = newOrders()
	r.orders.leaving = []api.AttemptID{a.AttemptID}
	r.open(c)
	if e := r.exit(a.AttemptID); e.Code != 4 {
		t.Errorf("%s; want code 4", show(e))
	}
	if !exists(filepath.Join(r.m.attemptDir(a.AttemptID), toldFile)) {
		t.Error("it is not marked as reported")
	}
	if _, err := os.Stat(filepath.Join(c.Dir, setAsideDir)); err == nil {
		t.Error("something was set aside")
	}
}
