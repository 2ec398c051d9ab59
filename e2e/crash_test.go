// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestCrash kills daemons, supervisors and the ranks of jobs with -9 at random
// moments while jobs are submitted, cancelled, paused, resized and finish, and then
// accounts for every job. FAIRWAY_CHAOS_KILLS says how often.
func TestCrash(t *testing.T) {
	kills := scale("FAIRWAY_CHAOS_KILLS", 40)
	d := startDaemon(t, shortDir(t), "--config", chaosConfig(t))
	agent := ""
	if exec.Command("python3", "-c", "import fcntl, sys; sys.exit(sys.version_info < (3, 9))").Run() == nil {
		agent = absolute(t, filepath.Join("testdata", "chaos", "agent.py"))
	} else {
		t.Log("NOT TESTED: jobs with the Python agent (python3 3.9 or later)")
	}
	u := usersOf(t, d, "true", agent)
	u.hurry = true
	moments := rand.New(rand.NewPCG(3, 4))
	begin := time.Now()
	killed := map[string]int{}
	for n := range kills {
		time.Sleep(time.Duration(moments.IntN(300)) * time.Millisecond)
		if n%3 == 1 { // a supervisor or a rank
			if kind := killOne(d.data, moments); kind != "" {
				killed[kind]++
				continue
			}
		}
		killed["daemon"]++
		d.kill()
		if moments.IntN(4) == 0 {
			time.Sleep(time.Duration(moments.IntN(300)) * time.Millisecond) // jobs end while no daemon runs
		}
		d.start()
	}
	took := time.Since(begin)
	u.account("kill -9", fmt.Sprintf("%d: %d daemon, %d supervisor, %d rank, in %.0f s", kills, killed["daemon"], killed["supervisor"], killed["rank"], took.Seconds()))
	if agent != "" {
		u.checkAgents()
	}
	if kills >= 20 && (killed["supervisor"] == 0 || killed["rank"] == 0) {
		t.Errorf("killed %v; want supervisors and ranks among them", killed)
	}
}

// chaosConfig is a configuration with short leases and small snapshots, so that
// preemption and compaction are in flight when something happens.
func chaosConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fairway.yaml")
	text := "policy: las:lease=1s\nslots: 6\nnotice: 2s\nkeep: {compact: 200}\nguard: {bound: 0, window: 0s, margin: 2}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// processesOf returns the supervisors of a data folder and the ranks they started.
func processesOf(data string) (supervisors, ranks []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	parent := map[int]int{}
	for _, p := range procs {
		env, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		dir := filepath.Dir(p)
		pid, err := strconv.Atoi(filepath.Base(dir))
		switch {
		case err != nil || pid == os.Getpid():
		case bytes.Contains(env, []byte("FAIRWAY_SHIM_DIR="+data)):
			supervisors = append(supervisors, pid)
		case bytes.Contains(env, []byte("FAIRWAY_CHECKPOINT_DIR="+data)):
			stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
			var of int
			_, _ = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %1s %d", new(string), &of)
			parent[pid] = of
		}
	}
	for pid, of := range parent {
		if slices.Contains(supervisors, of) { // not one of the small programs of its script
			ranks = append(ranks, pid)
		}
	}
	slices.Sort(ranks)
	return supervisors, ranks
}

// killOne kills a supervisor or a rank, and returns which; empty: there
// is none.
func killOne(data string, random *rand.Rand) string {
	supervisors, ranks := processesOf(data)
	kind, pids := "supervisor", supervisors
	if random.IntN(2) == 0 {
		kind, pids = "rank", ranks
	}
	if len(pids) == 0 || syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL) != nil {
		return ""
	}
	return kind
}
