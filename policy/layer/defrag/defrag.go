// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the layer.
type Config struct {
	Margin  float64        `json:"margin" help:"a move must gain this many times its cost"`
	Restart sched.Duration `json:"restart" help:"cost of each stop and start of a job"`
	Saves   string         `json:"saves" help:"which jobs save their work when told to stop: known (those with an agent or a checkpoint), all or none"`
	Moves   int            `json:"moves" help:"most moves of one job over its life"`
	Settle  sched.Duration `json:"settle" help:"how long a job stays in one place before it may move"`
	Most    int            `json:"most" help:"most jobs moved in one decision"`
	Horizon sched.Duration `json:"horizon" help:"longest wait that a move is assumed to save"`
	Unknown sched.Duration `json:"unknown" help:"assumed run time of a job without an estimate"`
	Rack    float64        `json:"rack" help:"speed of a gang on several nodes of a rack, relative to one node"`
	Cross   float64        `json:"cross" help:"speed of a gang across racks, relative to one node"`
}

// The values of Config.Saves.
const (
	Known = "known"
	All   = "all"
	None  = "none"
)

// Default returns the layer's default settings.
func Default() Config {
	return Config{
		Margin: 2, Restart: sched.Duration(time.Minute), Saves: Known,
		Moves: 3, Settle: sched.Duration(10 * time.Minute), Most: 8,
		Horizon: sched.Duration(6 * time.Hour), Unknown: sched.Duration(time.Hour),
		Rack: 0.85, Cross: 0.65,
	}
}

// longest bounds the knobs that are durations, so that sums of them are safe.
const longest = 365 * 24 * time.Hour

func (c Config) validate() error {
	for _, d := range []struct {
		name  string
		value sched.Duration
	}{{"restart", c.Restart}, {"settle", c.Settle}, {"horizon", c.Horizon}, {"unknown", c.Unknown}} {
		if d.value < 0 || d.value.D() > longest {
			return fmt.Errorf("%s = %s; want 0s to 365d", d.name, d.value)
		}
	}
	switch {
	case !(c.Margin >= 1 && c.Margin <= 1e6):
		return fmt.Errorf("margin = %g; want 1 or more", c.Margin)
	case c.Saves != Known && c.Saves != All && c.Saves != None:
		return fmt.Errorf("saves = %q; want %s, %s or %s", c.Saves, Known, All, None)
	case c.Moves < 0:
		return fmt.Errorf("moves = %d; want 0 or more", c.Moves)
	case c.Most < 0:
		return fmt.Errorf("most = %d; want 0 or more", c.Most)
	case !(c.Cross > 0 && c.Cross <= c.Rack && c.Rack <= 1):
		return fmt.Errorf("rack = %g, cross = %g; want speeds above 0 and up to 1, rack not below cross", c.Rack, c.Cross)
	}
	return nil
}

// New returns the layer.
func New(c Config) (func(sched.Policy) sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return func(inner sched.Policy) sched.Policy { return &layer{Config: c, inner: inner} }, nil
}

type layer struct {
	Config
	inner sched.Policy
	// Caches.
	free    *place.Free
	refused memory // trades that the ledger has lately refused
	skip    memory // gangs for which no better placement was found lately
	least   leastNodes
}

// memory knows until when a job is skipped. It is a cache.
type memory map[sched.JobID]time.Time

func (m *memory) add(id sched.JobID, until time.Time) {
	const most = 10_000
	if *m == nil || len(*m) >= most {
		*m = memory{}
	}
	(*m)[id] = until
}

// Schedule implements sched.Policy.
func (l *layer) Schedule(s *sched.Snapshot) sched.Plan {
	plan := l.inner.Schedule(s)
	if len(plan.Want) != len(s.Jobs) || len(plan.Why) != len(s.Jobs) || l.Most == 0 || l.Moves == 0 {
		return plan // if the lengths differ, the policy has a bug, which Decide reports
	}
	d := decision{layer: l, s: s, plan: &plan}
	gangs, spread := d.waiting(), d.spread()
	if len(gangs) == 0 && len(spread) == 0 {
		return plan
	}
	d.open()
	for _, i := range gangs {
		d.makeRoom(i)
	}
	for _, i := range spread {
		d.moveBack(i)
	}
	if d.gangs > 0 {
		d.soon()
	}
	if d.moved > 0 {
		// Jobs that the policy held back for these may start now.
		plan.WakeBy(s.Now, s.Now.Add(time.Second))
	}
	return plan
}

// decision is the work on one plan.
type decision struct {
	*layer
	s     *sched.Snapshot
	plan  *sched.Plan
	quota place.Quota
	moved int     // jobs
	gangs int     // for which room was sought
	on    [][]int // by node: running jobs that may be moved, by index

	forecast *place.Forecast // nil: not computed yet
}

// open copies what is to be changed: the plan's slices may be the policy's own.
func (d *decision) open() {
	d.plan.Want, d.plan.Why = slices.Clone(d.plan.Want), slices.Clone(d.plan.Why)
	d.free, d.quota = d.free.For(d.s.Cluster), place.NewQuota(d.s)
	for i, j := range d.s.Jobs {
		d.free.Take(j, d.plan.Want[i])
		d.quota.AddMilli(j, d.plan.Want[i].Milli())
	}
	d.on = make([][]int, len(d.s.Cluster.Nodes))
	// By submission, so that the order of the jobs never breaks ties.
	for _, i := range place.OrderBy(d.s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		j := d.s.Jobs[i]
		if d.movable(i) {
			for _, s := range j.Placement {
				d.on[s.Node] = append(d.on[s.Node], i)
			}
		}
	}
}

// soon asks for a decision when the next running job has settled, while a gang
// waits for room.
func (d *decision) soon() {
	var next time.Time
	for i, j := range d.s.Jobs {
		if settled := j.Since.Add(d.Settle.D()); j.Phase == sched.Running && settled.After(d.s.Now) && d.plan.Want[i].Equal(j.Placement) && (next.IsZero() || settled.Before(next)) {
			next = settled
		}
	}
	if !next.IsZero() {
		// In whole minutes, so that many jobs settle at once.
		d.plan.WakeBy(d.s.Now, next.Add(time.Minute-1).Truncate(time.Minute))
	}
}

// movable reports whether a job runs, keeps running in the plan, and may be stopped
// and started elsewhere.
func (d *decision) movable(i int) bool {
	j := d.s.Jobs[i]
	return j.Phase == sched.Running && !j.Pinned() && !j.Screening && j.Moves < d.Moves &&
		d.s.Now.Sub(j.Since) >= d.Settle.D() && !j.Placement.Shared() && d.plan.Want[i].Equal(j.Placement)
}

// cost returns the cost of moving a job, in GPU-seconds.
func (d *decision) cost(i int) float64 {
	j := d.s.Jobs[i]
	lost := time.Duration(0)
	if !d.saves(j) {
		since := j.Since
		if j.Checkpoint.After(since) {
			since = j.Checkpoint
		}
		lost = d.s.Now.Sub(since)
	}
	return (d.Restart.D() + max(0, lost)).Seconds() * float64(j.Placement.GPUs())
}

// saves reports whether a job is assumed to save its work when told to stop.
func (d *decision) saves(j *sched.Job) bool {
	switch d.Saves {
	case All:
		return true
	case None:
		return false
	}
	return j.Perf.Runs() || !j.Checkpoint.IsZero() || j.Elastic()
}

// as returns the job, restricted to its current type of GPU.
func (d *decision) as(j *sched.Job) *sched.Job {
	alias := *j
	alias.GPUTypes = []sched.GPUType{d.s.Cluster.Nodes[j.Placement[0].Node].Type}
	return &alias
}

// pays reports whether a trade is worth its cost.
func (d *decision) pays(cost, gain float64) bool { return gain > d.Margin*cost }

// refuse records a trade that does not pay in the ledger, unless it is there
// already.
func (d *decision) refuse(e sched.LedgerEntry) {
	if d.s.Now.Before(d.refused[e.For]) {
		return
	}
	d.refused.add(e.For, d.s.Now.Add(time.Hour))
	d.record(e)
}

func (d *decision) record(e sched.LedgerEntry) {
	e.Layer = "defrag"
	d.plan.Ledger = append(slices.Clip(d.plan.Ledger), e)
}
