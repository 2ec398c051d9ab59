// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// starter is what the ranks of an order have in common when they are started.
type starter struct {
	g    *gang
	o    *order
	who  account
	attr syscall.ProcAttr
	null *os.File
	undo []func()
}

func (g *gang) starter(o *order) (*starter, error) {
	s := &starter{g: g, o: o, who: accountOf(o)}
	var err error
	if s.null, err = os.Open(os.DevNull); err != nil {
		return nil, err
	}
	s.undo = append(s.undo, func() { s.null.Close() })
	attr := &syscall.SysProcAttr{Setpgid: true, Pgid: g.record.PGID, Pdeathsig: syscall.SIGKILL, Credential: s.who.credential}
	if g.group.unified {
		d, err := os.Open(g.group.dirs[0])
		if err != nil {
			s.close()
			return nil, err
		}
		s.undo = append(s.undo, func() { d.Close() })
		attr.UseCgroupFD, attr.CgroupFD = true, int(d.Fd())
	} else if len(g.group.dirs) > 0 {
		leave, err := g.group.enter(g.home)
		if err != nil {
			s.close()
			return nil, err
		}
		s.undo = append(s.undo, leave)
	}
	s.undo = append(s.undo, g.restrict())
	dir := o.Task.Dir
	if dir == "" || o.Box != nil {
		dir = o.Work
	}
	s.attr = syscall.ProcAttr{Dir: dir, Sys: attr}
	return s, nil
}

func (s *starter) close() {
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
}

// start starts a rank of a generation. positions are those of all its ranks.
func (s *starter) start(r *rank, positions []position, at meetings, generation int) error {
	g, attr, o := s.g, &s.attr, s.o
	var slots []int // of its role
	for _, peer := range positions {
		if peer.role == r.role {
			slots = append(slots, peer.slot)
		}
	}
	vars := rankVars{
		position: r.position, world: len(slots), port: at.roles[r.role], meet: at.all, generation: generation,
		member: r.number, link: g.listener != nil,
	}
	if len(o.Task.Roles) > 0 {
		slices.Sort(slots)
		o, vars.slots = o.play(r.role, slots), slots
	} else {
		vars.slots = o.slots()
	}
	r.command = o.Task.Command
	if o.Box != nil {
		command, env, err := o.boxed(r.number, boxUserOf(s.who), jobVars(o, vars))
		if err != nil {
			return err
		}
		r.command, attr.Env = command, append(boxEnvironment(o, s.who), env...)
	} else {
		attr.Env = environment(o, s.who, vars)
	}
	err := g.startRank(r, s.null, attr)
	if err != nil && g.record.PGID == 0 && attr.Sys.UseCgroupFD && !g.group.refuses {
		// An old kernel may refuse to start a process in the group.
		attr.Sys.UseCgroupFD = false
		if err = g.startRank(r, s.null, attr); err == nil {
			g.notes = append(g.notes, "ran outside its control group")
		}
	}
	if err == nil && g.record.PGID == 0 {
		// The first rank leads the group. No rank is reaped before all have joined,
		// so the group exists even if its leader has ended.
		attr.Sys.Pgid, g.record.PGID = r.pid, r.pid
	}
	if err == nil && len(o.Task.Roles) > 0 {
		r.up = generation // it has no agent that could say so
	}
	return err
}

func (g *gang) startRank(r *rank, null *os.File, attr *syscall.ProcAttr) error {
	program, err := lookProgram(r.command[0], attr.Dir, attr.Env)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return unwrapPath(err)
	}
	attr.Files = []uintptr{null.Fd(), write.Fd(), write.Fd()}
	pid, err := g.fork(program, r.command, attr)
	write.Close()
	if err != nil {
		read.Close()
		return err
	}
	r.pid, r.output, r.up = pid, read, -1
	r.log = rotator{path: filepath.Join(g.dir, rankLog(r.number)), limit: g.order.LogLimit}
	r.log.open() // so that there is a log even of a rank that prints nothing
	g.ranks = append(g.ranks, r)
	g.pumps.Go(r.pump)
	return nil
}

// pump keeps the rank's output, until the last process that has the pipe ends.
func (r *rank) pump() {
	buffer := make([]byte, 16<<10)
	for {
		n, err := r.output.Read(buffer)
		r.log.Write(buffer[:n])
		r.tail.add(buffer[:n])
		if err != nil {
			r.log.end()
			return
		}
	}
}
