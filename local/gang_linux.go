// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
)

// gang is the supervisor's view of the ranks of an attempt.
type gang struct {
	dir     string
	order   order
	record  shimRecord
	home    *cgroups
	group   *group
	signals chan os.Signal // look again
	stops   chan os.Signal // stop the ranks
	more    chan os.Signal // give them more time
	notes   []string
	warm    *warm // what ranks are forked from; nil: they are started

	ranks    []*rank
	pumps    sync.WaitGroup
	failed   *rank     // the first that ended badly
	noticed  bool      // the attempt was asked to stop
	noticeAt time.Time // when
	asked    bool      // the ranks were asked to stop, for any reason
	killAt   time.Time // zero: nothing will be killed
	overdue  bool      // the deadline passed and ranks were killed
	orphaned bool      // orphans of ranks were asked to stop
	saved    bool      // one of those left with YieldCode
	oom      bool      // the kernel killed a process for the limit of memory
	crowded  bool      // the kernel refused a process for the limit of processes

	listener   net.Listener // for the agents of the ranks; nil: they cannot change in place
	heard      chan heard   // what these say
	generation int          // the last that was begun
	current    int          // the one that trains
	members    []*rank      // of it, by rank
	meetings   meetings     // of the generation that was started first
	change     *change      // to the next one; nil: none is under way
	requests   int          // number of the last request to change
	requestAt  time.Time    // when the next one was found
	empty      []int        // slots without a process, because it died
	deaths     []time.Time
	torn       string // why a change left the gang in pieces
}

// rank is one process of a gang.
type rank struct {
	number   int
	position          // when it was started
	command  []string // what the machine runs: that of the task, or of its container
	pid      int
	done     bool
	judged   bool // its end was looked at
	leaves   bool // whatever comes of it
	code     int
	signal   string
	log      rotator
	tail     tail
	output   *os.File // the reading end of its output

	link  net.Conn // to its agent
	ready int      // the generation that it waits for
	up    int      // the generation that it trains in; below 0: it does not yet
}

// ending describes how the rank ended.
func (r *rank) ending() string {
	if r.signal != "" {
		return r.signal
	}
	return fmt.Sprintf("exit code %d", r.code)
}

// run starts the ranks and waits until nothing is left of them.
func (g *gang) run() api.Exit {
	if _, asked := g.stopAsked(); asked {
		g.finish()
		return api.Exit{AttemptID: g.order.AttemptID, At: time.Now(), Noticed: true, Why: "stopped before it started"}
	}
	g.listen()
	if e, ok := g.start(); !ok {
		g.finish()
		e.At = time.Now()
		return e
	}
	g.ready()
	for !g.step() {
		wait := stopPoll
		if !g.killAt.IsZero() {
			wait = max(time.Millisecond, min(wait, time.Until(g.killAt)))
		}
		timer := time.NewTimer(wait)
		select {
		case <-g.signals:
		case <-g.stops:
			// The daemon writes stop.json first, with a deadline. Without the file, the
			// machine is shutting down.
			left, asked := g.stopAsked()
			if !asked {
				left = g.order.GracePeriod.D()
			}
			g.notice(left)
		case <-g.more:
			g.prolong()
		case h := <-g.heard:
			g.hear(h)
		case <-timer.C:
		}
		timer.Stop()
	}
	g.finish()
	return g.result()
}

// start starts all ranks, or returns how the attempt ended if it could not.
func (g *gang) start() (api.Exit, bool) {
	o := &g.order
	lost := func(err error) (api.Exit, bool) { return lostExit(o.AttemptID, err), false }
	if e, ok := o.readSecrets(); !ok {
		return e, false
	}
	var err error
	if g.meetings, err = o.meetings(); err != nil {
		return lost(err)
	}
	s, err := g.starter(o)
	if err != nil {
		return lost(err)
	}
	defer s.close()
	positions, err := o.positions()
	if err != nil {
		return lost(err)
	}
	for n, at := range positions {
		r := &rank{number: n, position: at}
		if err := s.start(r, positions, g.meetings, 0); err != nil {
			e := startFailure(o, r.command[0], s.attr.Dir, err)
			e.Rank = n
			return e, false
		}
		g.members = append(g.members, r)
	}
	return api.Exit{}, true
}

// ready tells the daemon, if there is one, that the ranks are up.
func (g *gang) ready() {
	g.record.Up = true
	g.settleWarm()
	if err := placeRecord(filepath.Join(g.dir, shimFile), g.record); err != nil {
		g.notes = append(g.notes, err.Error())
	}
	var s unix.Stat_t
	if unix.Fstat(readyFD, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFIFO {
		_, _ = unix.Write(readyFD, []byte{1})
		unix.Close(readyFD)
	}
}

// step handles what has happened since the last step. It returns true when the
// ranks are gone.
func (g *gang) step() (over bool) {
	g.reap()
	if left, asked := g.stopAsked(); asked {
		g.notice(left)
	}
	g.look()
	left := 0
	for _, r := range g.ranks {
		if !r.done && !r.leaves {
			left++
		}
	}
	switch {
	case left == 0:
		return !g.orphansSave()
	case (g.failed != nil || g.led()) && !g.asked:
		g.ask(gangGrace)
	case g.yields() && !g.asked: // its agent heard of the stop before we did
		g.ask(g.order.GracePeriod.D())
	}
	if !g.killAt.IsZero() && !time.Now().Before(g.killAt) {
		g.overdue = true
		for _, r := range g.ranks {
			if !r.done {
				_ = unix.Kill(r.pid, unix.SIGKILL)
			}
		}
		_ = unix.Kill(-g.record.PGID, unix.SIGKILL)
		g.killAt = time.Now().Add(time.Second) // again: what is killed may be starting others
	}
	return false
}

// reap collects all children that have ended, and reports whether others are left.
func (g *gang) reap() (left bool) {
	defer g.judge()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return err == nil
		}
		if g.orphaned && status.Exited() && status.ExitStatus() == api.YieldCode {
			g.saved = true
		}
		for _, r := range g.ranks {
			if r.pid != pid || r.done {
				continue
			}
			r.done = true
			if status.Signaled() {
				r.signal, r.code = signalName(status.Signal()), 128+int(status.Signal())
			} else {
				r.code = status.ExitStatus()
			}
			if n := r.code - 128; g.order.Box != nil && r.signal == "" && n > 0 && unix.SignalName(syscall.Signal(n)) != "" {
				r.signal = signalName(syscall.Signal(n)) // so a runtime says what ended the process inside
			}
		}
	}
}

// judge looks at the ranks that have ended since, the first first: others may have ended
// because it has.
func (g *gang) judge() {
	for _, r := range slices.Clone(g.ranks) { // a rank that died may be replaced
		if !r.done || r.judged {
			continue
		}
		r.judged = true
		switch {
		case g.excused(r):
		case r.code == 0 || r.code == api.YieldCode:
			if r.leads() {
				g.cancelChange() // the training is over, or was asked to stop
			}
		case g.failed == nil && !g.died(r):
			g.failed = r
		}
	}
}

func (g *gang) yields() bool {
	for _, r := range g.ranks {
		if r.done && !r.leaves && r.leads() && r.code == api.YieldCode && r.signal == "" {
			return true
		}
	}
	return false
}

// stopAsked reports whether the daemon asked the attempt to stop, and the time
// left.
func (g *gang) stopAsked() (left time.Duration, asked bool) {
	if g.noticed {
		return 0, false
	}
	path := filepath.Join(g.dir, stopFile)
	if !exists(path) {
		return 0, false
	}
	var s stopRecord
	if err := readRecord(path, &s); err != nil {
		g.notes = append(g.notes, err.Error())
		return g.order.GracePeriod.D(), true
	}
	// A changed clock must not turn a grace period into an endless wait.
	return min(max(0, time.Until(s.Deadline)), api.MaxGracePeriod), true
}

// notice passes on the request to stop, once.
func (g *gang) notice(left time.Duration) {
	if g.noticed {
		return
	}
	g.noticed, g.noticeAt = true, time.Now()
	if g.failed == nil {
		g.ask(left)
	}
}

// prolong gives ranks that cannot save their work a new grace period: all of them
// together last at most api.MaxGracePeriod.
func (g *gang) prolong() {
	if g.noticed && g.failed == nil && !g.overdue {
		last := g.noticeAt.Add(api.MaxGracePeriod)
		if later := time.Now().Add(g.order.GracePeriod.D()); later.Before(last) && later.After(g.killAt) {
			g.killAt = later
		}
	}
}

// ask sends SIGTERM to the ranks and sets the time of the kill.
func (g *gang) ask(left time.Duration) {
	g.killAt = time.Now().Add(left)
	if g.asked {
		return
	}
	g.asked = true
	g.cancelChange()
	for _, r := range g.ranks {
		if !r.done {
			_ = unix.Kill(r.pid, unix.SIGTERM)
		}
		if r.link != nil {
			r.link.Close() // there is no other generation to wait for
		}
	}
}
