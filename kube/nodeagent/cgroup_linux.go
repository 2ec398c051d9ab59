// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/suspend"
)

// Pods finds the processes of pods by the control groups that the kubelet makes. root is
// where those of the host are, such as /sys/fs/cgroup.
func Pods(root string) func(Order) (suspend.Target, error) {
	return func(o Order) (t suspend.Target, err error) {
		for _, uid := range o.Pods {
			groups, limits := groupsOf(root, uid)
			if len(groups) == 0 {
				return t, fmt.Errorf("pod %s has no control group on this node", uid)
			}
			if !ours(groups, o) {
				return t, fmt.Errorf("pod %s has no process of job %s", uid, o.Job)
			}
			t.Groups, t.Limits = append(t.Groups, groups...), append(t.Limits, limits...)
		}
		t.Processes = func() ([]proc.Process, error) {
			var out []proc.Process
			for _, dir := range t.Groups {
				for _, pid := range suspend.PIDs(dir) {
					if p, err := proc.Read(pid); err == nil && p.State != 'Z' {
						out = append(out, p)
					}
				}
			}
			if len(out) == 0 {
				return nil, errors.New("it has no processes")
			}
			return out, nil
		}
		return t, nil
	}
}

// Exists reports whether a pod has control groups below root.
func Exists(root string) func(uid string) bool {
	return func(uid string) bool { groups, _ := groupsOf(root, uid); return len(groups) > 0 }
}

// ours reports whether a process of a pod was started with the name of the job: whoever
// speaks in the operator's place can freeze no other pods.
func ours(groups []string, o Order) bool {
	want := []byte("FAIRWAY_JOB=" + string(o.Job) + "\x00")
	for _, dir := range groups {
		for _, pid := range suspend.PIDs(dir) {
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(append([]byte{0}, env...), append([]byte{0}, want...)) {
				return true
			}
		}
	}
	return false
}

// deepest is how far below the root the group of a pod is at most:
// freezer/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice, and
// below a folder if the kubelet has a cgroup root of its own.
const deepest = 6

// groupsOf returns the control groups of a pod: that which is frozen, and those whose
// memory is limited. The kubelet names them by the pod's UID, and systemd has "_" for "-".
func groupsOf(root, uid string) (freeze, limits []string) {
	names := []string{"pod" + uid, "pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"}
	var at []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		rest, _ := filepath.Rel(root, path)
		if slices.ContainsFunc(names, func(n string) bool { return d.Name() == n || strings.HasSuffix(d.Name(), "-"+n) }) {
			at = append(at, path)
			return fs.SkipDir
		}
		if strings.Count(rest, "/") >= deepest {
			return fs.SkipDir
		}
		return nil
	})
	for _, dir := range at {
		if has(dir, "cgroup.freeze") || has(dir, "freezer.state") {
			freeze = append(freeze, dir)
		}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && (has(path, "memory.max") || has(path, "memory.limit_in_bytes")) {
				limits = append(limits, path)
			}
			return nil
		})
	}
	return freeze, limits
}

func has(dir, file string) bool {
	_, err := os.Lstat(filepath.Join(dir, file))
	return err == nil
}
