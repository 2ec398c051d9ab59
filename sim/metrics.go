// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/num"
)

// finish turns the records into a result.
func (r *run) finish(w *Workload) *Result {
	r.record.sample(r)
	res := &Result{
		Summary: Summary{
			Policy: r.Name, Oracle: r.isOracle(), Estimates: r.Estimates, Optimistic: r.Optimistic, Workload: w.Name, Seed: r.Seed,
			Jobs: len(r.jobs), Decisions: r.decisions, LostGPUs: r.record.lostGPU,
		},
		Cluster: ClusterShape{
			Nodes: len(r.Cluster.Nodes), GPUs: r.Cluster.GPUs(), Racks: len(r.Cluster.Racks), Types: r.Cluster.Types,
		},
		Jobs:   r.record.jobs,
		Series: r.record.series,
	}
	for i, j := range r.jobs {
		if j.state != nil && !j.state.Phase.Ended() {
			r.cutOff(&res.Jobs[i], j)
		}
		if a := r.record.apps[res.Jobs[i].App]; a.ended == a.jobs {
			res.Jobs[i].Rho, res.Jobs[i].PaperRho = a.rho, a.paper
		}
	}
	res.summarise(r)
	return res
}

// cutOff records a job that has not ended when the run does.
func (r *run) cutOff(res *JobResult, j *job) {
	now := r.start.Add(r.now)
	r.record.status(res, j.state)
	res.GPUSeconds = j.state.AttainedBy(now)
	res.Queued, res.Ran = j.state.WaitedBy(now).Seconds(), j.state.RanBy(now).Seconds()
	if n := len(res.Runs); n > 0 && res.Runs[n-1].End < 0 {
		res.Runs[n-1].End = r.now.Seconds()
	}
	if res.Start < 0 {
		j.wait(r.now, sched.Ok)
		res.Wait, res.WaitFor = r.now.Seconds()-res.Submit, j.cause()
	}
}

// Summarise sums the jobs; end is when the run ended, in seconds. The caller adds
// what needs more than the jobs (fairness, delays, GPU utilisation).
func (res *Result) Summarise(end float64) {
	first, last := math.Inf(1), 0.0
	for i := range res.Jobs {
		j := &res.Jobs[i]
		first = min(first, j.Submit)
		res.GPUSeconds += j.GPUSeconds
		res.Restarts += j.Restarts
		res.Preempted += j.Preemptions
		res.Moved += j.Moves
		res.Failures += j.Failures
		switch {
		case j.End < 0:
			res.Unfinished++
			continue
		case j.Outcome == sched.Failed:
			res.Failed++
			res.Failures++ // the last attempt is the end of the job
		default:
			res.Finished++
		}
		last = max(last, j.End)
	}
	res.average(func(*JobResult) bool { return true })
	if res.Unfinished == 0 {
		end = last
	}
	if capacity := float64(res.Cluster.GPUs) * (end - first); capacity > 0 {
		res.Allocation = res.GPUSeconds / capacity
	}
}

// average computes times over the jobs that count: waits of those that started, and
// the rest of those that ended.
func (res *Result) average(counts func(*JobResult) bool) {
	var jct, wait []float64
	first, last := math.Inf(1), 0.0
	for i := range res.Jobs {
		j := &res.Jobs[i]
		if !counts(j) {
			continue
		}
		first = min(first, j.Submit)
		if j.Start >= 0 {
			wait = append(wait, j.Wait)
		}
		if j.End >= 0 {
			last = max(last, j.End)
			jct = append(jct, j.JCT)
		}
	}
	res.AvgJCT, res.P50JCT, res.P90JCT, res.P99JCT = num.Mean(jct), num.Quantile(jct, 0.5), num.Quantile(jct, 0.9), num.Quantile(jct, 0.99)
	res.AvgWait, res.P50Wait, res.P90Wait, res.P99Wait = num.Mean(wait), num.Quantile(wait, 0.5), num.Quantile(wait, 0.9), num.Quantile(wait, 0.99)
	if last > 0 {
		res.Makespan = last - first
	}
}

// AverageAlike makes the times of several runs of the same jobs comparable: they are
// averaged over the jobs that ended in every run. It returns how many did not.
func AverageAlike(runs ...*Result) (left int) {
	ended := map[sched.JobID]int{}
	for _, res := range runs {
		for i := range res.Jobs {
			if res.Jobs[i].End >= 0 {
				ended[res.Jobs[i].ID]++
			}
		}
	}
	for _, res := range runs {
		left = 0
		res.average(func(j *JobResult) bool {
			if ended[j.ID] == len(runs) {
				return true
			}
			left++
			return false
		})
		res.Averaged = len(res.Jobs) - left
	}
	return left
}

func (res *Result) summarise(r *run) {
	res.Summarise(r.now.Seconds())
	r.record.usage.summarise(r, &res.Summary)
	var rho, paper []float64
	for _, id := range r.record.appIDs {
		if a := r.record.apps[id]; a.ended == a.jobs && a.rho > 0 {
			rho, paper = append(rho, a.rho), append(paper, a.paper)
		}
	}
	res.AvgRho, res.P99Rho, res.MaxRho, res.JainRho = num.Mean(rho), num.Quantile(rho, 0.99), num.Quantile(rho, 1), jain(rho)
	res.AvgPaperRho, res.MaxPaperRho = num.Mean(paper), num.Quantile(paper, 1)
	res.Delays = r.delays()
}

// jain is Jain's fairness index: 1 when all are equal, 1/n when one has all.
func jain(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}

// sizeBuckets are the classes of job size in the Philly paper.
var sizeBuckets = []struct {
	name string
	most int
}{{"1", 1}, {"2-4", 4}, {"5-8", 8}, {">8", math.MaxInt}}

func bucketOf(gpus int) int {
	for i, b := range sizeBuckets {
		if gpus <= b.most {
			return i
		}
	}
	return len(sizeBuckets) - 1
}

// delays counts the causes of waiting for jobs of each size, the longest first.
func (r *run) delays() []Delay {
	out := []Delay{}
	for b, bucket := range sizeBuckets {
		of := make([]Delay, len(sched.Codes()))
		for i, j := range r.jobs {
			if bucketOf(j.work.GPUs) != b {
				continue
			}
			for c := range of {
				of[c].Time += j.waits[c].Seconds()
			}
			if why := r.record.jobs[i].WaitFor; why != sched.Ok {
				of[why].Jobs++
				of[why].Wait += r.record.jobs[i].Wait
			}
		}
		for c := range of {
			of[c].Size, of[c].Cause = bucket.name, sched.Code(c).String()
			if of[c].Jobs > 0 {
				of[c].Wait /= float64(of[c].Jobs)
			}
		}
		of = slices.DeleteFunc(of[1:], func(d Delay) bool { return d.Jobs == 0 && d.Time == 0 })
		slices.SortStableFunc(of, func(a, b Delay) int { return cmp.Compare(b.Time, a.Time) })
		out = append(out, of...)
	}
	return out
}

// timing summarises what the stopwatch measured.
func (r *run) timing() Timing {
	if r.Elapsed == nil {
		return Timing{}
	}
	return Timing{
		DecideP50: 1e3 * num.Quantile(r.spent, 0.5),
		DecideP99: 1e3 * num.Quantile(r.spent, 0.99),
		Wall:      r.Elapsed().Seconds(),
	}
}
