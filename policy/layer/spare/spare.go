// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package spare keeps nodes free to replace ones that fail, where that pays: the layer
// "@spare". A gang that loses a node goes on at once on a spare; without one it stands
// still, with all its GPUs, until a node is repaired or another job ends.
//
// # How many
//
// The price (Case) follows from how often nodes go out of use and for how long
// (Snapshot.Outages, which the driver learns), from the size of the gangs that run, and
// from how soon a node comes free by itself. It is small where many jobs share a cluster,
// and for elastic jobs, which go on without the node: then the layer keeps none. It also
// keeps none that a waiting job needs which could never start beside them, and at most a
// part of the nodes (the knob most).
//
// # Which, and for whom
//
// The layer takes no GPU from a job. It hides whole free nodes from the policy below, with
// placeholder jobs that may not be stopped, as such nodes come free. A gang of a node or
// more that has failed starts again before all others, on GPUs that are free or kept.
// Nobody else gets those that are kept.
package spare

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the layer.
type Config struct {
	Most    float64        `json:"most" help:"largest part of the nodes that is kept free"`
	Unknown sched.Duration `json:"unknown" help:"assumed run time of a running job without an estimate"`
}

// Default returns the layer's default settings.
func Default() Config { return Config{Most: 0.05, Unknown: sched.Duration(time.Hour)} }

// longest bounds the assumed run time.
const longest = 365 * 24 * time.Hour

// New returns the layer.
func New(c Config) (func(sched.Policy) sched.Policy, error) {
	switch {
	case !(c.Most >= 0 && c.Most <= 1):
		return nil, fmt.Errorf("most = %g; want 0 to 1 of the nodes", c.Most)
	case c.Unknown <= 0 || c.Unknown.D() > longest:
		return nil, fmt.Errorf("unknown = %s; want more than 0s, and at most 365d", c.Unknown)
	}
	return func(inner sched.Policy) sched.Policy { return &layer{Config: c, inner: inner} }, nil
}

type layer struct {
	Config
	inner sched.Policy
	free  *place.Free // a cache
}

// Schedule implements sched.Policy.
func (l *layer) Schedule(s *sched.Snapshot) sched.Plan {
	kept := l.keep(s, l.wanted(s))
	if len(kept) == 0 {
		return l.inner.Schedule(s)
	}
	again := l.replace(s)
	jobs := slices.Clone(s.Jobs)
	for i, p := range again {
		jobs[i] = started(s, jobs[i], p)
	}
	kept = slices.DeleteFunc(kept, func(n sched.Slice) bool { return l.free.OnNode(int(n.Node)) != n.GPUs })
	if len(kept) > 0 {
		jobs = append(jobs, placeholder(s, kept))
	}
	plan := l.inner.Schedule(s.With(jobs))
	if len(plan.Want) != len(jobs) || len(plan.Why) != len(jobs) {
		return plan // the policy has a bug, which Decide reports
	}
	n := len(s.Jobs)
	plan.Want, plan.Why = plan.Want[:n], plan.Why[:n]
	if plan.Notes != nil {
		plan.Notes = plan.Notes[:n]
	}
	if plan.Screening != nil {
		plan.Screening = plan.Screening[:n]
	}
	for i := range plan.Why {
		if place.Waits(plan, i) {
			plan.Why[i].Spare = kept.GPUs()
		}
	}
	return plan
}

// wanted returns the number of nodes that it pays to keep free.
func (l *layer) wanted(s *sched.Snapshot) int {
	if !(s.Outages.PerHour > 0) || l.Most == 0 {
		return 0
	}
	ready := 0
	for i := range s.Cluster.Nodes {
		if s.Cluster.Nodes[i].State == sched.Ready {
			ready++
		}
	}
	size := s.Cluster.MaxGPUs()
	most := int(l.Most * float64(ready))
	c := Case{Rate: s.Outages.PerHour, Repair: s.Outages.Repair.D(), GPUs: size}
	held, still := 0.0, 0.0 // GPUs, and the same times those that stand still with them
	ends := 0.0             // of jobs that hold a node, in a second
	used := map[int32]bool{}
	for _, j := range s.Jobs {
		n := j.Placement.GPUs()
		if j.Phase == sched.Pending {
			n = j.StartSize()
			nodes := (n + size - 1) / size
			if nodes <= ready {
				most = min(most, ready-nodes)
			}
			if !l.lost(s, j) {
				continue
			}
			c.Nodes += nodes
		}
		for _, slice := range j.Placement {
			used[slice.Node] = true
		}
		held += float64(n)
		if !j.Elastic() {
			still += float64(n) * float64(n)
		}
		if j.Phase == sched.Running && n >= size {
			ends += 1 / max(1, place.Ends(j, s.Now, l.Unknown.D()).Sub(s.Now).Seconds())
		}
	}
	if most <= 0 || still == 0 {
		return 0
	}
	c.Nodes += len(used)
	c.Gang, c.Wait = still/held, place.Seconds(1/ends)
	return min(most, c.Pays())
}

// lost reports whether a gang of a node or more has failed, and waits.
func (l *layer) lost(s *sched.Snapshot, j *sched.Job) bool {
	return j.Phase == sched.Pending && j.Failures > 0 && j.GPUs >= s.Cluster.MaxGPUs()
}

// keep returns whole free nodes, as many as there are up to a number. It leaves the GPUs
// that nobody holds in l.free.
func (l *layer) keep(s *sched.Snapshot, most int) (kept sched.Placement) {
	if most == 0 {
		return nil
	}
	l.free = l.free.For(s.Cluster)
	for _, j := range s.Jobs {
		l.free.Take(j, j.Placement)
	}
	for i := len(s.Cluster.Nodes) - 1; i >= 0 && len(kept) < most; i-- {
		n := &s.Cluster.Nodes[i]
		if n.State == sched.Ready && n.GPUs == s.Cluster.MaxGPUs() && !n.Dedicated && n.Usable() == l.free.OnNode(i) && n.Usable().Len() == n.GPUs {
			kept = append(kept, sched.Slice{Node: int32(i), Milli: sched.WholeGPU, GPUs: n.Usable()})
		}
	}
	slices.Reverse(kept)
	return kept
}

// placeholder holds the nodes that are kept.
func placeholder(s *sched.Snapshot, kept sched.Placement) *sched.Job {
	const id = "@spare"
	return started(s, &sched.Job{Spec: sched.Spec{ID: id, App: id, GPUs: kept.GPUs(), Submitted: s.Now}, Status: sched.Status{Seq: -1}}, kept)
}

// started returns a job as the policy below sees it once it runs: it may not stop it.
func started(s *sched.Snapshot, j *sched.Job, at sched.Placement) *sched.Job {
	alias := *j
	alias.NonPreemptible, alias.Suspended = true, nil
	alias.Phase, alias.Placement, alias.Starts = sched.Running, at, j.Starts+1
	alias.Since, alias.ReportedAt = s.Now, s.Now
	if alias.FirstStart.IsZero() {
		alias.FirstStart = s.Now
	}
	return &alias
}

// replace finds GPUs for the gangs that have failed, of all that are free: where they start
// again, by job.
func (l *layer) replace(s *sched.Snapshot) map[int]sched.Placement {
	var failed []int
	quota := place.NewQuota(s)
	for i, j := range s.Jobs {
		quota.AddMilli(j, j.Placement.Milli())
		if l.lost(s, j) && j.Ready(s.Now) {
			failed = append(failed, i)
		}
	}
	slices.SortFunc(failed, func(x, y int) int {
		a, b := s.Jobs[x], s.Jobs[y]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since), cmp.Compare(a.Seq, b.Seq))
	})
	out := map[int]sched.Placement{}
	find := place.Skew(place.Consolidated)
	for _, i := range failed {
		j := s.Jobs[i]
		n := j.StartSize()
		if quota.Left(j) < n {
			continue
		}
		if p, ok := find(l.free, j, n); ok {
			quota.Add(j, n)
			out[i] = p
		}
	}
	return out
}
