// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/suspend"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// daemonGroup is the control group in which a service manager puts the daemon,
	// so that its parent can hold the jobs (DelegateSubgroup of systemd).
	daemonGroup = "fairway-daemon"
)

// cgroups is where control groups for attempts can be made.
type cgroups struct {
	unified bool
	member  string // folder of the group that identifies the processes of an attempt
	memory  string // folder for limits of memory; empty: not available
	cpu     string
	pids    string
	devices string
}

// bases returns the folders in which an attempt has groups, the member first.
func (g *cgroups) bases() []string {
	var out []string
	for _, base := range []string{g.member, g.memory, g.cpu, g.pids, g.devices} {
		if base != "" && !slices.Contains(out, base) {
			out = append(out, base)
		}
	}
	return out
}

// findCgroups looks for a place where this process may make control groups; nil:
// there is none.
func findCgroups() *cgroups {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	at := map[string]string{} // controller -> group
	for line := range strings.SplitSeq(string(text), "\n") {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			for name := range strings.SplitSeq(f[1], ",") {
				at[name] = f[2]
			}
		}
	}
	if exists(filepath.Join(cgroupRoot, "cgroup.controllers")) {
		base := filepath.Join(cgroupRoot, at[""])
		if filepath.Base(base) == daemonGroup {
			base = filepath.Dir(base)
		}
		return unifiedAt(base)
	}
	place := func(controller string) string {
		group, ok := at[controller]
		dir := filepath.Join(cgroupRoot, controller, group)
		if !ok || !mayMake(dir) {
			return ""
		}
		return dir
	}
	g := &cgroups{member: place("freezer"), memory: place("memory"), cpu: place("cpu"), pids: place("pids"), devices: place("devices")}
	if g.member == "" {
		g.member = g.pids
	}
	if g.member == "" {
		return nil
	}
	return g
}

// unifiedAt prepares the groups below base, of cgroup v2.
func unifiedAt(base string) *cgroups {
	if !mayMake(base) {
		return nil
	}
	g := &cgroups{unified: true, member: base}
	if os.Geteuid() == 0 { // others may not load the program that refuses devices
		g.devices = base
	}
	// Fails if base itself holds processes. Groups without limits still keep the
	// processes of an attempt together.
	for _, c := range []struct {
		name string
		dir  *string
	}{{"memory", &g.memory}, {"cpu", &g.cpu}, {"pids", &g.pids}} {
		if os.WriteFile(filepath.Join(base, "cgroup.subtree_control"), []byte("+"+c.name), 0) == nil {
			*c.dir = base
		}
	}
	return g
}

func mayMake(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }

// text describes in a few words what is available, for the log.
func (g *cgroups) text() string {
	if g == nil {
		return "none: process groups and a search of /proc keep jobs together, and there are no limits"
	}
	s := "v1"
	if g.unified {
		s = "v2"
	}
	for _, l := range []struct{ dir, what string }{
		{g.memory, "memory limits"}, {g.cpu, "CPU limits"}, {g.pids, "process limits"}, {g.devices, "GPUs of others refused"},
	} {
		if l.dir != "" {
			s += ", " + l.what
		}
	}
	return s
}

// group is the control group, or groups, of one attempt.
type group struct {
	name    string
	dirs    []string // the first holds all processes
	unified bool
	memory  int64 // its limit in bytes; 0: none
	pids    int   // its limit of processes and threads; 0: none
	refuses bool  // the kernel refuses it the devices of others
	denied  []device
	denial  int // the program that refuses them; 0: none
}

// limits is what an attempt may use.
type limits struct {
	memory int64 // bytes; 0: no limit
	cpus   int   // 0: no limit
	pids   int   // processes and threads; 0: no limit
	denied []device
}

// groupName names the groups of an attempt.
func groupName(id api.AttemptID, nonce string) string {
	return fmt.Sprintf("fairway-%s.%d-%.8s", id.Job, id.Number, nonce)
}

// named returns the groups of a name, whether they exist or not.
func (g *cgroups) named(name string) []string {
	var out []string
	if g == nil {
		return nil
	}
	for _, base := range g.bases() {
		out = append(out, filepath.Join(base, name))
	}
	return out
}

// make makes the groups of an attempt with its limits. It fails if the first group
// cannot be made; the error of another limit is returned with the group, which then
// lacks it.
func (g *cgroups) make(name string, l limits) (*group, error) {
	out := &group{unified: g.unified, name: name}
	if _, err := out.add(g.member); err != nil {
		return nil, err
	}
	return out, g.limit(out, l)
}

// add makes the group in a folder, if it is not there.
func (g *group) add(base string) (string, error) {
	dir := filepath.Join(base, g.name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make control group: %w", err)
	}
	if !slices.Contains(g.dirs, dir) {
		g.dirs = append(g.dirs, dir)
	}
	return dir, nil
}

// limit sets the limits of a group, in place of those it has.
func (g *cgroups) limit(out *group, l limits) error {
	var errs []error
	limit := func(wanted bool, base string, set func(dir string) error) bool {
		if !wanted || base == "" {
			return false
		}
		dir, err := out.add(base)
		if err == nil {
			err = set(dir)
		}
		errs = append(errs, err)
		return err == nil
	}
	write := func(dir, file, value string) error {
		return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
	}
	if limit(l.memory > 0, g.memory, func(dir string) error {
		file := "memory.limit_in_bytes"
		if g.unified {
			file = "memory.max"
		}
		return write(dir, file, strconv.FormatInt(l.memory, 10))
	}) {
		out.memory = l.memory
	}
	limit(l.cpus > 0, g.cpu, func(dir string) error {
		if g.unified {
			return write(dir, "cpu.max", fmt.Sprintf("%d 100000", l.cpus*100000))
		}
		return errors.Join(write(dir, "cpu.cfs_period_us", "100000"), write(dir, "cpu.cfs_quota_us", strconv.Itoa(l.cpus*100000)))
	})
	if limit(l.pids > 0, g.pids, func(dir string) error { return write(dir, "pids.max", strconv.Itoa(l.pids)) }) {
		out.pids = l.pids
	}
	out.refuses = limit(len(l.denied) > 0 || out.refuses, g.devices, func(dir string) error { return out.deny(dir, l.denied) })
	return errors.Join(errs...)
}

// enter puts the calling thread, and so what it starts, into the groups of cgroup
// v1, and returns a function that leaves them. With v2 a process is started
// inside, by descriptor.
func (g *group) enter(home *cgroups) (leave func(), err error) {
	if g.unified {
		return func() {}, nil
	}
	tid := []byte(strconv.Itoa(unix.Gettid()))
	leave = func() {
		for _, b := range home.bases() {
			_ = os.WriteFile(filepath.Join(b, "tasks"), tid, 0)
		}
	}
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "tasks"), tid, 0); err != nil {
			leave()
			return nil, fmt.Errorf("enter control group: %w", err)
		}
	}
	return leave, nil
}

// outOfMemory reports whether the kernel killed a process at the memory limit.
func (g *group) outOfMemory() bool {
	return g.counted("memory.events", "oom_kill ") || g.counted("memory.oom_control", "oom_kill ")
}

// outOfProcesses reports whether the kernel refused a process at the limit.
func (g *group) outOfProcesses() bool { return g.counted("pids.events", "max ") }

// counted reports whether a file of the groups has a line of a name with a number
// that is not zero.
func (g *group) counted(file, name string) bool {
	for _, dir := range g.dirs {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if n, ok := strings.CutPrefix(line, name); ok && n != "0" {
				return true
			}
		}
	}
	return false
}

// end kills everything in the groups and removes them.
func (g *group) end() error {
	if len(g.dirs) == 0 {
		return nil
	}
	_, _ = suspend.SetFrozen(g.dirs[:1], false) // in cgroup v1 what is frozen cannot be killed
	for until := time.Now().Add(killPatience); ; time.Sleep(5 * time.Millisecond) {
		_ = os.WriteFile(filepath.Join(g.dirs[0], "cgroup.kill"), []byte("1"), 0) // v2, Linux 5.14
		text, err := os.ReadFile(filepath.Join(g.dirs[0], "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		pids := strings.Fields(string(text))
		for _, s := range pids {
			if pid, err := strconv.Atoi(s); err == nil && pid > 1 && pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if err == nil && len(pids) == 0 {
			break
		}
		if time.Now().After(until) {
			return fmt.Errorf("control group %s: %d processes survive SIGKILL", g.dirs[0], len(pids))
		}
	}
	var errs []error
	for _, dir := range g.dirs {
		if err := removeGroup(dir); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes an empty group. The kernel may refuse that for a moment
// after the last process has gone.
func removeGroup(dir string) error {
	var err error
	for range 100 {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("remove control group: %w", err)
}
