// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// member plays the agent of a rank, as python/src/fairway/member.py does it: it
// writes a line for each generation that it trains in, and ends when there is a file
// "end" in its folder. A file "fresh-fails" makes new ranks end at once, and one
// "fresh-waits" makes them wait until it is gone.
func member() int {
	generation, _ := strconv.Atoi(os.Getenv("FAIRWAY_GENERATION"))
	if _, err := os.Stat("fresh-fails"); err == nil && generation > 0 {
		return 3
	}
	for generation > 0 && exists("fresh-waits") {
		time.Sleep(5 * time.Millisecond)
	}
	conn, err := net.Dial("unix", "@"+os.Getenv("FAIRWAY_GANG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	say := func(format string, args ...any) { fmt.Fprintf(conn, format+"\n", args...) }
	trains := func(p place) {
		name := fmt.Sprintf("g%d-r%d-of%d", p.Generation, p.Rank, p.World)
		_ = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())), 0o600)
		say(`{"up": %d}`, p.Generation)
	}
	say(`{"member": %s, "generation": %d}`, os.Getenv("FAIRWAY_MEMBER"), generation)
	if generation == 0 {
		rank, _ := strconv.Atoi(os.Getenv("RANK"))
		world, _ := strconv.Atoi(os.Getenv("WORLD_SIZE"))
		trains(place{Rank: rank, World: world})
	} else {
		say(`{"ready": %d}`, generation)
	}
	go func() {
		for !exists("end") {
			time.Sleep(5 * time.Millisecond)
		}
		os.Exit(0)
	}()
	var p place
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var m struct {
			place
			goAhead
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			return 1
		}
		switch {
		case m.Go > 0:
			trains(p)
		case m.place.Rank < 0:
			return 0
		default:
			p = m.place
			say(`{"ready": %d}`, p.Generation)
		}
	}
	return 1
}

func memberAttempt(job string, gpus sched.GPUSet) api.Attempt {
	a := attempt(job, 1, gpus, "")
	a.Task.Command = []string{"/proc/self/exe", "member", "x"}
	exe, err := os.Executable()
	if err == nil {
		a.Task.Command[0] = exe
	}
	return a
}

// gangRig is a gang of members on a machine.
type gangRig struct {
	*rig
	a    api.Attempt
	work string
}

func newGang(t *testing.T, gpus sched.GPUSet) *gangRig {
	return newGangOf(t, func(*api.Attempt) {}, gpus)
}

func newGangOf(t *testing.T, edit func(*api.Attempt), gpus sched.GPUSet) *gangRig {
	r := newRig(t, nil)
	g := &gangRig{rig: r, a: memberAttempt("gang", gpus), work: filepath.Join(r.m.cfg.Dir, "jobs/gang/work")}
	edit(&g.a)
	r.orders.set(g.a)
	r.started(g.a.AttemptID)
	t.Cleanup(func() {
		if t.Failed() {
			dir := r.m.attemptDir(g.a.AttemptID)
			t.Log(read(t, dir, shimLog), read(t, dir, resizeFile), read(t, dir, resizedFile), read(t, dir, exitFile))
		}
	})
	return g
}

// pids waits for the processes of a generation, by rank.
func (g *gangRig) pids(generation, world int) (out []int) {
	g.t.Helper()
	for rank := range world {
		path := filepath.Join(g.work, fmt.Sprintf("g%d-r%d-of%d", generation, rank, world))
		var pid int
		eventually(g.t, path, func() bool {
			var err error
			pid, err = strconv.Atoi(read(g.t, path))
			return err == nil
		})
		out = append(out, pid)
	}
	return out
}

// order orders the attempt on other GPUs, and waits until it is there.
func (g *gangRig) order(gpus sched.GPUSet) {
	g.t.Helper()
	g.a.Placement = sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: gpus}}
	g.orders.set(g.a)
}

func (g *gangRig) holds() (p sched.Placement, requested bool) {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	r := g.m.runs[g.a.AttemptID]
	return r.holds(), r.request != nil
}

func (g *gangRig) arrived() {
	g.t.Helper()
	eventually(g.t, "the new placement", func() bool {
		p, requested := g.holds()
		return !requested && p.Equal(g.a.Placement)
	})
}

func (g *gangRig) end() {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.work, "end"), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
	if e := g.exit(g.a.AttemptID); !e.OK() {
		g.t.Errorf("exit %s", show(e))
	}
}

func TestResizeInPlace(t *testing.T) {
	t.Parallel()
	g := newGang(t, 0b0010)
	one := g.pids(0, 1)
	g.order(0b1111)
	four := g.pids(1, 4)
	g.arrived()
	if four[0] != one[0] {
		t.Errorf("the first rank is process %d; it was %d", four[0], one[0])
	}
	g.reopen() // a daemon that finds the gang as it is now
	g.order(0b1100)
	two := g.pids(2, 2)
	g.arrived()
	if n := ranksOf(g.rig, "gang"); n != 2 {
		t.Errorf("%d processes; want 2", n)
	}
	// Ranks are ordered by GPU at the start; those that stay come first.
	if two[0] != four[2] || two[1] != four[3] {
		t.Errorf("processes %v of %v stay; want the last two", two, four)
	}
	g.end()
}

func TestRankIsReplaced(t *testing.T) {
	t.Parallel()
	g := newGang(t, 0b011)
	g.order(0b111) // when it is there, all ranks are known to train
	g.arrived()
	for i := range mostDeaths {
		generation := 1 + i
		before := g.pids(generation, 3)
		_ = unix.Kill(before[0], unix.SIGKILL)
		after := g.pids(generation+1, 3)
		if after[0] != before[1] || after[1] != before[2] || after[2] == before[0] {
			t.Errorf("generation %d: %v; before %v", generation+1, after, before)
		}
	}
	// Once more is once too often.
	_ = unix.Kill(g.pids(1+mostDeaths, 3)[1], unix.SIGKILL)
	if e := g.exit(g.a.AttemptID); e.Signal != "SIGKILL" {
		t.Errorf("exit %s", show(e))
	}
}

// TestElasticGangGoesOnWithout: the others of an elastic gang do not wait for the
// replacement of a rank that died.
func TestElasticGangGoesOnWithout(t *testing.T) {
	t.Parallel()
	g := newGangOf(t, func(a *api.Attempt) { a.Spec.MinGPUs, a.Spec.MaxGPUs = 2, 4 }, 0b011)
	g.order(0b111)
	g.arrived()
	before := g.pids(1, 3)
	wait := filepath.Join(g.work, "fresh-waits")
	if err := os.WriteFile(wait, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(before[1], unix.SIGKILL)
	two := g.pids(2, 2)
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	three := g.pids(3, 3)
	if two[0] != before[0] || two[1] != before[2] || three[0] != two[0] || three[1] != two[1] {
		t.Errorf("processes %v, then %v, then %v", before, two, three)
	}
	g.end()
}

// TestRankDiesWhileItIsToLeave: a process that is to go anyway is not replaced.
func TestRankDiesWhileItIsToLeave(t *testing.T) {
	t.Parallel()
	g := newGang(t, 0b011)
	g.order(0b0001)
	g.arrived()
	g.order(0b0011)
	g.arrived() // all ranks are known to train
	before := g.pids(2, 2)
	wait := filepath.Join(g.work, "fresh-waits")
	if err := os.WriteFile(wait, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g.order(0b110)
	eventually(t, "a new process", func() bool { return ranksOf(g.rig, "gang") == 3 })
	_ = unix.Kill(before[0], unix.SIGKILL)
	eventually(t, "that the supervisor sees it", func() bool {
		return strings.Contains(read(t, g.m.attemptDir(g.a.AttemptID), shimLog), "died (SIGKILL)")
	})
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	if after := g.pids(4, 2); after[0] != before[1] {
		t.Errorf("processes %v; the first was %d", after, before[1])
	}
	g.arrived()
	g.end()
}

func TestResizeFallsBack(t *testing.T) {
	t.Parallel()
	t.Run("no agent", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		a := attempt("plain", 1, 0b1, "exec sleep 100")
		r.orders.set(a)
		r.started(a.AttemptID)
		a.Placement = sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: 0b11}}
		r.orders.set(a)
		if e := r.exit(a.AttemptID); !e.Noticed {
			t.Errorf("exit %s", show(e))
		}
	})
	t.Run("a new rank fails", func(t *testing.T) {
		t.Parallel()
		g := newGang(t, 0b1)
		g.pids(0, 1)
		if err := os.WriteFile(filepath.Join(g.work, "fresh-fails"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		g.order(0b11)
		e := g.exit(g.a.AttemptID)
		if !e.Noticed || !strings.Contains(e.Why, "a new process ended: exit code 3") {
			t.Errorf("exit %s", show(e))
		}
	})
}

func TestGangGrowsWhenItsGPUIsFree(t *testing.T) {
	t.Parallel()
	g := newGang(t, 0b1)
	g.pids(0, 1)
	other := attempt("other", 1, 0b10, "trap '' TERM; while :; do sleep 0.01; done")
	other.Task.GracePeriod = sched.Duration(300 * time.Millisecond)
	g.orders.set(g.a, other)
	g.started(other.AttemptID)
	g.order(0b11) // and the other is withdrawn
	always(t, "the GPU is the other's", 100*time.Millisecond, func() bool {
		_, requested := g.holds()
		return len(g.orders.exitsOf(other.AttemptID)) > 0 || !requested
	})
	g.pids(1, 2)
	g.arrived()
	g.end()
}

// TestCrashDuringAChange: a daemon that restarts in the middle of a change completes
// it, and a supervisor that is killed leaves nothing behind.
func TestCrashDuringAChange(t *testing.T) {
	t.Parallel()
	g := newGang(t, 0b0001)
	g.pids(0, 1)
	wait := filepath.Join(g.work, "fresh-waits")
	begin := func(gpus sched.GPUSet, processes int) {
		t.Helper()
		if err := os.WriteFile(wait, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		g.order(gpus)
		eventually(t, "new processes", func() bool { return ranksOf(g.rig, "gang") == processes })
	}
	begin(0b0011, 2)
	g.reopen()
	if p, requested := g.holds(); !requested || p[0].GPUs != 0b0011 {
		t.Errorf("holds %v, request %v; want both GPUs and a request", p, requested)
	}
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	g.pids(1, 2)
	g.arrived()

	begin(0b0111, 3)
	g.m.mu.Lock()
	g.m.runs[g.a.AttemptID].signalShim(sigKill)
	g.m.mu.Unlock()
	if e := g.exit(g.a.AttemptID); !e.Lost {
		t.Errorf("exit %s", show(e))
	}
	if n := ranksOf(g.rig, "gang"); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}
