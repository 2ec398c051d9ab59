// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

const (
	phillyLoad = 0.8
	// maxAttempts bounds the failed attempts of a job: the scheduler gives up.
	maxAttempts = 20
	// biggestBatch bounds a batch to this share of the jobs, so that a short workload
	// is not a single sweep.
	biggestBatch = 0.01
)

// philly draws jobs in batches; the time between batches follows from the GPU time
// that was drawn.
func (g *Gen) philly(wl *sim.Workload) {
	p := newPhillyDraw(g)
	wl.Tenants = p.tenants()
	wl.Work, _ = p.work()
	number(wl, KindPhilly)
}

// work draws the jobs. The second result holds the batch of each.
func (p *phillyDraw) work() ([]sim.Work, []phillyBatch) {
	g := p.g
	work := make([]sim.Work, 0, g.Jobs)
	var batches []phillyBatch
	var batchOf []int // of each job
	for batch := 0; len(work) < g.Jobs; batch++ {
		one := p.batch()
		for range min(p.batchSize(one), g.Jobs-len(work)) {
			work = append(work, p.job(one))
			batches, batchOf = append(batches, one), append(batchOf, batch)
		}
	}
	g.phillyTimes(work, batchOf, g.steadySpan(work, phillyLoad))
	return work, batches
}

// phillyTimes submits the batches by hour, weekday and a factor for each day, and the
// jobs of a batch shortly after each other.
func (g *Gen) phillyTimes(work []sim.Work, batchOf []int, span time.Duration) {
	rnd := g.stream(arrivalStream)
	days := make([]float64, int(span/(24*time.Hour))+1)
	for i := range days {
		days[i] = phillyDays[i%7] * math.Exp(daySigma*rnd.NormFloat64())
	}
	hourly := g.phillyRates(span, days)
	last := -1
	var at time.Duration
	for i := range work {
		if batchOf[i] != last {
			last, at = batchOf[i], hourly[work[i].Tenant].at(rnd.Float64(), span)
		} else {
			gap := batchGap * math.Exp(batchGapSigma*rnd.NormFloat64())
			at += time.Duration(min(gap, 120) * float64(time.Second))
		}
		work[i].Submitted = Epoch.Add(min(at, span).Truncate(time.Second))
	}
}

// phillyRates are the rates at which batches of each virtual cluster arrive, given a
// factor for each day. With Bursts each week of each has a factor of its own.
func (g *Gen) phillyRates(span time.Duration, days []float64) map[sched.TenantID]rate {
	rnd := g.stream(burstStream)
	out := map[sched.TenantID]rate{}
	for vc := range phillyVCs {
		weeks := make([]float64, len(days)/7+1)
		for i := range weeks {
			weeks[i] = math.Exp(g.Bursts * rnd.NormFloat64())
		}
		out[vcName(vc)] = newRate(span, time.Hour, func(at time.Duration) float64 {
			hour := int(at / time.Hour)
			return days[hour/24] * phillyHours[hour%24] * weeks[hour/(24*7)]
		})
	}
	return out
}

// phillyDraw draws the jobs of a Philly workload.
type phillyDraw struct {
	g     *Gen
	rnd   *rand.Rand
	sizes []int     // that the cluster can hold
	cells []float64 // running sum of the weights of virtual cluster x size
	runs  []quantiles
	rank  []blend // by index of phillyRuns
	users [][]float64
	most  int // jobs in a batch

	reasonSums [3][]float64 // running sum by size class
	minutes    []quantiles  // by reason
	rtf        []blend      // by reason
}

// phillyBatch is what the jobs of a batch have in common.
type phillyBatch struct {
	vc, size int // indexes
	gpus     int
	user     string
	model    drawnModel
	z        float64 // normal score of their run times
}

func newPhillyDraw(g *Gen) *phillyDraw {
	p := &phillyDraw{g: g, rnd: g.stream(jobStream), most: max(3, int(biggestBatch*float64(g.Jobs)))}
	for i, gpus := range phillySizes {
		// The smallest size replaces all that do not fit.
		if gpus <= g.MaxGPUs || i == 0 {
			p.sizes = append(p.sizes, gpus)
		}
	}
	p.drawCells()
	for i := range phillyRuns {
		p.runs = append(p.runs, phillyRuns[i].quantiles())
		p.rank = append(p.rank, p.vcBlend(i))
	}
	for i := range phillyVCs {
		p.users = append(p.users, zipfSums(phillyVCs[i].users()))
	}
	for c := range p.reasonSums {
		var sum float64
		for i := range reasons {
			sum += float64(reasons[i].bySize[c]) / reasons[i].perJob()
			p.reasonSums[c] = append(p.reasonSums[c], sum)
		}
	}
	for i := range reasons {
		p.minutes = append(p.minutes, reasons[i].minutes())
		p.rtf = append(p.rtf, reasons[i].sizes())
	}
	return p
}

// drawCells weights every virtual cluster and size by its share of the batches: its
// share of the jobs over the jobs in a batch. A size that the cluster cannot hold
// counts as the largest one that it can.
func (p *phillyDraw) drawCells() {
	var sum float64
	for _, vc := range phillyVCs {
		weights := make([]float64, len(p.sizes))
		for i, share := range vc.mix {
			weights[min(i, len(p.sizes)-1)] += vc.share * share
		}
		for i, w := range weights {
			sizes, most := p.batchSizes(&vc, p.sizes[i])
			sum += w / sizes.wholeMean(most)
			p.cells = append(p.cells, sum)
		}
	}
}

// runIndex returns the run-time table of a size: its own, or the next larger.
func runIndex(gpus int) int {
	i := slices.IndexFunc(phillyRuns[:], func(r phillyRun) bool { return r.gpus >= gpus })
	if i < 0 {
		return len(phillyRuns) - 1
	}
	return i
}

// vcBlend is the mixture of virtual clusters among the jobs of one run-time
// table.
func (p *phillyDraw) vcBlend(run int) blend {
	var b blend
	for _, vc := range phillyVCs {
		var w float64
		for i, share := range vc.mix {
			if runIndex(phillySizes[i]) == run {
				w += vc.share * share
			}
		}
		b.weight = append(b.weight, w)
		b.shift = append(b.shift, vc.shift(phillyRuns[run].gpus))
	}
	return b
}

func (vc *phillyVC) shift(gpus int) float64 {
	if gpus == 1 {
		return vc.one
	}
	return vc.many
}

// users is the number of users of the virtual cluster. Busier ones have more, but
// less than in proportion: a sweep belongs to one user.
func (vc *phillyVC) users() int {
	var all float64
	for _, v := range phillyVCs {
		all += math.Sqrt(v.share)
	}
	return max(3, int(math.Round(phillyUsers*math.Sqrt(vc.share)/all)))
}

func (r *phillyRun) quantiles() quantiles {
	q := make(quantiles, len(runGrid))
	for i, u := range runGrid {
		q[i] = knot{u, r.seconds[i]}
	}
	return q
}

// zipfSums are running sums of 1, 1/2, 1/3, ...: few users submit most jobs.
func zipfSums(n int) []float64 {
	sums := make([]float64, n)
	var sum float64
	for i := range sums {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	return sums
}

func vcName(i int) sched.TenantID { return sched.TenantID(fmt.Sprintf("vc%02d", i+1)) }

// PhillyTenants are the virtual clusters of the trace: each has its part of the GPUs, and
// borrows idle ones.
func PhillyTenants(gpus int) []sched.Tenant {
	var nodes int
	for _, vc := range phillyVCs {
		nodes += vc.nodes
	}
	tenants := make([]sched.Tenant, len(phillyVCs))
	var before, given int
	for i, vc := range phillyVCs {
		before += vc.nodes
		upTo := before * gpus / nodes
		tenants[i] = sched.Tenant{ID: sched.TenantID(vc.name), Quota: upTo - given, Borrow: true}
		given = upTo
	}
	return tenants
}

// tenants are those of the trace by other names.
func (p *phillyDraw) tenants() []sched.Tenant {
	tenants := PhillyTenants(p.g.GPUs)
	for i := range tenants {
		tenants[i].ID = vcName(i)
	}
	return tenants
}

func (p *phillyDraw) batch() phillyBatch {
	cell := pick(p.cells, p.rnd.Float64())
	b := phillyBatch{vc: cell / len(p.sizes), size: cell % len(p.sizes)}
	b.gpus = p.sizes[b.size]
	b.user = fmt.Sprintf("%s-u%02d", vcName(b.vc), 1+pick(p.users[b.vc], p.rnd.Float64()))
	b.model = drawModel(phillyModels[:], p.rnd.Float64())
	b.z = p.rnd.NormFloat64()
	return b
}

// batchSizes is the distribution of the number of jobs in a batch. The trace has no
// batches of many large jobs.
func (p *phillyDraw) batchSizes(vc *phillyVC, gpus int) (sizes quantiles, most int) {
	switch {
	case gpus > 1:
		return phillySingly, min(p.most, max(6, batchGPUs/gpus))
	case vc.sweeps:
		return phillySweeps, p.most
	}
	return phillySingly, p.most
}

func (p *phillyDraw) batchSize(b phillyBatch) int {
	sizes, most := p.batchSizes(&phillyVCs[b.vc], b.gpus)
	return sizes.whole(p.rnd.Float64(), most)
}

func (p *phillyDraw) job(b phillyBatch) sim.Work {
	run := runIndex(b.gpus)
	z := math.Sqrt(batchLikeness)*b.z + math.Sqrt(1-batchLikeness)*p.rnd.NormFloat64()
	u := p.rank[run].rank(z + phillyVCs[b.vc].shift(phillyRuns[run].gpus))
	w := sim.Work{RunTime: p.g.cap(p.runs[run].at(u))}
	w.Tenant, w.User = vcName(b.vc), b.user
	w.GPUs, w.Shareable = b.gpus, true
	w.Model, w.Consolidate = b.model.name, b.model.consolidate && b.gpus > 1
	if p.rnd.Float64() < phillyRuns[run].fails {
		w.Failures = p.failures(b.gpus)
	}
	switch {
	case len(w.Failures) > 0 && p.rnd.Float64() < phillyGivesUp:
		w.Outcome = sched.Failed
		// A job that fails late would have run for at least that long.
		for _, f := range w.Failures {
			w.RunTime = max(w.RunTime, f.After)
		}
	case p.rnd.Float64() < killedLeast+killedMore*math.Pow(u, killedPower):
		w.Outcome = sched.Cancelled
	}
	w.Work = w.RunTime.D().Seconds()
	w.GPUUtil = p.util(b.gpus, w.Outcome)
	return w
}

// failures draws the failed attempts of a job. All of them have one reason, as most
// retries in the trace do.
func (p *phillyDraw) failures(gpus int) []sim.Failure {
	class := sizeClass(gpus)
	i := pick(p.reasonSums[class], p.rnd.Float64())
	again := 1 - 1/reasons[i].perJob()
	var out []sim.Failure
	for {
		u := p.rtf[i].rank(p.rnd.NormFloat64() + rtfShift[class])
		out = append(out, sim.Failure{Reason: reasons[i].name, After: p.g.cap(60 * p.minutes[i].at(u))})
		if len(out) == maxAttempts || p.rnd.Float64() >= again {
			return out
		}
	}
}

// util draws the mean utilisation of a job's GPUs: logit-normal with the mean
// of table 3.
func (p *phillyDraw) util(gpus int, end sched.Phase) float64 {
	mean := paperUtil(gpus, end) / 100
	// This scaling of its median is close to the mean of a logit-normal.
	mu := math.Log(mean/(1-mean)) * math.Sqrt(1+math.Pi*utilSigma*utilSigma/8)
	x := mu + utilSigma*p.rnd.NormFloat64()
	return math.Round(1000/(1+math.Exp(-x))) / 1000
}
