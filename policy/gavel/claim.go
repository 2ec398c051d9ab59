// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
)

// maxTypes is the number of GPU types that the linear program considers.
const maxTypes = 8

// claim is a job as the policy sees it.
type claim struct {
	job   int // index in Snapshot.Jobs
	rank  int // number of jobs submitted before it
	j     *sched.Job
	scale int               // GPUs
	share float64           // of its tenant, by weight
	speed speeds            // by type, relative to the first type it can run on
	first float64           // speed on that type, in steps a second
	time  [maxTypes]float64 // the allocation: share of its time on each type
	gain  [maxTypes]float64 // what all its time on each type is worth, if the goal is a sum
	got   received          // time so far on each type
	on    int               // type it runs on; -1: it waits

	// Of jobs that may share; got is then the time that was allocated to it alone.
	seats   bool     // it may share
	shared  received // shared time so far on each type
	partner int      // the claim it shares with now; -1: none
}

// speeds are throughputs by GPU type; 0: the job cannot run there.
type speeds [maxTypes]float64

// claims returns the jobs of a snapshot in order of submission, without those
// that may not start or that no type can host.
func (p *policy) claims(s *sched.Snapshot) []claim {
	types := min(len(s.Cluster.Types), maxTypes)
	out := slices.Grow(p.memory.claims[:0], len(s.Jobs))[:len(s.Jobs)]
	p.memory.claims = out
	clear(out)
	shares := s.Shares()
	for k, i := range place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		c, j := &out[k], s.Jobs[i]
		c.job, c.j, c.scale, c.on, c.got = i, j, j.GPUs, -1, unpack(j.Note.Count, types)
		c.share = 1
		if t, ok := s.Tenant(j); ok {
			c.share = shares[t]
		}
		if j.Phase == sched.Running {
			c.scale = j.Placement.GPUs()
			c.on = s.Cluster.TypeOf(int(j.Placement[0].Node))
		}
	}
	p.findPartners(s, out)
	for k := range out {
		out[k].rank = k
		if p.Sharing > 0 {
			out[k].shared = unpack(out[k].j.Note.Level, types)
		}
		out[k].speed = p.speeds(&out[k], s.Cluster.Types[:types])
	}
	return out
}

// speeds returns the throughput of a job on every type, relative to the first it
// can run on. Measured steps at its size count; a type without any is assumed to be
// as much faster than one with as in the trials at submission. A type with no data
// is as fast as the first.
func (p *policy) speeds(c *claim, types []sched.GPUType) speeds {
	var out, tried speeds
	var hosted [maxTypes]bool
	for t, gpuType := range types {
		// GPUs of that type could hold it if nothing else ran.
		hosted[t] = c.j.Accepts(gpuType) && p.free.EverOn(t, c.j, c.scale, sched.CrossRack) >= c.scale
		if hosted[t] && c.j.Perf != nil {
			out[t] = rate(c.j.Perf, gpuType, c.scale)
			tried[t] = rate(c.j.Perf, gpuType, trialSize(c.j.Perf, gpuType))
		}
	}
	if c.j.Perf != nil {
		extrapolate(&out, tried)
	}
	first := 0.0
	for t := range types {
		if first == 0 {
			first = out[t]
		}
	}
	c.first = cmp.Or(first, 1)
	for t := range types {
		switch {
		case hosted[t] && out[t] > 0 && p.Goal == Throughput:
			out[t] /= first
		case hosted[t] && out[t] > 0:
			out[t] = rounded(out[t] / first)
		case hosted[t]:
			out[t] = 1
		}
	}
	return out
}

// extrapolate fills in the types on which the job was only tried, by the mean
// factor between its size and a trial on the others.
func extrapolate(out *speeds, tried speeds) {
	sum, n := 0.0, 0.0
	for t := range out {
		if out[t] > 0 && tried[t] > 0 {
			sum += math.Log(out[t] / tried[t])
			n++
		}
	}
	scale := math.Exp(sum / max(1, n))
	for t := range out {
		if out[t] == 0 {
			out[t] = tried[t] * scale
		}
	}
}

// rounded rounds a speed to two digits, so that similar jobs compare equal.
func rounded(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 0
	}
	step := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(x/step) * step
}

// rate returns the fastest measured step on a number of GPUs of a type, in steps
// per second; 0: none was measured.
func rate(r *goodput.Report, t sched.GPUType, gpus int) float64 {
	best := 0.0
	for _, s := range r.StepTimes {
		if s.Type == string(t) && s.GPUs == gpus && s.Time > 0 {
			best = max(best, 1/s.Time)
		}
	}
	return best
}

// trialSize returns the smallest number of GPUs of a type that was measured.
func trialSize(r *goodput.Report, t sched.GPUType) int {
	least := 0
	for _, s := range r.StepTimes {
		if s.Type == string(t) && (least == 0 || s.GPUs < least) {
			least = s.GPUs
		}
	}
	return least
}

// only returns the job as if it accepted a single type.
func (c *claim) only(t sched.GPUType) sched.Job {
	j := *c.j
	j.GPUTypes = []sched.GPUType{t}
	return j
}

// left returns the remaining run time on the first type, in seconds, and the run
// time so far. A job without an estimate is assumed to be half done.
func (c *claim) left(now time.Time) (left, done float64) {
	if d, ok := c.j.Remaining(now); ok {
		left = max(1, d.Seconds())
		return left, max(0, c.j.Estimate.D().Seconds()-left)
	}
	ran := c.j.RanBy(now).Seconds()
	return max(60, ran), ran
}

// gpus returns the number of GPUs of every type on nodes that take new work.
func gpus(free *place.Free) []float64 {
	out := make([]float64, min(len(free.Cluster().Types), maxTypes))
	for t := range out {
		out[t] = float64(free.OfType(t))
	}
	return out
}
