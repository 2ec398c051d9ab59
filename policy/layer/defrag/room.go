// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Bounds of the work for one decision.
const (
	mostGangs   = 8  // waiting gangs for which room is sought
	mostTargets = 16 // places that are tried for each
	mostSpread  = 16 // running gangs that may move back
)

// waiting returns the gangs that could run on the free GPUs if these were closer
// together, in the order in which they are served.
func (d *decision) waiting() []int {
	var out []int
	free := d.s.Cluster.GPUs() * sched.WholeGPU // an upper bound: part of a GPU may be free
	for _, p := range d.plan.Want {
		free -= p.Milli()
	}
	for i, j := range d.s.Jobs {
		if j.GPUs < 2 || j.GPUs*sched.WholeGPU > free || j.Phase != sched.Pending || len(d.plan.Want[i]) > 0 || !j.Ready(d.s.Now) || (j.Shareable && j.Milli() < sched.WholeGPU) {
			continue
		}
		if code := d.plan.Why[i].Code; code != sched.Fragmented && code != sched.Full {
			continue
		}
		if until := d.skip[j.ID]; d.s.Now.Before(until) {
			d.plan.WakeBy(d.s.Now, until)
			continue
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b int) int {
		x, y := d.s.Jobs[a], d.s.Jobs[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Since.Compare(y.Since), cmp.Compare(x.Seq, y.Seq))
	})
	return out
}

// room is a trade: jobs that leave, and where the gang then goes.
type room struct {
	cost   float64
	moves  []int   // jobs, by index
	shares []share // of the gang; none: anywhere in the rack
	rack   int
	kind   int // index of the GPU type
}

type share struct{ node, gpus int }

// makeRoom moves other jobs so that a waiting gang can start, if that pays.
func (d *decision) makeRoom(i int) {
	j := d.s.Jobs[i]
	if d.quota.Left(j) < j.GPUs || d.moved >= d.Most || d.gangs == mostGangs || !d.enough(j) {
		return
	}
	d.gangs++
	d.skip.add(j.ID, d.s.Now.Add(time.Minute))
	rooms := d.rooms(j, d.level(i))
	if len(rooms) == 0 {
		return
	}
	saved := d.waitOf(i)
	gain := saved.Seconds() * float64(j.GPUs)
	var dear *room // the cheapest trade that does not pay
	for _, r := range rooms[:min(len(rooms), mostTargets)] {
		taken := d.pays(r.cost, gain) && d.take(i, &r, gain)
		if !d.pays(r.cost, gain) && (dear == nil || r.cost < dear.cost) {
			dear = &r
		}
		if taken {
			delete(d.skip, j.ID)
			d.record(sched.LedgerEntry{
				For: j.ID, Moved: d.names(r.moves), Cost: r.cost, Gain: gain, Taken: true,
				Text: fmt.Sprintf("%s (%d GPUs) starts on %s, about %s sooner, since %s: %s",
					j.ID, j.GPUs, d.plan.Want[i].Text(d.s.Cluster), round(saved), d.list(r.moves)+movesAway(r.moves), sums(r.cost, gain)),
			})
			return
		}
	}
	if dear != nil {
		d.skip.add(j.ID, d.s.Now.Add(5*time.Minute)) // its cost changes slowly
		d.refuse(sched.LedgerEntry{
			For: j.ID, Moved: d.names(dear.moves), Cost: dear.cost, Gain: gain,
			Text: fmt.Sprintf("%s (%d GPUs) could start about %s sooner if %s moved: %s",
				j.ID, j.GPUs, round(saved), d.list(dear.moves), sums(dear.cost, gain)),
		})
	}
}

// enough reports whether enough GPUs of one type are free for the gang.
func (d *decision) enough(j *sched.Job) bool {
	for t, name := range d.s.Cluster.Types {
		if j.Accepts(name) && d.free.OfType(t) >= j.GPUs {
			return true
		}
	}
	return false
}

// level returns how close together a waiting gang's GPUs must be: as the policy
// insists, and at least in one rack.
func (d *decision) level(i int) sched.Level {
	level := sched.SameRack
	for _, l := range []sched.Level{d.plan.Why[i].Level, d.s.Jobs[i].MaxSpread} {
		if l != sched.NoLevel {
			level = min(level, l)
		}
	}
	return level
}

// waitOf returns how long a gang is expected to wait if no job moves.
func (d *decision) waitOf(i int) time.Duration {
	j := d.s.Jobs[i]
	if d.forecast == nil {
		d.forecast = place.NewForecast(d.s, d.plan.Want, d.free, max(d.Unknown.D(), time.Minute))
	}
	at, _, ok := d.forecast.Earliest(j, j.GPUs, within(d.level(i)))
	if ok && !at.After(d.s.Now) {
		// The policy insists on more: that can only be the fewest nodes.
		at, _, ok = d.forecast.Earliest(j, j.GPUs, fewestNodes)
	}
	if !ok {
		return d.Horizon.D()
	}
	return min(at.Sub(d.s.Now), d.Horizon.D())
}

// take carries out a trade in the plan: the jobs leave, the gang takes its GPUs,
// the jobs go elsewhere. If a job finds no room, or the gang's placement is so bad
// that the trade does not pay, nothing changes.
func (d *decision) take(i int, r *room, gain float64) bool {
	if d.moved+len(r.moves) > d.Most {
		return false
	}
	mark := d.free.Mark()
	for _, k := range r.moves {
		d.free.Release(d.s.Jobs[k], d.s.Jobs[k].Placement)
	}
	j := d.s.Jobs[i]
	p, ok := d.settle(j, *r)
	to := make([]sched.Placement, len(r.moves))
	for n, k := range r.moves {
		if ok {
			to[n], ok = d.elsewhere(d.s.Jobs[k])
		}
	}
	ok = ok && d.s.Cluster.Level(p) <= d.level(i)
	if ok {
		r.cost += d.penalty(j, p)
	}
	if !ok || !d.pays(r.cost, gain) {
		d.free.Rollback(mark)
		return false
	}
	d.plan.Want[i], d.plan.Why[i] = p, sched.Reason{}
	d.quota.Add(j, j.GPUs)
	for n, k := range r.moves {
		d.move(k, to[n])
	}
	return true
}

// move gives a running job other GPUs in the plan, and removes it from the jobs
// that may be moved.
func (d *decision) move(k int, to sched.Placement) {
	d.plan.Want[k] = to
	d.moved++
	if d.forecast != nil {
		d.forecast.Moved(d.s.Jobs[k], to)
	}
	for _, s := range d.s.Jobs[k].Placement {
		d.on[s.Node] = slices.DeleteFunc(d.on[s.Node], func(i int) bool { return i == k })
	}
}

// elsewhere takes GPUs for a job that has left its own: no farther apart, on no
// more nodes.
func (d *decision) elsewhere(j *sched.Job) (sched.Placement, bool) {
	mark := d.free.Mark()
	p, ok := d.free.Within(d.as(j), j.Placement.GPUs(), d.s.Cluster.Level(j.Placement))
	if !ok || len(p) > len(j.Placement) || p.Shared() {
		d.free.Rollback(mark)
		return nil, false
	}
	return p, true
}

// settle takes the GPUs of a trade for the gang.
func (d *decision) settle(j *sched.Job, r room) (sched.Placement, bool) {
	shares := r.shares
	if shares == nil {
		shares = d.spreadOver(j, r)
	}
	var p sched.Placement
	for _, s := range shares {
		gpus, ok := d.pick(s)
		if !ok {
			return nil, false
		}
		slice := sched.Slice{Node: int32(s.node), Milli: sched.WholeGPU, GPUs: gpus}
		if !d.free.Fits(j, sched.Placement{slice}) {
			return nil, false
		}
		d.free.Take(j, sched.Placement{slice})
		p = append(p, slice)
	}
	return p, len(p) > 0
}

// pick chooses free GPUs of a node, in one island if one has room.
func (d *decision) pick(s share) (sched.GPUSet, bool) {
	free := d.free.OnNode(s.node)
	if free.Len() < s.gpus {
		return 0, false
	}
	for _, island := range d.s.Cluster.Nodes[s.node].Islands {
		if in := free & island; in.Len() >= s.gpus {
			return in.Lowest(s.gpus), true
		}
	}
	return free.Lowest(s.gpus), true
}

// spreadOver divides a gang over the nodes of a rack with the most free GPUs.
func (d *decision) spreadOver(j *sched.Job, r room) []share {
	var nodes []share
	for _, n := range d.nodes(j, r.rack, r.kind) {
		if k := d.free.OnNode(n).Len() / j.Task() * j.Task(); k > 0 {
			nodes = append(nodes, share{n, k})
		}
	}
	slices.SortStableFunc(nodes, func(a, b share) int { return cmp.Compare(b.gpus, a.gpus) })
	left := j.GPUs
	for k := range nodes {
		nodes[k].gpus = min(nodes[k].gpus, left)
		if left -= nodes[k].gpus; left == 0 {
			return nodes[:k+1]
		}
	}
	return nil
}

func (d *decision) names(jobs []int) []sched.JobID {
	out := make([]sched.JobID, len(jobs))
	for n, k := range jobs {
		out[n] = d.s.Jobs[k].ID
	}
	return out
}

// list formats the names of jobs for people.
func (d *decision) list(jobs []int) string {
	const most = 4
	var b strings.Builder
	for n, id := range d.names(jobs) {
		switch {
		case n == most:
			fmt.Fprintf(&b, " and %d more", len(jobs)-most)
			return b.String()
		case n > 0 && n == len(jobs)-1:
			b.WriteString(" and ")
		case n > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(id))
	}
	return b.String()
}

func movesAway(jobs []int) string {
	if len(jobs) == 1 {
		return " moves away"
	}
	return " move away"
}

// sums prints cost and gain in GPU-hours.
func sums(cost, gain float64) string {
	return fmt.Sprintf("costs %.2f GPU-h, gains %.2f", cost/3600, gain/3600)
}

func round(t time.Duration) sched.Duration { return sched.Duration(t.Round(time.Minute)) }
