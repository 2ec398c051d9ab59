// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is a machine's disk: an ext4 file system on a loop device. Its power can be
// cut, and with it goes everything that was not synced.
type disk struct {
	t                *testing.T
	image, dir, boot string
	boots            int
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	folder := t.TempDir()
	k := &disk{t: t, image: filepath.Join(folder, "image"), boot: filepath.Join(folder, "boot_id"), dir: shortDir(t)}
	if err := os.WriteFile(k.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.newBoot()
	for _, try := range [][]string{
		{"truncate", "-s", "256M", k.image},
		{"mkfs.ext4", "-q", "-F", "-m", "0", "-N", "16384", k.image},
		{"mount", "-o", "loop", k.image, k.dir},
		append(k.machine(), "true"),
	} {
		if out, err := exec.Command(try[0], try[1:]...).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: no disk whose power can be cut: %s: %v %s(run as root, with loop devices and ext4)", strings.Join(try, " "), err, out)
		}
	}
	t.Cleanup(k.unmount)
	return k
}

// machine returns the command that runs a program in the present boot of the
// machine.
func (k *disk) machine() []string {
	return []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, k.boot}
}

func (k *disk) newBoot() {
	k.t.Helper()
	k.boots++
	if err := os.WriteFile(k.boot, fmt.Appendf(nil, "00000000-0000-0000-0000-%012d\n", k.boots), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// cut cuts the power: from now on every read and write fails, and what was not synced
// is gone.
func (k *disk) cut() {
	k.t.Helper()
	f, err := os.Open(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	const shutdown, noFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noFlush); err != nil {
		k.t.Fatalf("cut the power: %v", err)
	}
}

func (k *disk) unmount() {
	k.t.Helper()
	var err error
	if !holds(patience, func() bool { err = unix.Unmount(k.dir, 0); return err == nil || errors.Is(err, unix.EINVAL) }) {
		k.t.Fatalf("unmount: %v", err)
	}
	// The device goes when the last process that saw it has gone.
	waitFor(k.t, patience, func() bool {
		out, err := exec.Command("losetup", "-j", k.image).Output()
		return err == nil && len(out) == 0
	})
}

// restart is what the machine does when the power is back.
func (k *disk) restart(d *daemon) {
	k.t.Helper()
	d.kill()
	waitFor(k.t, patience, func() bool {
		endOrphans(d.data)
		supervisors, ranks := processesOf(d.data)
		return len(supervisors)+len(ranks) == 0
	})
	k.unmount()
	if out, err := exec.Command("mount", "-o", "loop", k.image, k.dir).CombinedOutput(); err != nil {
		k.t.Fatalf("mount: %v %s", err, out)
	}
	k.newBoot()
	d.start()
}

// TestPowerCuts cuts the power of the machine, or reboots it, while users work.
// FAIRWAY_CHAOS_POWER says how often the power is cut.
func TestPowerCuts(t *testing.T) {
	cuts := scale("FAIRWAY_CHAOS_POWER", 1)
	k := newDisk(t)
	d := startDaemonIn(t, k.machine(), k.dir, "--config", chaosConfig(t))
	u := usersOf(t, d, "sync")
	u.hurry = true
	moments := rand.New(rand.NewPCG(5, 6))
	reboots, failing := 0, 0
	for n := range cuts {
		time.Sleep(time.Duration(1000+moments.IntN(3000)) * time.Millisecond)
		k.cut()
		if n%2 == 1 { // the disk fails, and the daemon lives to see it
			failing++
			time.Sleep(time.Duration(moments.IntN(1000)) * time.Millisecond)
		}
		k.restart(d)
		if n%3 == 0 {
			reboots++
			time.Sleep(time.Duration(moments.IntN(2000)) * time.Millisecond)
			k.restart(d)
		}
	}
	u.account("power cut", fmt.Sprintf("%d cuts, %d of them seen as a failing disk; %d reboots", cuts, failing, reboots))
}

// TestFullDisks fills the disk again and again while users work, by bytes and by
// inodes, and kills the daemon meanwhile. FAIRWAY_CHAOS_FULL says how often.
func TestFullDisks(t *testing.T) {
	times := scale("FAIRWAY_CHAOS_FULL", 0)
	if times == 0 {
		t.Skip(`run by "make chaos"; TestFullDisk is the small dose`)
	}
	k := newDisk(t)
	d := startDaemonIn(t, k.machine(), k.dir, "--config", chaosConfig(t))
	u := usersOf(t, d, "sync")
	kills := 0
	for n := range times {
		time.Sleep(3 * time.Second)
		fill := fillInodes
		if n%2 == 0 {
			fill = fillBytes
		}
		free := fill(t, k.dir)
		waitFor(t, patience, func() bool { return d.overview().StartingPaused != "" })
		time.Sleep(2 * time.Second)
		if n%3 == 2 {
			kills++
			d.kill()
			free()
			d.start()
		}
		free()
		waitFor(t, patience, func() bool { return d.overview().StartingPaused == "" })
	}
	u.account("full disk", fmt.Sprintf("%d times, %d of them with a kill -9 of the daemon", times, kills))
}

// fillBytes writes until there is no room for another byte, and returns how to remove
// that.
func fillBytes(t *testing.T, disk string) (free func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() { _ = os.Remove(path) }
}
