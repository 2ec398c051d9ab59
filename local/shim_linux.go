// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
)

// Descriptors that the daemon hands to a supervisor.
const (
	lockFD  = 3 // the lock of the attempt, taken
	readyFD = 4 // a pipe; written to when the ranks are up
)

const (
	stopPoll  = 500 * time.Millisecond // how often stop.json is looked for, signals aside
	gangGrace = 5 * time.Second        // between SIGTERM and SIGKILL for the others when a rank fails
	// killPatience is how long to wait for killed processes before the attempt
	// counts as stuck.
	killPatience = 20 * time.Second
)

// standbyArg makes a supervisor that waits for an attempt.
const standbyArg = "standby"

// starvedCode is the exit code of a supervisor that could not start because the
// machine ran out of something.
const starvedCode = 3

// ShimMain is the supervisor of one attempt: its argument is the attempt's folder.
// It returns the exit code of the process, which matters only if the supervisor
// never took the attempt: otherwise its result is in exit.json.
func ShimMain(args []string) int {
	if len(args) != 1 || !filepath.IsAbs(args[0]) && args[0] != standbyArg {
		fmt.Fprintln(os.Stderr, "shim: want the full path of the folder of an attempt; only the daemon starts this command")
		return 2
	}
	// There may be hundreds of supervisors: each must be small.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(24 << 20)
	// The ranks are killed when the thread that started them ends.
	runtime.LockOSThread()
	if args[0] == standbyArg {
		return standbyMain()
	}
	dir := args[0]
	lock, err := ownLock(dir)
	if errors.Is(err, errHeld) {
		return 0 // another supervisor has it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err)
		return 1
	}
	err = supervise(dir)
	runtime.KeepAlive(lock) // held until the process ends
	if err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err)
		if exhausted(err) {
			return starvedCode
		}
		return 1
	}
	return 0
}

// ownLock returns the lock of the attempt: the one from the daemon or, without
// one, a lock it takes itself.
func ownLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	var have, want unix.Stat_t
	if unix.Fstat(lockFD, &have) == nil && unix.Lstat(path, &want) == nil && have.Ino == want.Ino && have.Dev == want.Dev {
		unix.CloseOnExec(lockFD)
		unix.CloseOnExec(readyFD)
		if err := unix.Flock(lockFD, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return os.NewFile(lockFD, path), nil
	}
	return takeLock(path)
}

// supervise runs the attempt from its first record to its last.
func supervise(dir string) error {
	g := &gang{dir: dir}
	if err := readRecord(filepath.Join(dir, attemptFile), &g.order); err != nil {
		return err
	}
	// Another nonce, or an exit, means that this supervisor was given up.
	if os.Getenv(shimVar) != g.order.Nonce || exists(filepath.Join(dir, exitFile)) {
		return nil
	}
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return fmt.Errorf("read own process: %w", err)
	}
	if err := calm(); err != nil {
		return err
	}
	g.warm = openWarm()
	// Several channels: a flood of one signal must not hide another.
	g.signals, g.stops, g.more = make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(g.signals, unix.SIGCHLD, unix.SIGHUP)
	signal.Notify(g.stops, unix.SIGTERM, unix.SIGINT)
	signal.Notify(g.more, sigMore)

	g.record = shimRecord{Nonce: g.order.Nonce, PID: self.PID, Start: self.Start, Boot: bootID()}
	g.makeGroup()
	if err := placeRecord(filepath.Join(dir, shimFile), g.record); err != nil {
		return errors.Join(err, g.group.end())
	}
	exit := g.run()
	g.writeExit(exit)
	return nil
}

func (g *gang) makeGroup() {
	g.group = &group{}
	if !g.order.Group {
		return
	}
	g.home = findCgroups()
	if g.home == nil {
		return
	}
	made, err := g.home.make(groupName(g.order.AttemptID, g.order.Nonce), g.limitsOf(&g.order))
	if err != nil {
		g.notes = append(g.notes, err.Error())
	}
	if made == nil {
		return
	}
	g.group, g.record.Groups = made, made.dirs
	g.renumber(&g.order)
}

// limitsOf returns the limits of an order.
func (g *gang) limitsOf(o *order) limits {
	l := limits{memory: o.Spec.Memory * int64(o.Slots), cpus: o.Spec.CPUs * o.Slots, pids: o.Processes}
	for _, path := range o.Denied {
		d, err := deviceOf(path)
		if err != nil {
			g.notes = append(g.notes, err.Error())
			continue
		}
		l.denied = append(l.denied, d)
	}
	return l
}

// renumber names the GPUs of an order as its processes see them: CUDA counts only
// what it may open.
func (g *gang) renumber(o *order) {
	if g.group.refuses && o.Visible != "" {
		o.Visible = strings.Join(firstNumbers(strings.Count(o.Visible, ",")+1), ",")
	}
}

// firstNumbers returns the numbers from 0 to n-1 as text.
func firstNumbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}

// restrict takes from the ranks what they would inherit: the protection of the
// daemon from the out-of-memory killer and, by default, the way to more privileges
// (set-user-ID programs such as sudo). Both hold for what the calling thread starts
// until undo, which gives the supervisor its own protection back.
func (g *gang) restrict() (undo func()) {
	if !g.order.NewPrivileges && g.order.Box == nil { // a runtime may need them, and takes them from the job
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			g.notes = append(g.notes, fmt.Sprintf("its processes may gain privileges: %v", err))
		}
	}
	undo, err := unprotect("/proc/self/oom_score_adj")
	if err != nil {
		g.notes = append(g.notes, fmt.Sprintf("its processes keep the daemon's protection from the out-of-memory killer: %v", err))
	}
	return undo
}

// unprotect raises the score by which the out-of-memory killer spares this process
// to that of any other, and returns a function that sets it back.
func unprotect(file string) (undo func(), err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return func() {}, err
	}
	if own, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || own >= 0 {
		return func() {}, err
	}
	// Only root may set it back.
	return func() { _ = os.WriteFile(file, text, 0) }, os.WriteFile(file, []byte("0"), 0)
}

// writeExit makes the result durable. The attempt is not over before that, so it
// retries without limit.
func (g *gang) writeExit(e api.Exit) {
	if len(g.notes) > 20 {
		g.notes = g.notes[:20]
	}
	record := exitRecord{Exit: e, Notes: g.notes}
	path := filepath.Join(g.dir, exitFile)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := writeRecord(path, record)
		if err == nil {
			return
		}
		if errors.Is(err, os.ErrNotExist) && os.MkdirAll(g.dir, 0o700) == nil {
			continue
		}
		fmt.Fprintln(os.Stderr, "shim: the result cannot be written yet:", err)
		time.Sleep(wait)
	}
}

// signalName returns the common name of a signal.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
