// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/sched"
)

// An agent keeps a copy of its newest checkpoint in the memory of the machine, so
// that the next attempt finds it although the process was killed before it reached
// the disk. The folder belongs to the job's user and goes when the job has ended.

// memoryBase is the folder in memory that holds the folders of all jobs.
func (m *Machine) memoryBase() string {
	sum := sha256.Sum256([]byte(m.cfg.Dir))
	return filepath.Join(m.cfg.Memory, fmt.Sprintf("fairway-%x", sum[:8]))
}

// ownerLink is in the folder of a machine: it leads to the folder on the disk.
const ownerLink = ".machine"

// sweepMemory removes what machines left in memory whose folder on the disk is gone.
func (m *Machine) sweepMemory() {
	links, _ := filepath.Glob(filepath.Join(m.cfg.Memory, "fairway-*", ownerLink))
	for _, link := range links {
		var s unix.Stat_t
		dir, err := os.Readlink(link)
		if err != nil || unix.Lstat(filepath.Dir(link), &s) != nil || int(s.Uid) != os.Geteuid() {
			continue
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(filepath.Dir(link))
		}
	}
}

// memoryName names the folder in memory of a job of an epoch of the journal.
func memoryName(o *order) string {
	sum := sha256.Sum256([]byte(o.Epoch))
	return fmt.Sprintf("%s~%x", o.Job, sum[:4])
}

// lendMemory makes the folder in memory of a job; empty: it gets none. What is in it
// would count against a limit of the job's memory, so a job that has one gets none.
func (m *Machine) lendMemory(o *order) string {
	if m.cfg.Ended == nil || o.Spec.Memory > 0 {
		return ""
	}
	dir, err := m.makeMemory(o)
	if err != nil {
		m.cfg.Log.Warn("no copies of checkpoints in memory", "job", o.Job, "err", err)
		return ""
	}
	return dir
}

func (m *Machine) makeMemory(o *order) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(m.cfg.Memory, &s); err != nil || s.Type != unix.TMPFS_MAGIC {
		return "", err // the machine has no such folder
	}
	base := m.memoryBase()
	if err := ownFolder(base, 0o711, os.Geteuid(), os.Getegid()); err != nil {
		return "", err
	}
	if err := os.Symlink(m.cfg.Dir, filepath.Join(base, ownerLink)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if o.Switch {
		uid, gid = o.Owner.UID, o.Owner.GID
	}
	dir := filepath.Join(base, memoryName(o))
	return dir, ownFolder(dir, 0o700, uid, gid)
}

// ownFolder makes a folder of a user, or makes sure that it is one: in a folder that
// everybody may write to, another user may have been there first.
func ownFolder(dir string, mode os.FileMode, uid, gid int) error {
	err := os.Mkdir(dir, mode)
	if err == nil {
		return os.Lchown(dir, uid, gid)
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	var s unix.Stat_t
	if err := unix.Lstat(dir, &s); err != nil {
		return err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR || int(s.Uid) != uid || s.Mode&0o022 != 0 {
		return fmt.Errorf("%s belongs to another user or is open to others", dir)
	}
	return nil
}

// freeMemory removes the folders in memory of jobs that have ended: of one, or of all
// if id is empty.
func (m *Machine) freeMemory(id sched.JobID) {
	if m.cfg.Ended == nil {
		return
	}
	base := m.memoryBase()
	entries, _ := os.ReadDir(base) // mostly there is none
	for _, e := range entries {
		name, _, ok := strings.Cut(e.Name(), "~")
		if job := sched.JobID(name); ok && (id == "" || job == id) && m.cfg.Ended(job) {
			if err := os.RemoveAll(filepath.Join(base, e.Name())); err != nil {
				m.cfg.Log.Warn("cannot free the memory of a job", "job", job, "err", err)
			}
		}
	}
}

// closeMemory removes the folder in memory of the machine, if no job has anything in it.
func (m *Machine) closeMemory() {
	base := m.memoryBase()
	if entries, err := os.ReadDir(base); err == nil && len(entries) == 1 {
		_ = os.Remove(filepath.Join(base, ownerLink))
		_ = os.Remove(base)
	}
}
