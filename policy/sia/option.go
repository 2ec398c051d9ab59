// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// option is a configuration that a job could have: a number of GPUs of a type.
type option struct {
	gpuType int
	gpus    int
	value   float64 // goodput; finally relative to the job's worst, including restarts
	gain    float64 // how much it reduces the objective compared with no GPUs
}

// job is a job as the policy sees it.
type job struct {
	index int // in Snapshot.Jobs
	*sched.Job
	on      int // type it runs on; -1: it waits
	has     int // GPUs it holds
	options []option
}

func (j *job) pinned() bool { return j.on >= 0 && j.Pinned() }

// loading reports whether the job has just been started and does not train yet.
func (j *job) loading(now time.Time) bool { return j.on >= 0 && j.ReportedAt.After(now) }

// unit returns the GPUs of one replica on a type.
func (j *job) unit(t sched.GPUType) int {
	if j.Perf == nil {
		return j.Task()
	}
	return max(j.Task(), j.Perf.Unit(string(t)))
}

// stays reports whether an option is what the job has.
func (j *job) stays(o option) bool { return o.gpuType == j.on && o.gpus == j.has }

// jobs returns the jobs in order of submission with their options.
func (p *policy) jobs(s *sched.Snapshot) []job {
	shapes := shapesOf(s.Cluster)
	out := make([]job, 0, len(s.Jobs))
	for i, j := range s.Jobs {
		x := job{index: i, Job: j, on: -1}
		if j.Phase == sched.Running {
			x.on, x.has = s.Cluster.TypeOf(int(j.Placement[0].Node)), j.Placement.GPUs()
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b job) int { return cmp.Compare(a.Seq, b.Seq) })
	for k := range out {
		j := &out[k]
		switch {
		case j.pinned():
		case j.loading(s.Now):
			j.options = []option{{gpuType: j.on, gpus: j.has}}
		case j.on >= 0 || j.Ready(s.Now):
			j.options = p.options(s, j, shapes)
		}
	}
	return out
}

// shape describes the nodes of a type.
type shape struct {
	node  int // GPUs of the largest node
	total int
}

func shapesOf(c *sched.Cluster) []shape {
	out := make([]shape, len(c.Types))
	for i, n := range c.Nodes {
		if n.State != sched.Down {
			x := &out[c.TypeOf(i)]
			usable := n.Usable().Len()
			x.node = max(x.node, usable)
			x.total += usable
		}
	}
	return out
}

// sizes calls yield with the sizes of configurations of a type, ascending:
// powers of two within a node, then whole nodes.
func (x shape) sizes(most int, yield func(gpus int)) {
	for n := 1; n < x.node && n <= most; n *= 2 {
		yield(n)
	}
	for n := x.node; n > 0 && n <= min(most, x.total); n += x.node {
		yield(n)
	}
}

// options returns what a job could have, with the gain of each.
func (p *policy) options(s *sched.Snapshot, j *job, shapes []shape) []option {
	var out []option
	for t, x := range shapes {
		if !j.Accepts(s.Cluster.Types[t]) || x.total == 0 {
			continue
		}
		unit := j.unit(s.Cluster.Types[t])
		add := func(gpus int) {
			o := option{gpuType: t, gpus: gpus}
			if j.Fits(gpus) && gpus%unit == 0 && p.free.EverOn(t, j.Job, gpus, sched.CrossRack) >= gpus {
				o.value = p.goodput(j, o, s.Cluster.Types, shapes)
				if o.value > 0 {
					out = append(out, o)
				}
			}
		}
		if !j.Elastic() {
			add(j.GPUs)
			continue
		}
		x.sizes(min(j.MaxGPUs, j.most(unit)), add)
		if n := j.smallest(unit); !slices.ContainsFunc(out, func(o option) bool { return o.gpuType == t }) {
			add(n)
		}
		if j.on == t && !slices.ContainsFunc(out, j.stays) {
			add(j.has)
		}
	}
	p.worth(s, j, out)
	// Among equals, a job keeps what it has.
	if k := slices.IndexFunc(out, j.stays); k > 0 {
		out[0], out[k] = out[k], out[0]
	}
	return slices.DeleteFunc(out, func(o option) bool { return !(o.gain > 0) })
}

// most is the growth cap of an elastic job on a type, given the GPUs of a replica there.
func (j *job) most(unit int) int {
	most := max(1, 2*j.MostGPUs)
	if j.Perf != nil && j.Perf.MostGPUs > 0 {
		most = j.Perf.MostGPUs
		if len(j.Perf.Units) > 0 {
			most *= unit
		}
	}
	return max(most, j.has, j.smallest(unit))
}

// smallest returns the smallest size of an elastic job on a type.
func (j *job) smallest(unit int) int {
	n := smallest(j.Job)
	for n%unit != 0 && n < j.GPUs {
		n++
	}
	return n
}

// smallest returns the smallest size of an elastic job.
func smallest(j *sched.Job) int {
	for n := max(1, j.MinGPUs); n < j.GPUs; n++ {
		if j.Fits(n) && n%j.Task() == 0 {
			return n
		}
	}
	return j.GPUs
}

// The largest entry and the resolution of the program's matrix, as in the authors'
// code.
const (
	mostCost = 3000
	grain    = 100
)

// worth turns goodputs into gains: relative to the job's worst option, times the
// restart factor if its GPUs would change, to the power p.
func (p *policy) worth(s *sched.Snapshot, j *job, options []option) {
	least := math.Inf(1)
	for _, o := range options {
		least = min(least, o.value)
	}
	factor := 1.0
	age, cost := j.Age(s.Now).Seconds(), p.Restart.D().Seconds()
	if j.Perf != nil && j.Perf.Restart > 0 {
		cost = j.Perf.Restart
	}
	if j.on >= 0 {
		factor = max(0, (age-float64(j.Restarts())*cost)/max(1e-9, age+cost))
	}
	for i := range options {
		o := &options[i]
		o.value /= least
		if !j.stays(*o) {
			o.value *= factor
		}
		if o.value > 0 {
			o.gain = p.Lambda - min(mostCost, math.Round(math.Pow(o.value, p.P)*grain)/grain)
		}
		// A running job is not stopped for nothing: what it has is worth something
		// whatever its size.
		if j.stays(*o) {
			o.gain = max(o.gain, 1e-6)
		}
	}
}

// why says why a job does not run.
func why(f *place.Free, q place.Quota, s *sched.Snapshot, j *sched.Job) sched.Reason {
	n := j.GPUs
	if j.Elastic() {
		n = smallest(j)
	}
	switch {
	case j.Phase == sched.Pending && !j.Ready(s.Now):
		return sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
	case q.Left(j) < n:
		return q.Why(j, n)
	}
	r := f.Why(j, n, sched.CrossRack)
	if r.Code == sched.Full {
		r.Code = sched.Behind
	}
	return r
}
