// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodeagent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/daemon/suspend/suspendtest"
)

const uid = "0b8e3a66-6b3c-4d55-9f0e-1d2c3b4a5f60"

// tree makes the control groups of a kubelet, by the names it gives them.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGroups: the groups of a pod are found by every driver and version of control groups,
// and those of no other pod.
func TestGroups(t *testing.T) {
	other := "ffffffff" + uid[8:]
	for name, c := range map[string]struct {
		files          map[string]string
		freeze, limits []string
	}{
		"cgroupfs, v2": {
			map[string]string{
				"kubepods/burstable/pod" + uid + "/cgroup.freeze": "0", "kubepods/burstable/pod" + uid + "/memory.max": "100",
				"kubepods/burstable/pod" + uid + "/c1/memory.max": "50", "kubepods/burstable/pod" + other + "/cgroup.freeze": "0",
			},
			[]string{"kubepods/burstable/pod" + uid}, []string{"kubepods/burstable/pod" + uid, "kubepods/burstable/pod" + uid + "/c1"},
		},
		"systemd, v1": {
			map[string]string{
				"freezer/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/freezer.state":        "THAWED",
				"memory/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/memory.limit_in_bytes": "9",
			},
			[]string{"freezer/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"},
			[]string{"memory/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tree(t, root, c.files)
			freeze, limits := groupsOf(root, uid)
			for _, list := range [][]string{freeze, limits} {
				for i := range list {
					list[i], _ = filepath.Rel(root, list[i])
				}
				slices.Sort(list)
			}
			if !slices.Equal(freeze, c.freeze) || !slices.Equal(limits, c.limits) {
				t.Errorf("%v and %v; want %v and %v", freeze, limits, c.freeze, c.limits)
			}
			if !Exists(root)(uid) || Exists(root)("1234") {
				t.Error("a pod is there that is not, or the other way round")
			}
		})
	}
}

// TestAgent: an agent freezes a process of a pod and lets it go on, and a new agent knows
// what the old one did. It does nothing to pods of nobody's job, and to those that its
// orders do not name.
func TestAgent(t *testing.T) {
	root := t.TempDir()
	process := exec.Command("sleep", "3600")
	process.Env = []string{"FAIRWAY_JOB=a-1"}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	// Files like those of a control group, which freeze nothing: the agent finds processes
	// and reads states in them.
	pod := "kubepods/pod" + uid
	tree(t, root, map[string]string{
		pod + "/freezer.state": "THAWED", pod + "/c/cgroup.procs": strconv.Itoa(process.Process.Pid), pod + "/memory.max": "1000",
	})
	file := func(name string) string { text, _ := os.ReadFile(filepath.Join(root, pod, name)); return string(text) }
	driver := suspendtest.New(process.Process.Pid)
	dir := t.TempDir()
	hub := &Hub{}
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		a := &Agent{
			Dir: dir, Host: suspend.Host{Open: driver.Open, Uses: func(int) bool { return true }}, Target: Pods(root), Exists: Exists(root),
			Sync: func(ctx context.Context, r Report) (Orders, error) { return hub.Sync(ctx, "n", r), ctx.Err() },
		}
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	set := func(o Order) (s State) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			is, known := hub.Set("n", o)
			if known && is.Told == o.Told {
				return is
			}
			if time.Now().After(end) {
				t.Fatalf("no answer to %+v; the last is %+v", o, is)
			}
		}
	}
	stop := start()
	mine := Order{AttemptID: someone, Pods: []string{uid}, Want: Suspended}
	if s := set(mine); s.Is != Suspended || s.Failed != "" || s.Out <= 0 || !driver.All(suspend.Away) || file("freezer.state") != "FROZEN" || file("memory.max") == "1000" {
		t.Errorf("%+v; driver %v, group %s, limit %s", s, driver.States(), file("freezer.state"), file("memory.max"))
	}
	mine.Told = true
	set(mine)
	stop()
	hub = &Hub{} // and another operator, which has no orders yet
	stop = start()
	defer func() { stop() }()
	for end := time.Now().Add(time.Minute); !hub.Begun("n", uid) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	if !hub.Begun("n", uid) || file("freezer.state") != "FROZEN" {
		t.Fatalf("a new agent does not know what is suspended; the group is %s", file("freezer.state"))
	}
	if s := set(mine); s.Is != Suspended || !s.Told {
		t.Errorf("%+v; want it suspended and told", s)
	}
	mine.Want, mine.Told = Running, false
	if s := set(mine); s.Is != Running || s.Failed != "" || s.Back <= 0 || !driver.All(suspend.OnGPUs) || file("freezer.state") != "THAWED" || file("memory.max") != "1000" {
		t.Errorf("%+v; driver %v, group %s, limit %s", s, driver.States(), file("freezer.state"), file("memory.max"))
	}
	stranger := Order{AttemptID: someone, Pods: []string{uid}, Want: Suspended}
	stranger.Job = "b-2"
	if s := set(stranger); s.Is != Running || !strings.Contains(s.Failed, "no process of job b-2") || file("freezer.state") != "THAWED" {
		t.Errorf("%+v, group %s; want it refused", s, file("freezer.state"))
	}
	gone := Order{AttemptID: someone, Pods: []string{"1234"}, Want: Stopping}
	gone.Job = "c-3"
	if s := set(gone); !strings.Contains(s.Failed, "no control group") {
		t.Errorf("%+v; want it refused", s)
	}
}
