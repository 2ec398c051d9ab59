// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/e2e/jumpy"
)

// jumpyProgram builds the fairway command with a clock that a test moves, in the
// daemon and in its supervisors alike.
func jumpyProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := jumpy.Overlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "fairway")
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", path, "../cmd/fairway").CombinedOutput()
	if err != nil {
		t.Fatalf("build fairway with another clock: %v\n%s", err, out)
	}
	return path
}

// TestClockJumps moves the machine's clock by up to a month, to and fro, while users
// work and the daemon is killed. FAIRWAY_CHAOS_JUMPS says how often. The program takes
// minutes to compile, so that only "make chaos" runs it; TestClockJumps of daemon/state
// is the small dose.
func TestClockJumps(t *testing.T) {
	jumps := scale("FAIRWAY_CHAOS_JUMPS", 0)
	if jumps == 0 {
		t.Skip(`run by "make chaos"`)
	}
	clock, err := jumpy.NewClock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set := func(off time.Duration) {
		t.Helper()
		if err := clock.Set(off); err != nil {
			t.Fatal(err)
		}
	}
	const first = 2 * time.Hour
	set(first)
	t.Setenv(jumpy.Variable, clock.Name())
	d := (&daemon{path: jumpyProgram(t)}).on(t, shortDir(t), "--config", chaosConfig(t))
	if o := d.overview(); (time.Until(o.Now) - first).Abs() > time.Minute {
		t.Fatalf("the daemon's clock is at %s; want %s off", o.Now, first)
	}
	u := usersOf(t, d, "true")
	moments := rand.New(rand.NewPCG(7, 8))
	kills := 0
	for range jumps {
		time.Sleep(time.Duration(500+moments.IntN(1500)) * time.Millisecond)
		span := []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[moments.IntN(4)]
		set(time.Duration(moments.Int64N(int64(2*span))) - span)
		switch moments.IntN(3) {
		case 0:
			kills++
			d.kill()
			d.start()
		case 1: // its job is started again after a back-off, which must end
			killOne(d.data, moments)
		}
	}
	set(-time.Hour)
	killOne(d.data, moments)
	u.account("clock jump", fmt.Sprintf("%d by up to a month, %d of them with a kill -9 of the daemon", jumps, kills))
}
