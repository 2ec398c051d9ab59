// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"math"
	"sort"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/fairness"
)

// restartCost is the assumed cost of a start, in seconds: 5 to 10 for a checkpoint
// and 35 to 50 for new containers, as Themis measured.
const restartCost = 50

// alone returns what finish-time fairness needs to know about an app. Its life is
// assumed to last as long as the rest needs on its share.
func (r *round) alone(a *app, jobs []fairness.Job) fairness.App {
	now := float64(len(r.apps))
	work := 0.0
	for _, j := range jobs {
		work += j.Seconds * float64(j.GPUs)
	}
	return fairness.App{
		Elapsed: a.elapsed, Mean: max(1, r.s.Contention(a.App)), Now: now,
		Left: max(a.left/min(float64(a.most), r.gpus/now), a.longest),
		GPUs: int(r.gpus), Jobs: jobs, Others: max(0, a.total-work), Most: a.mostEver,
	}
}

// idealOf returns how long an app would take alone.
func (r *round) idealOf(f fairness.App) float64 {
	if r.Ideal == Paper {
		f.Left = 0 // the number of apps so far
		return f.PaperAlone()
	}
	return f.Alone()
}

// power is the value of GPUs to an app.
type power struct {
	speed float64 // their number, less what is lost by their distance and less those it cannot use
	gangs int     // jobs that run on them
}

// power returns the value of GPUs, by node, to an app.
func (r *round) power(a *app, shares []auction.Share) power {
	rest := r.rest[:0]
	for _, s := range shares {
		rest = append(rest, s.GPUs)
	}
	r.rest = rest
	var out power
	for _, g := range a.groups {
		count := g.count
		for i, s := range shares {
			k := min(rest[i]/g.size, count)
			if k > 0 {
				out.speed += float64(k*g.size) / g.slow[r.within(s.Machine, g.size)]
				out.gangs += k
				rest[i] -= k * g.size
				count -= k
			}
		}
		if count > 0 && g.size > 1 && (g.widest == sched.NoLevel || g.widest > sched.SameMachine) {
			more := r.spread(shares, rest, g, count)
			out.speed += more.speed
			out.gangs += more.gangs
		}
	}
	if a.stretch > 0 {
		extra := 0
		for _, n := range rest {
			extra += n
		}
		out.speed += float64(min(extra, a.stretch))
	}
	return out
}

// within returns the level of a gang that fits on a node.
func (r *round) within(node, size int) sched.Level {
	islands := r.s.Cluster.Nodes[node].Islands
	if len(islands) == 0 || size == 1 {
		return sched.SameSlot
	}
	for _, island := range islands {
		if island.Len() >= size {
			return sched.SameSlot
		}
	}
	return sched.SameMachine
}

// spread forms gangs from what is left on several nodes, first within racks.
func (r *round) spread(shares []auction.Share, rest []int, g group, count int) power {
	var out power
	over, first := 0, 0
	usable := func(i int) int { return rest[i] - rest[i]%g.task }
	take := func(from, to, n int) {
		for i := from; i < to && n > 0; i++ {
			k := min(usable(i), n)
			rest[i] -= k
			n -= k
		}
	}
	// Shares are by node, and the nodes of a rack mostly follow each other.
	for first < len(shares) && count > 0 {
		rack, end, have := r.s.Cluster.RackOf(shares[first].Machine), first, 0
		for end < len(shares) && r.s.Cluster.RackOf(shares[end].Machine) == rack {
			have += usable(end)
			end++
		}
		if k := min(have/g.size, count); k > 0 && r.bears(g, sched.SameRack) {
			out.speed += float64(k*g.size) / r.slow(g, sched.SameRack)
			out.gangs += k
			take(first, end, k*g.size)
			count -= k
			have -= k * g.size
		}
		over += have
		first = end
	}
	if k := min(over/g.size, count); k > 0 && r.bears(g, sched.CrossRack) {
		out.speed += float64(k*g.size) / r.slow(g, sched.CrossRack)
		out.gangs += k
		take(0, len(shares), k*g.size)
	}
	return out
}

// slow returns the slowdown of a gang at a level, relative to the best placement it
// can have: a gang larger than every node cannot be on one.
func (r *round) slow(g group, level sched.Level) float64 {
	if g.size > r.s.Cluster.MaxGPUs() {
		return max(1, g.slow[level]/g.slow[sched.SameRack])
	}
	return g.slow[level]
}

// bears reports whether a gang may be spread as far as a level.
func (r *round) bears(g group, level sched.Level) bool {
	if g.widest != sched.NoLevel && level > g.widest {
		return false
	}
	return g.size > r.s.Cluster.MaxGPUs() || g.slow[level] <= r.Slowdown
}

// rho is finish-time fairness if the app keeps its GPUs to the end. fresh is the
// number of GPUs on which something has to start first.
func (r *round) rho(a *app, p power, fresh int) float64 {
	end := a.span(p) + float64(fresh)*restartCost/max(1, p.speed)
	if p.speed <= 0 {
		// It waits for a lease and then has its share. But having no GPUs must not
		// look better than having few, which are assumed to last for ever: so it
		// counts as half a gang at most.
		end = max(r.lease+a.span(r.fair(a)), 2*a.left/float64(a.groups[0].size))
	}
	return r.blur((a.elapsed + end) / a.ideal)
}

// span returns how long the jobs of an app take with some power. No schedule is
// shorter than the work over the speed, than the longest job, or than jobs that
// must run one after the other: of the q*k+1 longest on k places, some q+1 must. The
// stages of a search follow each other.
func (a *app) span(p power) float64 {
	if a.halving != nil {
		return a.halving.Shared(0, a.gangGPUs*float64(p.gangs)/p.speed, p.gangs)
	}
	end := max(a.left/p.speed, a.lengths[0])
	if k := p.gangs; k > 0 && k < len(a.lengths) {
		end = max(end, a.lengths[k-1]+a.lengths[k])
		for q := 2; q*k < len(a.lengths); q++ {
			end = max(end, float64(q+1)*a.lengths[q*k])
		}
	}
	return end
}

// fair returns the power of an app's share, well placed.
func (r *round) fair(a *app) power { return a.powerOf(min(float64(a.most), a.share)) }

// powerOf returns the power of a number of GPUs, well placed.
func (a *app) powerOf(gpus float64) power {
	jobs := len(a.lengths)
	return power{gpus, min(jobs, max(1, int(gpus*float64(jobs)/float64(a.mostAsked))))}
}

// expect returns the rho if the app has some power for one lease and then its
// share, if that is more. waiting is the time that the longest job without GPUs
// needs. The paper assumes that the app keeps its GPUs to the end.
func (r *round) expect(a *app, p power, waiting float64) float64 {
	if r.Forecast == Paper {
		if p.speed <= 0 {
			return maxRho
		}
		return r.blur((a.elapsed + a.span(p)) / a.ideal)
	}
	later := r.fair(a)
	later.speed, later.gangs = max(later.speed, p.speed), max(later.gangs, p.gangs)
	end := a.span(later)
	if waiting > 0 {
		end = max(end, r.lease+waiting)
	}
	if p.speed*r.lease < a.left {
		end = max(end, r.lease+(a.left-p.speed*r.lease)/later.speed)
	}
	return r.blur((a.elapsed + end) / a.ideal)
}

// need returns how many GPUs an app needs to end in time: rho = 1, or as soon after
// that as it can. Elastic jobs that are late may claim what they asked for, or their
// share, but not all that they could use.
func (a *app) need() int {
	most := min(a.most, max(a.mostAsked, int(math.Ceil(a.share))))
	end := max(a.ideal-a.elapsed, a.span(a.powerOf(float64(most)))*inTime)
	return sort.Search(most, func(n int) bool { return n > 0 && a.span(a.powerOf(float64(n))) <= end })
}

// inTime is how much later than the earliest possible end a late app may end.
const inTime = 1.02

func clamp(rho float64) float64 {
	if math.IsNaN(rho) {
		return auction.MaxRho
	}
	return min(max(rho, auction.MinRho), auction.MaxRho)
}
