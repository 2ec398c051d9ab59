// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// fileOrders is orders that survive a crash: what should run is in a file, and
// exits are appended to another.
type fileOrders struct {
	*fakeOrders
	exited *os.File
	mu     sync.Mutex
}

func (o *fileOrders) Exited(ctx context.Context, e api.Exit) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.exited.Write(append(line, '\n')); err != nil {
		return err
	}
	return o.fakeOrders.Exited(ctx, e)
}

func readExits(path string) []api.Exit {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []api.Exit
	for s := bufio.NewScanner(f); s.Scan(); {
		var e api.Exit
		if json.Unmarshal(s.Bytes(), &e) == nil {
			out = append(out, e)
		}
	}
	return out
}

// crashMachine is a daemon that runs until it is killed, or all is done.
func crashMachine(dir string) int {
	var list []api.Attempt
	if err := readRecord(filepath.Join(dir, "orders.json"), &list); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	f, err := os.OpenFile(filepath.Join(dir, "exits"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	orders := &fileOrders{fakeOrders: newOrders(), exited: f}
	for _, e := range readExits(f.Name()) {
		list = slices.DeleteFunc(list, func(a api.Attempt) bool { return a.AttemptID == e.AttemptID })
	}
	orders.set(list...)
	c := testConfig(filepath.Join(dir, "machine"))
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	c.Warm = 2
	m, err := Open(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m.warm.refill = 0
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for len(orders.Attempts()) > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	if err := m.Run(ctx, orders); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestCrash kills the daemon at random moments. Every attempt must run once, and
// none together with another on the same slot.
func TestCrash(t *testing.T) {
	t.Parallel()
	const jobs, kills = 60, 25
	dir := t.TempDir()
	var list []api.Attempt
	for i := range jobs {
		slot := i % 4
		a := attempt(fmt.Sprintf("crash-%02d", i), 1, sched.GPUSet(1)<<slot, fmt.Sprintf(
			`cd %[1]s; mkdir slot-%[2]d || echo overlap >> mark-%[3]d; echo start >> mark-%[3]d; sleep 0.0%[4]d; echo end >> mark-%[3]d; rmdir slot-%[2]d; exit %[5]d`,
			dir, slot, i, 2+i%7, i%3))
		list = append(list, a)
	}
	crash(t, dir, list, kills, 150*time.Millisecond)
}

// TestCrashWarm does so while ranks are forks of interpreters that wait.
func TestCrashWarm(t *testing.T) {
	t.Parallel()
	const jobs, kills = 32, 5
	w := newWarmRig(t) // for its interpreter and its package
	w.write("job.py", `
import os, sys, time
slot, mark, pause, code = sys.argv[1:]
def say(text):
    open(mark, "a").write(text + "\n")
try:
    os.mkdir(slot)
except FileExistsError:
    say("overlap")
say("start")
time.sleep(float(pause))
say("end")
os.rmdir(slot)
sys.exit(int(code))
`)
	var list []api.Attempt
	for i := range jobs {
		a := w.order(fmt.Sprintf("forked-%02d", i), 1, "job.py", fmt.Sprintf("slot-%d", i%4), fmt.Sprintf("mark-%d", i), fmt.Sprintf("0.1%d", i%7), fmt.Sprint(i%3))
		a.Placement[0].GPUs = sched.GPUSet(1) << (i % 4)
		list = append(list, a)
	}
	crash(t, w.dir, list, kills, 400*time.Millisecond)
	warm := 0
	for _, a := range list {
		var s shimRecord
		if err := readRecord(filepath.Join(w.dir, "machine", "jobs", string(a.Job), "1", shimFile), &s); err != nil {
			t.Error(err)
		}
		if s.Warm {
			warm++
		}
	}
	if warm == 0 {
		t.Error("no attempt started warm")
	}
}

// crash runs attempts on a machine whose daemon is killed again and again, at random
// moments at most so far apart. Attempt i writes to the file mark-i, and ends with the
// code i%3.
func crash(t *testing.T, dir string, list []api.Attempt, kills int, apart time.Duration) {
	if err := writeRecord(filepath.Join(dir, "orders.json"), list); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for n := 0; ; n++ {
		cmd := exec.Command("/proc/self/exe", "machine", dir)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if n < kills {
			time.Sleep(time.Duration(random.Int64N(int64(apart))))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			continue
		}
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			t.Fatalf("the last daemon: %v", err)
		}
		timer.Stop()
		break
	}
	exits := readExits(filepath.Join(dir, "exits"))
	twice := 0
	for i, a := range list {
		if got := read(t, dir, fmt.Sprintf("mark-%d", i)); got != "start\nend\n" {
			t.Errorf("%s left %q; want one start and one end", a.Job, got)
		}
		var mine []api.Exit
		for _, e := range exits {
			if e.AttemptID == a.AttemptID {
				mine = append(mine, e)
			}
		}
		if len(mine) == 0 {
			t.Errorf("%s was never reported", a.Job)
			continue
		}
		// A kill between the report and the mark that it was taken repeats it.
		twice += len(mine) - 1
		for _, e := range mine[1:] {
			if diff := cmp.Diff(mine[0], e); diff != "" {
				t.Errorf("%s was reported in two ways: %s", a.Job, diff)
			}
		}
		if mine[0].Code != i%3 || mine[0].Lost {
			t.Errorf("%s; want code %d", show(mine[0]), i%3)
		}
	}
	if twice > kills {
		t.Errorf("%d exits were repeated by %d kills", twice, kills)
	}
	// Standbys end when they notice that the daemon has.
	eventually(t, "the end of all processes", func() bool { return alive(t, dir) == 0 })
	if g := findCgroups(); g != nil {
		for _, a := range list {
			if left, _ := filepath.Glob(filepath.Join(g.member, "fairway-"+string(a.Job)+".*")); len(left) > 0 {
				t.Errorf("control groups are left: %v", left)
			}
		}
	}
}
