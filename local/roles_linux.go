// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
)

// A gang of roles has a world for each of them: ranks count from 0 in every role, and each
// has a port of its own to meet at. The processes of the elastic role come and go while the
// others run, if rank 0 of the first role has said that it can bear that: nobody is told,
// because only the script knows what its roles are to each other.

// position is where a process of a gang is when the attempt starts.
type position struct {
	role int // 0 where there are no roles
	rank int // in its role
	slot int
}

// positions returns the places of all processes, by number.
func (o *order) positions() ([]position, error) {
	slots := o.slots()
	list, err := o.Task.Positions(o.ranks())
	out := make([]position, 0, len(list))
	for _, at := range list {
		out = append(out, position{at.Role, at.Rank, slots[at.Seat]})
	}
	return out, err
}

// meetings are the ports at which the processes of a gang find each other.
type meetings struct {
	roles []int // of each role
	all   int   // of all of them; 0: there are no roles
}

func (o *order) meetings() (m meetings, err error) {
	for range max(1, len(o.Task.Roles)) {
		port, err := freePort()
		if err != nil {
			return m, err
		}
		m.roles = append(m.roles, port)
	}
	if len(o.Task.Roles) > 0 {
		m.all, err = freePort()
	}
	return m, err
}

// play returns the order of the processes of one role, as far as they are concerned: its
// command, its variables, its GPUs.
func (o *order) play(role int, slots []int) *order {
	out := *o
	out.Task = o.Task.Play(role)
	all := o.slots()
	if o.Visible != "" {
		out.Visible = strings.Join(pick(strings.Split(o.Visible, ","), all, slots), ",")
	}
	if o.Box != nil && len(o.Box.GPUs) == len(all) {
		box := *o.Box
		box.GPUs = pick(box.GPUs, all, slots)
		out.Box = &box
	}
	return &out
}

// pick returns those of a list's entries, each of which belongs to a slot, that belong to
// some of the slots.
func pick[T any](list []T, all, some []int) (out []T) {
	for i, slot := range all {
		if i < len(list) && slices.Contains(some, slot) {
			out = append(out, list[i])
		}
	}
	return out
}

// roleVars returns what a process knows about the roles of its gang.
func (o *order) roleVars(role, meet int) map[string]string {
	return map[string]string{
		api.RoleVariable: o.Task.Roles[role].Name, api.RolesVariable: o.Task.RolesText(o.Slots),
		api.MeetVariable: "127.0.0.1:" + strconv.Itoa(meet),
	}
}

// leads reports whether a process belongs to those by whose end the attempt is judged.
func (r *rank) leads() bool { return r.role == 0 }

// led reports whether all processes of the first of several roles have ended well: the
// others have nothing left to do.
func (g *gang) led() bool {
	return len(g.order.Task.Roles) > 0 && g.all(g.members, func(r *rank) bool {
		return !r.leads() || r.done && r.signal == "" && (r.code == 0 || r.code == api.YieldCode)
	})
}

// excused reports whether the end of a process means nothing: one of another role than the
// first need not end well when it is asked to stop, or when the first role is gone.
func (g *gang) excused(r *rank) bool { return r.leaves || !r.leads() && (g.asked || g.led()) }

// resizeRole lets processes of the elastic role come, on slots, and go.
func (g *gang) resizeRole(c *change, slots []int) error {
	for _, r := range c.leave {
		switch role := g.order.Task.Roles[r.role]; {
		case !role.Elastic():
			return fmt.Errorf("a process of the role %s would lose its GPU", role.Name)
		case r.leads() && r.rank == 0: // it reports for the job
			return fmt.Errorf("the first process of the role %s would lose its GPU", role.Name)
		}
	}
	if len(slots) > 0 {
		if err := g.setLimits(&c.order); err != nil {
			return err
		}
	}
	s, err := g.starter(&c.order)
	if err != nil {
		return err
	}
	defer s.close()
	elastic := g.order.Task.ElasticRole()
	positions := positionsOf(c.members)
	for _, slot := range slots {
		positions = append(positions, position{elastic, freeRank(positions, elastic), slot})
	}
	for _, at := range positions[len(c.members):] {
		r := &rank{number: g.freeNumber(), position: at}
		if err := s.start(r, positions, g.meetings, 0); err != nil {
			g.dismiss(c.fresh)
			return err
		}
		c.members, c.fresh = append(c.members, r), append(c.fresh, r)
	}
	for _, r := range c.leave {
		r.leaves = true
		_ = unix.Kill(r.pid, unix.SIGTERM)
	}
	// Nobody has to meet: it is over when those that leave are gone.
	c.told, c.gone, c.deadline = true, true, time.Now().Add(g.order.GracePeriod.D()+meetPatience-leavePatience)
	g.change = c
	return nil
}

func positionsOf(ranks []*rank) (out []position) {
	for _, r := range ranks {
		out = append(out, r.position)
	}
	return out
}

// freeRank returns the lowest rank of a role that nobody has.
func freeRank(taken []position, role int) int {
	for n := 0; ; n++ {
		if !slices.ContainsFunc(taken, func(s position) bool { return s.role == role && s.rank == n }) {
			return n
		}
	}
}
