// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/diagnose"
)

// orphansSave reports whether to keep waiting for orphaned processes: a shell that
// is asked to stop dies at once and leaves the program it ran, which got no
// signal. That program is asked instead, and has until the deadline.
func (g *gang) orphansSave() bool {
	if g.order.Box != nil { // the runtime has passed the signal on
		return false
	}
	if !g.asked || g.failed == nil || g.failed.signal != "SIGTERM" || g.overdue || !time.Now().Before(g.killAt) {
		return false
	}
	all, err := proc.All()
	if err != nil {
		return false
	}
	left := false
	for _, p := range all {
		if p.Parent != os.Getpid() || p.State == 'Z' {
			continue
		}
		left = true
		if !g.orphaned {
			_ = unix.Kill(p.PID, unix.SIGTERM)
		}
	}
	g.orphaned = true
	return left
}

// finish kills everything that is left and keeps the last output.
func (g *gang) finish() {
	for {
		if g.record.PGID > 0 {
			_ = unix.Kill(-g.record.PGID, unix.SIGKILL)
		}
		g.oom = g.oom || g.group.outOfMemory()
		g.crowded = g.crowded || g.group.outOfProcesses()
		err := g.group.end()
		if g.reap() { // all that is left descends from a child
			_, e := killAll(func(all map[int]proc.Process, p proc.Process) bool {
				g.reap()
				return proc.Under(all, p.PID, os.Getpid())
			}, killPatience)
			err = errors.Join(err, e)
		}
		if e := g.order.unbox(); e != nil && g.order.Box.beside() {
			err = errors.Join(err, e)
		} else if e != nil {
			g.notes = append(g.notes, e.Error()) // its processes are gone
		}
		if err == nil {
			break
		}
		// The GPUs are not free before these are gone: hold the lock.
		fmt.Fprintln(os.Stderr, "shim:", err)
		time.Sleep(time.Second)
	}
	g.reap()
	drained := make(chan struct{})
	go func() { g.pumps.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(2 * time.Second):
		g.notes = append(g.notes, "the output is still open in a process that does not belong to the job")
		for _, r := range g.ranks {
			r.output.Close()
		}
		<-drained
	}
	for _, r := range g.ranks {
		r.output.Close()
	}
}

// missing describes what the logs of the ranks lack; empty: nothing.
func (g *gang) missing() string {
	var old int64
	var unwritten span
	var why error
	for _, r := range g.ranks {
		old += r.log.older
		if u := r.log.unwritten; u.bytes > 0 {
			unwritten.bytes, unwritten.lines, why = unwritten.bytes+u.bytes, unwritten.lines+u.lines, r.log.err
		}
	}
	var parts []string
	if old > 0 {
		parts = append(parts, fmt.Sprintf("the first %d lines of its log were dropped: each process has at most %s (keep.log)", old, mebibytes(2*g.order.LogLimit)))
	}
	if unwritten.bytes > 0 {
		parts = append(parts, unwritten.missing(why))
	}
	return strings.Join(parts, "; ")
}

// result returns how the gang ended, once all of it has.
func (g *gang) result() api.Exit {
	e := api.Exit{AttemptID: g.order.AttemptID, At: time.Now(), Noticed: g.noticed, Missing: g.missing()}
	failed := g.failed
	if g.torn != "" {
		e.Lost, e.Why = true, "the gang could not change in place: "+g.torn
		return e
	}
	// A rank that has saved its work leaves; other ranks that then die of our
	// SIGTERM have not failed.
	if failed != nil && failed.signal == "SIGTERM" && (g.saved || g.asked && g.yields()) {
		e.Yielded, e.Code = true, api.YieldCode
		return e
	}
	if failed == nil {
		if g.yields() {
			e.Yielded, e.Code = true, api.YieldCode
		}
		return e
	}
	e.Rank, e.Signal, e.Code = failed.number, failed.signal, failed.code
	short := "the machine ran out of memory"
	if g.group.memory > 0 {
		short = fmt.Sprintf("the job used more than its limit of %.1f GiB of host memory", float64(g.group.memory)/(1<<30))
	}
	if g.oom { // perhaps the kernel killed a process that the rank needed
		e.Host = []diagnose.Event{{Kind: api.HostOutOfMemory, Text: short}}
	}
	switch {
	case failed.signal == "SIGKILL" && g.oom:
		e.Why = "out of memory: " + short
	case g.noticed && g.overdue && failed.signal == "SIGKILL":
		e.Why = fmt.Sprintf("it did not stop within its notice of %s", g.order.GracePeriod)
	default:
		e.Why = failed.tail.why()
	}
	if g.crowded {
		e.Why = strings.TrimPrefix(fmt.Sprintf("%s; the job reached its limit of %d processes and threads", e.Why, g.group.pids), "; ")
	}
	return e
}
