// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestProtectionIsNotInherited: the service unit protects the daemon from the
// out-of-memory killer, and its jobs must not be protected with it.
func TestProtectionIsNotInherited(t *testing.T) {
	const file = "/proc/self/oom_score_adj"
	own := read(t, file)
	if err := os.WriteFile(file, []byte("-500"), 0); err != nil {
		t.Skipf("NOT TESTED: this process cannot be protected: %v (run as root with CAP_SYS_RESOURCE)", err)
	}
	t.Cleanup(func() { _ = os.WriteFile(file, []byte(own), 0) })
	r := newRig(t, nil)
	a := attempt("a", 1, 0b11, `cat /proc/self/oom_score_adj; sleep 0.5; cat /proc/$PPID/oom_score_adj`)
	r.orders.set(a)
	r.exit(a.AttemptID)
	for rank := range 2 {
		if got := read(t, r.m.attemptDir(a.AttemptID), rankLog(rank)); got != "0\n-500\n" {
			t.Errorf("rank %d: %q; want that the rank has a score of 0 and its supervisor that of the daemon", rank, got)
		}
	}
}

// TestUnprotect is the same on a file, for machines where no process can be
// protected.
func TestUnprotect(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "oom_score_adj")
	for own, want := range map[string]string{"-500\n": "0", "0\n": "0\n", "300\n": "300\n"} {
		if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		undo, err := unprotect(file)
		if got := read(t, file); err != nil || got != want {
			t.Errorf("%q became %q, %v; want %q", own, got, err, want)
		}
		if undo(); read(t, file) != own {
			t.Errorf("%q became %q in the end", own, read(t, file))
		}
	}
}

// TestNoNewPrivileges: a job cannot gain privileges unless the configuration allows
// it.
func TestNoNewPrivileges(t *testing.T) {
	t.Parallel()
	for may, want := range map[bool]string{false: "1", true: "0"} {
		r := newRig(t, func(c *Config) { c.NewPrivileges = may })
		a := attempt("a", 1, 0b11, `grep NoNewPrivs /proc/self/status`)
		r.orders.set(a)
		r.exit(a.AttemptID)
		for rank := range 2 {
			if got := strings.Fields(read(t, r.m.attemptDir(a.AttemptID), rankLog(rank))); len(got) != 2 || got[1] != want {
				t.Errorf("new privileges %t, rank %d: %q; want %s", may, rank, got, want)
			}
		}
	}
}

// TestProcessLimit: a job that starts processes without end is stopped by its limit,
// and its end says so.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	if g := findCgroups(); g == nil || g.pids == "" {
		t.Skip("NOT TESTED: no control groups for processes can be made here (run as root)")
	}
	r := newRig(t, func(c *Config) { c.Processes = 20 })
	// The other rank starts first, or it could not start at all.
	up := filepath.Join(t.TempDir(), "up")
	a := attempt("bomb", 1, 0b11, `[ $RANK = 0 ] || { touch `+up+`; exec sleep 100; }; until [ -e `+up+` ]; do sleep 0.02; done; for i in $(seq 100); do sleep 100 & done; sleep 0.1; jobs -p | wc -l; exit 1`)
	r.orders.set(a)
	if e := r.exit(a.AttemptID); e.Code == 0 || !strings.Contains(e.Why, "limit of 40 processes") {
		t.Errorf("%s; want that it reached its limit of two slots", show(e))
	}
	if n := ranksOf(r, "bomb"); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

// TestGPUsOfOthers: a job cannot open the device of a slot it does not hold.
// /dev/full stands for a GPU: every write to it fails with "no space".
func TestGPUsOfOthers(t *testing.T) {
	t.Parallel()
	if g := findCgroups(); g == nil || g.devices == "" {
		t.Skip("NOT TESTED: no control groups for devices can be made here (run as root)")
	}
	gpus := func(c *Config) {
		c.Devices[0] = Device{Index: 4, Type: "h200"}
		c.Devices[1] = Device{Index: 5, Type: "h200", File: "/dev/full"}
	}
	const script = `echo $CUDA_VISIBLE_DEVICES > visible; echo x > /dev/full`
	mine, other := attempt("mine", 1, 0b10, script), attempt("other", 1, 0b1, script)
	run := func(r *rig, a api.Attempt) (why, visible string) {
		e := r.exit(a.AttemptID)
		return e.Why, strings.TrimSpace(read(t, r.m.jobDir(a.Job), workDir, "visible"))
	}
	r := newRig(t, gpus)
	r.orders.set(mine, other)
	if why, visible := run(r, mine); !opened(why) || visible != "5" {
		t.Errorf("%q, CUDA_VISIBLE_DEVICES=%s; want that the holder of the slot can open its device", why, visible)
	}
	// CUDA counts only the GPUs that it may open.
	if why, visible := run(r, other); !strings.Contains(why, "Operation not permitted") || visible != "0" {
		t.Errorf("%q, CUDA_VISIBLE_DEVICES=%s; want that the kernel refuses the device of another slot, and 0", why, visible)
	}
	r = newRig(t, func(c *Config) { gpus(c); c.AllGPUs = true })
	r.orders.set(other)
	if why, visible := run(r, other); !opened(why) || visible != "4" {
		t.Errorf("%q, CUDA_VISIBLE_DEVICES=%s; want that all can be opened where the configuration says so, and 4", why, visible)
	}
}

// opened reports whether a job could open /dev/full.
func opened(why string) bool {
	return strings.Contains(strings.ToLower(why), "no space") || strings.Contains(why, "I/O error")
}

// TestDenialProgram is TestGPUsOfOthers for cgroup v2, which this machine may only
// have beside v1.
func TestDenialProgram(t *testing.T) {
	t.Parallel()
	var root string
	for line := range strings.SplitSeq(read(t, "/proc/mounts"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			root = f[1]
		}
	}
	dir := filepath.Join(root, "fairway-test-denial")
	if root == "" || os.Mkdir(dir, 0o755) != nil {
		t.Skip("NOT TESTED: no groups of cgroup v2 can be made here (run as root)")
	}
	t.Cleanup(func() { _ = removeGroup(dir) })
	full, err := deviceOf("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&group{unified: true}).deny(dir, []device{{195, 7}, full}); err != nil {
		t.Fatal(err)
	}
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	run := func(script string) string {
		cmd := exec.Command("sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := run("exec 9> /dev/full"); !strings.Contains(got, "Operation not permitted") {
		t.Errorf("/dev/full: %q; want that it is refused", got)
	}
	if got := run("echo x > /dev/null && head -c 1 /dev/zero | wc -c"); strings.TrimSpace(got) != "1" {
		t.Errorf("other devices: %q; want that they are as always", got)
	}
}

func TestDeviceFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for bus, text := range map[string]string{
		"0000:01:00.0": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 105\nGPU UUID: \t GPU-11\nBus Type: \t PCIe\nDevice Minor: \t 3\nGPU Excluded:\t No\n",
		"0000:02:00.0": "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-22\nDevice Minor: \t 0\n",
		"0000:03:00.0": "something else\n",
	} {
		if err := os.Mkdir(filepath.Join(root, bus), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, bus, "information"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := deviceFiles(root)
	if len(got) != 2 || got["GPU-11"] != "/dev/nvidia3" || got["GPU-22"] != "/dev/nvidia0" {
		t.Errorf("got %v; want the files by UUID", got)
	}
	if _, err := deviceOf(root); err == nil {
		t.Error("a folder was taken for a device")
	}
	if d, err := deviceOf("/dev/null"); err != nil || d != (device{1, 3}) {
		t.Errorf("/dev/null is %v, %v", d, err)
	}
}
