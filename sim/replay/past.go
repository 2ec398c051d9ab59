// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// Options says how to replay a journal.
type Options struct {
	Name    string         // of the workload
	Cluster *sched.Cluster // nil: the journal's own
}

// Past is a journal as a workload for the simulator.
type Past struct {
	Workload sim.Workload
	Cluster  *sched.Cluster // to run it on
	// Models are the models that the workload's jobs name: they say how long restarts
	// take, and how fast jobs whose agents have reported are on other GPUs. The zoo
	// of the simulation needs them; see AddModels.
	Models []*zoo.Model
	Was    *sim.Result // what really happened to these jobs
	Notes  []Note
}

// NewPast turns a journal into a workload.
//
// A job's length is the time for which it held GPUs, without repeated work, at the
// size it asked for: scaled in proportion to the GPUs, or by its agent's last report.
// A job whose agent reported its speed on every GPU type of the cluster trains by
// that model.
func NewPast(records []api.Record, o Options) (*Past, error) {
	records, err := straighten(records)
	if err != nil {
		return nil, fmt.Errorf("replay journal: %w", err)
	}
	c, err := read(records)
	if err != nil {
		return nil, fmt.Errorf("replay journal: %w", err)
	}
	p := &Past{Workload: sim.Workload{Name: o.Name, Source: "the journal of a daemon", Tenants: c.tenants}, Cluster: o.Cluster}
	if p.Cluster == nil {
		if p.Cluster, err = c.cluster(); err != nil {
			return nil, fmt.Errorf("replay journal: %w", err)
		}
	}
	m := newModels(p.Cluster, c)
	var included []*jobHistory
	for _, s := range c.jobs {
		if w, ok := c.work(s, m); ok {
			p.Workload.Work = append(p.Workload.Work, w)
			included = append(included, s)
		}
	}
	if len(included) == 0 {
		return nil, fmt.Errorf("replay journal: none of the %d jobs in %d records ran", len(c.jobs), len(records))
	}
	p.Workload.Start = p.Workload.Work[0].Submitted
	p.Models = m.list
	p.Was = c.recorded(p, included)
	if c.policies > 0 {
		c.notes.add(fmt.Sprintf("the policy changed %d times", c.policies), "")
	}
	p.Notes = append(c.notes.list, m.notes.list...)
	return p, nil
}

// cluster returns the nodes of the journal that are not down, all ready.
func (c *history) cluster() (*sched.Cluster, error) {
	var nodes []sched.Node
	for _, n := range c.nodes {
		switch n.State {
		case sched.Down:
			continue
		case sched.Cordoned:
			c.notes.add("node is cordoned: the replay uses it", sched.JobID(n.Name))
		}
		n.State = sched.Ready
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("every node of the journal is down; want a cluster to replay on")
	}
	return sched.NewCluster(nodes)
}

// work returns a job with the truth about it; ok is false if that is unknown.
func (c *history) work(s *jobHistory, m *models) (sim.Work, bool) {
	w := sim.Work{Spec: s.spec, Failures: s.failures}
	id := s.spec.ID
	if s.can >= sched.Saves {
		w.Protected = false
	}
	if s.can == sched.Saves {
		w.MinGPUs, w.MaxGPUs, w.Sizes = 0, 0, nil
	}
	if s.paused {
		c.notes.add("was paused: the replay does not pause it", id)
	}
	if s.lost {
		c.notes.add("lost work when it was stopped: the replay charges a restart instead", id)
	}
	ran := s.seconds(c.widest())
	scale := 1.0 // work of the whole job relative to that of its pieces
	switch s.phase {
	case sched.Finished:
	case sched.Cancelled:
		w.Outcome = sched.Cancelled
		if len(s.runs) == 0 {
			c.notes.add("was cancelled before it ran: left out", id)
			return w, false
		}
	case sched.Failed:
		w.Outcome = sched.Failed
		// Its work must last until it fails, however many GPUs it has.
		most := float64(max(s.spec.GPUs, s.spec.MaxGPUs)) / float64(s.spec.GPUs)
		ran = 1.01*most*longest(s.failures).Seconds() + 1
	default:
		var ok bool
		if ran, scale, ok = c.unfinished(s, ran); !ok {
			return w, false
		}
	}
	if s.spec.Estimate == 0 {
		c.notes.add("has no estimate: in the replay, policies get one as --estimates says", id)
	}
	if s.phase != sched.Failed {
		less := s.withoutLaunches(ran, m)
		scale *= less / max(ran, 1e-9)
		ran = less
	}
	w.RunTime = seconds(ran)
	m.describe(s, &w, scale)
	return w, true
}

// withoutLaunches subtracts the restarts from a run time, because the simulator adds
// them again: the launch after each stop, and the whole restart after the last
// failure; those between failures are part of the failed attempts.
func (s *jobHistory) withoutLaunches(ran float64, m *models) float64 {
	less := ran - float64(s.preempts+s.moves)*m.launch
	if len(s.failures) > 0 {
		less -= m.cost()
	}
	const least = 0.1 // the correction must not make a job vanish
	return max(less, least*ran)
}

// unfinished estimates the length of a job that has not ended.
func (c *history) unfinished(s *jobHistory, ran float64) (total, scale float64, ok bool) {
	whole := s.spec.Work
	if whole == 0 {
		whole = s.whole
	}
	estimate := s.spec.Estimate.D().Seconds()
	switch {
	case whole > 0 && s.done > 0 && ran > 0:
		scale = max(1, whole/s.done)
		c.notes.add("has not ended: its length follows from the work it reported", s.spec.ID)
		return ran * scale, scale, true
	case estimate > ran:
		c.notes.add("has not ended: its length is its user's estimate", s.spec.ID)
		return estimate, estimate / max(ran, 1e-3), true
	case ran > 0:
		c.notes.add("has not ended: the replay ends it where the journal ends", s.spec.ID)
		return ran, 1, true
	}
	c.notes.add("has not run, and its length is unknown: left out", s.spec.ID)
	return 0, 0, false
}

// seconds returns the run time that was not lost, at the size the job asked for.
// widest is the number of GPUs of the largest node.
func (s *jobHistory) seconds(widest int) float64 {
	asked := goodput.Shape{Nodes: 1, GPUs: s.spec.GPUs}
	if widest > 0 {
		asked.Nodes = (s.spec.GPUs + widest - 1) / widest
	}
	sum := 0.0
	for _, p := range s.pieces {
		speed := float64(p.shape.GPUs) / float64(s.spec.GPUs)
		if s.perf != nil && p.shape != asked {
			_, then, _ := s.perf.Goodput(string(p.gpuType), p.shape)
			_, well, _ := s.perf.Goodput(string(p.gpuType), asked)
			if then > 0 && well > 0 {
				speed = then / well
			}
		}
		sum += speed * p.wall.Seconds()
	}
	return sum
}

func (c *history) widest() int {
	widest := 0
	for _, n := range c.nodes {
		widest = max(widest, n.GPUs)
	}
	return widest
}

func longest(failures []sim.Failure) time.Duration {
	var most time.Duration
	for _, f := range failures {
		most = max(most, f.After.D())
	}
	return most
}

// seconds returns a run time that the simulator accepts: above 0, below a century.
func seconds(s float64) sched.Duration {
	const shortest, most = 1e-3, 100 * 365 * 24 * 3600
	if math.IsNaN(s) {
		s = shortest
	}
	return sched.Duration(min(max(s, shortest), most) * 1e9)
}
