// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// powerDisk knows of each file and folder below a root what it held when it was
// last synced: all that a power cut leaves. Files are known by their inodes, so
// that a new name means nothing until its folder was synced.
type powerDisk struct {
	root  string
	files map[uint64][]byte
	names map[uint64][]fs.DirEntry
	held  []*os.File // so that no inode is used again
}

func newPowerDisk(root string) (*powerDisk, error) {
	d := &powerDisk{root: root, files: map[uint64][]byte{}, names: map[uint64][]fs.DirEntry{}}
	return d, d.synced(root)
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// entry is a name that a folder had when it was synced.
type entry struct {
	fs.DirEntry
	info fs.FileInfo
}

func (e entry) Info() (fs.FileInfo, error) { return e.info, nil }

func entries(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	for i, e := range list {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list[i] = entry{e, info}
	}
	return list, err
}

// synced notes what a file or folder holds at the end of its sync.
func (d *powerDisk) synced(path string) error {
	if path != d.root && !strings.HasPrefix(path, d.root+"/") {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	d.held = append(d.held, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		d.names[inode(info)], err = entries(path)
		return err
	}
	d.files[inode(info)], err = os.ReadFile(path)
	return err
}

// durableNames are the names in a folder that a power cut leaves at least,
// currentNames those it leaves at most.
func (d *powerDisk) durableNames(_ string, ino uint64) ([]fs.DirEntry, error) {
	return d.names[ino], nil
}
func (d *powerDisk) currentNames(dir string, _ uint64) ([]fs.DirEntry, error) { return entries(dir) }

// afterCut writes what a power cut leaves to a folder and returns it. Files hold
// what was synced of them, under the names that there are.
func (d *powerDisk) afterCut(t *testing.T, names func(dir string, ino uint64) ([]fs.DirEntry, error)) string {
	t.Helper()
	var restore func(from string, ino uint64, to string) error
	restore = func(from string, ino uint64, to string) error {
		list, err := names(from, ino)
		if err != nil {
			return err
		}
		for _, e := range list {
			info, _ := e.Info()
			path := filepath.Join(to, e.Name())
			if e.IsDir() {
				err = errors.Join(os.Mkdir(path, 0o700), restore(filepath.Join(from, e.Name()), inode(info), path))
			} else {
				err = os.WriteFile(path, d.files[inode(info)], 0o600)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	info, err := os.Stat(d.root)
	if err != nil {
		t.Fatal(err)
	}
	to := memoryDir(t)
	if err := restore(d.root, inode(info), to); err != nil {
		t.Fatal(err)
	}
	return to
}

// wantAllDurable checks that a power cut would leave every file as it is now;
// the lock file aside, whose number only helps people.
func (d *powerDisk) wantAllDurable(t *testing.T) {
	t.Helper()
	left := d.afterCut(t, d.durableNames)
	defer os.RemoveAll(left)
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == lockName {
			return err
		}
		relative, _ := filepath.Rel(d.root, path)
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		then, err := os.ReadFile(filepath.Join(left, relative))
		if err != nil || !bytes.Equal(now, then) {
			t.Errorf("a power cut would leave %d of the %d bytes of %s (%v); want it as it is", len(then), len(now), relative, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// syncWatcher is told of the syncs of a process, which stands still meanwhile.
type syncWatcher struct {
	before func()
	after  func(path string)
	ack    func(records uint64)
}

// ackFd and the numbers above it are no files: a sync of one says how many
// records the process was promised.
const ackFd = 1 << 20

// watchSyncs runs the scenario that env names in a process of its own and stops
// it at its syncs.
func watchSyncs(t *testing.T, env []string, w syncWatcher) {
	t.Helper()
	runtime.LockOSThread() // only this thread may give orders to the process
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPowerLossWriter$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	err = cmd.Start()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("cannot trace a process of our own: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer reap(cmd.Process) // also if a watcher ends the test
	code, err := trace(cmd.Process.Pid, w)
	if err != nil || code != 0 {
		said, _ := os.ReadFile(out.Name())
		t.Fatalf("writer ended with %d, %v:\n%s", code, err, said)
	}
}

// reap kills a traced process. Its threads are children of this thread as well,
// and it is gone when they all are.
func reap(p *os.Process) {
	_ = p.Kill()
	var status syscall.WaitStatus
	for err := error(nil); err == nil || errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(-1, &status, waitThreads, nil)
	}
	_ = p.Release()
}

// What package syscall does not name: wait for the children of this thread only,
// threads among them; and kill what is traced when the tracer ends.
const (
	waitThreads = syscall.WALL | 0x20000000 // __WNOTHREAD
	exitKill    = 0x100000                  // PTRACE_O_EXITKILL
)

// trace lets a stopped process run to its end and returns its exit code.
func trace(pid int, w syncWatcher) (int, error) {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return 0, err
	}
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACECLONE|syscall.PTRACE_O_TRACESYSGOOD|exitKill); err != nil {
		return 0, err
	}
	within := map[int]uint64{} // the descriptor that a thread is syncing
	for thread, deliver := pid, 0; ; {
		if err := syscall.PtraceSyscall(thread, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
		var err error
		for {
			thread, err = syscall.Wait4(-1, &status, waitThreads, nil)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		switch {
		case err != nil:
			return 0, err
		case status.Exited() && thread == pid:
			return status.ExitStatus(), nil
		case status.Signaled() && thread == pid:
			return 128 + int(status.Signal()), nil
		}
		deliver = 0
		switch sig := status.StopSignal(); {
		case !status.Stopped() || sig == syscall.SIGTRAP: // a thread's end; its beginning
		case sig == syscall.SIGTRAP|0x80:
			if err := atCall(thread, within, w); err != nil && !errors.Is(err, syscall.ESRCH) { // killed while it stood
				return 0, err
			}
		case sig != syscall.SIGSTOP: // with which a new thread begins
			deliver = int(sig)
		}
	}
}

// callInfo is struct ptrace_syscall_info.
type callInfo struct {
	op     uint8
	_      [3]byte
	_      uint32
	_      [2]uint64
	number uint64 // on entry; the result on exit
	args   [6]uint64
	_      uint64
}

// atCall looks at a thread that stands at the beginning or the end of a system
// call.
func atCall(thread int, within map[int]uint64, w syncWatcher) error {
	var info callInfo
	const getSyscallInfo = 0x420e
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, getSyscallInfo, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("ptrace", errno)
	}
	fd, inSync := within[thread]
	switch {
	case info.op == 1 && slices.Contains([]uint64{syscall.SYS_FSYNC, syscall.SYS_FDATASYNC}, info.number):
		within[thread] = info.args[0]
		if info.args[0] >= ackFd {
			w.ack(info.args[0] - ackFd)
		} else {
			w.before()
		}
	case info.op == 2 && inSync:
		delete(within, thread)
		if fd >= ackFd || info.number != 0 {
			return nil
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, fd))
		if err != nil {
			return err
		}
		w.after(path)
	}
	return nil
}
