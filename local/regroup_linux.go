// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/sched"
)

// A gang whose agents have a link to the supervisor can change in place: ranks that
// stay keep their process, and with it model, optimiser and place in the data. The
// supervisor owns the membership, as numbered generations.

const (
	resizeFile  = "resize.json"  // the daemon's request
	resizedFile = "resized.json" // how the last one ended
)

const (
	startPatience = 3 * time.Minute // for new ranks to get ready; the others train on
	meetPatience  = time.Minute     // for a gang that holds to train again
	leavePatience = 10 * time.Second
	firstPatience = 2 * time.Second // for the first word of an agent
	// A rank that dies is replaced, but not more than mostDeaths times in deathsWithin.
	mostDeaths   = 3
	deathsWithin = 10 * time.Minute
)

// resizeRequest is the content of resize.json: what the attempt should hold.
type resizeRequest struct {
	Number    int             `json:"number"` // one more for each request
	Placement sched.Placement `json:"placement"`
	Slots     int             `json:"slots"`
	Visible   string          `json:"visible"`
	Denied    []string        `json:"denied_devices,omitempty"`
	Processes int             `json:"processes,omitempty"`
}

// resizedRecord is the content of resized.json.
type resizedRecord struct {
	resizeRequest        // what the attempt holds now
	Why           string `json:"why,omitempty"` // why the request could not be met; empty: it was
}

// change is a new generation of the gang that is coming about.
type change struct {
	generation, port int
	order            order
	members          []*rank // by rank; those that stay come first
	fresh            []*rank // of the members, those that are new
	leave            []*rank
	request          *resizeRequest // nil: only a rank is replaced
	lost             bool           // a rank died: the others hold already
	told             bool           // the ranks were told their places
	gone             bool           // all were ready, and may go
	deadline         time.Time
}

// look looks for a request to change the gang, and takes a change that is under way
// one step further.
func (g *gang) look() {
	if g.change == nil && !g.asked {
		g.takeRequest()
	}
	if g.change == nil && !g.asked && len(g.empty) > 0 {
		g.refill()
	}
	c := g.change
	if c == nil {
		return
	}
	now := time.Now()
	if now.After(c.deadline) && exists(filepath.Join(g.dir, suspendFile)) {
		c.deadline = now.Add(meetPatience) // its processes are frozen
	}
	switch {
	case !c.told && g.all(c.fresh, func(r *rank) bool { return r.ready >= c.generation }):
		g.tellPlaces(c)
	case c.told && !c.gone && g.all(c.members, func(r *rank) bool { return r.ready >= c.generation }):
		c.gone, c.deadline = true, now.Add(meetPatience)
		for _, r := range c.members {
			r.tell(goAhead{c.generation})
		}
	case c.gone && g.all(c.members, func(r *rank) bool { return r.up >= c.generation }):
		g.settleChange(c)
	case now.After(c.deadline):
		g.giveUp(c, "the processes did not come together in time")
	}
}

func (g *gang) all(ranks []*rank, has func(*rank) bool) bool {
	return !slices.ContainsFunc(ranks, func(r *rank) bool { return !has(r) })
}

// takeRequest begins the change that the daemon asks for.
func (g *gang) takeRequest() {
	path := filepath.Join(g.dir, resizeFile)
	if !exists(path) {
		return
	}
	var q resizeRequest
	if err := readRecord(path, &q); err != nil || q.Number <= g.requests {
		return
	}
	if g.requestAt.IsZero() {
		g.requestAt = time.Now()
	}
	if len(g.order.Task.Roles) == 0 && g.unheard() {
		return
	}
	g.requests, g.requestAt = q.Number, time.Time{}
	if err := g.resize(q); err != nil {
		g.answer(q.Number, err.Error())
	}
}

// resize begins a change to other GPUs.
func (g *gang) resize(q resizeRequest) error {
	if len(q.Placement) != 1 {
		return errors.New("the GPUs are not those of one machine")
	}
	for _, r := range g.members {
		switch {
		case r.done:
			return errors.New("a process has ended")
		case len(g.order.Task.Roles) == 0 && (r.link == nil || r.up < g.current):
			return errors.New("its processes cannot change in place")
		}
	}
	c, fresh := g.changeTo(q)
	if len(c.members) == 0 {
		return errors.New("no process would stay")
	}
	if len(g.order.Task.Roles) > 0 {
		return g.resizeRole(c, fresh)
	}
	if len(fresh) > 0 { // it shrinks only when those that leave are gone
		if err := g.setLimits(&c.order); err != nil {
			return err
		}
	}
	g.empty = nil
	return g.begin(c, fresh)
}

// changeTo returns the change that a request asks for, and the slots that would be new.
func (g *gang) changeTo(q resizeRequest) (c *change, fresh []int) {
	c = &change{request: &q, order: g.order}
	o := &c.order
	o.Placement, o.Slots, o.Visible, o.Denied, o.Processes = q.Placement, q.Slots, q.Visible, q.Denied, q.Processes
	want := q.Placement[0].GPUs
	for _, r := range g.members {
		if want&(1<<r.slot) != 0 {
			c.members = append(c.members, r)
			want &^= 1 << r.slot
		} else {
			c.leave = append(c.leave, r)
		}
	}
	return c, want.Indexes()
}

// begin starts the new ranks of a change, on slots. If it cannot, nothing has changed.
func (g *gang) begin(c *change, slots []int) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	g.generation++
	c.generation, c.port, c.deadline = g.generation, port, time.Now().Add(startPatience)
	positions := positionsOf(c.members)
	for _, slot := range slots {
		positions = append(positions, position{rank: len(positions), slot: slot})
	}
	s, err := g.starter(&c.order)
	if err != nil {
		return err
	}
	defer s.close()
	for _, at := range positions[len(c.members):] {
		r := &rank{number: g.freeNumber(), position: at}
		if err := s.start(r, positions, meetings{roles: []int{port}}, c.generation); err != nil {
			g.dismiss(c.fresh)
			return err
		}
		c.members, c.fresh = append(c.members, r), append(c.fresh, r)
	}
	g.change = c
	return nil
}

// freeNumber returns the lowest number of a process that none has which is alive.
func (g *gang) freeNumber() int {
	for n := 0; ; n++ {
		if !slices.ContainsFunc(g.ranks, func(r *rank) bool { return r.number == n && !r.done }) {
			return n
		}
	}
}

// tellPlaces tells all ranks where they are in the new generation. A rank without a
// link hears it when it has one.
func (g *gang) tellPlaces(c *change) {
	c.told, c.deadline = true, time.Now().Add(meetPatience)
	if c.lost {
		c.deadline = time.Now().Add(startPatience)
	}
	for _, r := range c.members {
		r.tell(c.placeOf(r))
	}
	for _, r := range c.leave {
		r.leaves = true
		r.tell(c.placeOf(r))
	}
}

func (c *change) placeOf(r *rank) place {
	return place{
		Generation: c.generation, Rank: slices.Index(c.members, r), World: len(c.members),
		Port: c.port, Lost: c.lost, Fresh: len(c.fresh),
	}
}

// settleChange ends a change when all of its ranks train. The GPUs of those that
// leave are free only when they are gone.
func (g *gang) settleChange(c *change) {
	if !g.all(c.leave, func(r *rank) bool { return r.done }) {
		if time.Now().After(c.deadline.Add(leavePatience - meetPatience)) {
			g.dismiss(c.leave)
		}
		return
	}
	g.members, g.order, g.current, g.change = c.members, c.order, c.generation, nil
	if c.request == nil {
		return
	}
	if err := g.setLimits(&g.order); err != nil {
		g.note("%v", err)
	}
	g.answer(c.request.Number, "")
}

// setLimits adapts the limits of the control group to an order.
func (g *gang) setLimits(o *order) error {
	if len(g.group.dirs) == 0 || g.home == nil {
		return nil
	}
	if err := g.home.limit(g.group, g.limitsOf(o)); err != nil {
		return err
	}
	g.renumber(o)
	return nil
}

// giveUp ends a change that does not come about. Ranks that were not told of it
// train on as they were; otherwise the gang is torn, and the attempt ends.
func (g *gang) giveUp(c *change, why string) {
	g.dismiss(c.fresh)
	g.change = nil
	if c.told {
		g.torn = why
		g.ask(gangGrace)
		return
	}
	if err := g.setLimits(&g.order); err != nil {
		g.note("%v", err)
	}
	if c.request != nil {
		g.answer(c.request.Number, why)
		return
	}
	var slots []int
	for _, r := range c.fresh {
		slots = append(slots, r.slot)
	}
	g.refillFailed(slots, why)
}

// cancelChange drops a change because the attempt is about to end.
func (g *gang) cancelChange() {
	if c := g.change; c != nil {
		g.dismiss(slices.DeleteFunc(slices.Clone(c.fresh), (*rank).trained))
		g.change = nil
	}
}

// dismiss kills ranks whose end means nothing.
func (g *gang) dismiss(ranks []*rank) {
	for _, r := range ranks {
		r.leaves = true
		if !r.done {
			_ = unix.Kill(r.pid, unix.SIGKILL)
		}
	}
}

// answer tells the daemon how its request ended.
func (g *gang) answer(number int, why string) {
	o := &g.order
	record := resizedRecord{Why: why, resizeRequest: resizeRequest{
		Number: number, Placement: o.Placement, Slots: o.Slots, Visible: o.Visible, Denied: o.Denied, Processes: o.Processes,
	}}
	if err := placeRecord(filepath.Join(g.dir, resizedFile), record); err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err) // the daemon waits, and gives up
	}
	if why != "" {
		g.note("could not change in place: %s", why)
	}
}

func (g *gang) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(os.Stderr, "shim:", text)
	g.notes = append(g.notes, text)
}
