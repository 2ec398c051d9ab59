// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Causes counts waits by their main cause, as the study distinguishes them.
type Causes struct{ FairShare, Fragments int }

// All is their number.
func (c Causes) All() int { return c.FairShare + c.Fragments }

// Share is the part that fragmentation has, 0 if there are none.
func (c Causes) Share() float64 { return float64(c.Fragments) / float64(max(1, c.All())) }

// ranEnough reports whether a job counts in the study's table: it ran for a minute.
func ranEnough(j *sim.JobResult) bool { return j.Ran >= 60 }

// Causes counts the jobs of a size that waited for their first start by the reason that
// the policy gave for most of it. It says "over quota" only if fewer GPUs are idle than
// the job needs: a job that may borrow is not held up by its quota.
func (r PhillyRun) Causes(least, most int) (c Causes) {
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		if j.GPUs < least || j.GPUs > most || !ranEnough(j) {
			continue
		}
		switch j.WaitFor {
		case sched.OverQuota:
			c.FairShare++
		case sched.Fragmented, sched.Full:
			c.Fragments++
		}
	}
	return c
}

// shortest is the shortest wait that byQuota counts: less may be due to the time between
// decisions.
const shortest = 2 * decideEvery

// byQuota counts every wait of gangs of a size, before the first start, after a failed
// attempt and after a preemption, as a log shows it: a wait is for fair share if, for most
// of it, the virtual cluster's quota did not cover the gang beside the jobs that ran, even
// if there were GPUs to borrow. The back-off after a failure is no wait.
func (r PhillyRun) byQuota(use map[sched.TenantID]steps, least, most int) (c Causes) {
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		if j.GPUs < least || j.GPUs > most || !ranEnough(j) {
			continue
		}
		from, pause := j.Submit, time.Duration(0)
		for _, run := range j.Runs {
			if length := run.Start - from - pause.Seconds(); length > shortest.Seconds() {
				if over := use[j.Tenant].above(r.Quota[j.Tenant]-j.GPUs, from, run.Start); over > (run.Start-from)/2 {
					c.FairShare++
				} else {
					c.Fragments++
				}
			}
			from, pause = run.End, retryAfter
		}
	}
	return c
}

// steps is a number that changes in time: from at[i] on it is n[i].
type steps struct {
	at []float64
	n  []int
}

// use returns the GPUs on which the jobs of each tenant ran.
func (r PhillyRun) use() map[sched.TenantID]steps {
	type change struct {
		at float64
		by int
	}
	changes := map[sched.TenantID][]change{}
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		for _, run := range j.Runs {
			changes[j.Tenant] = append(changes[j.Tenant], change{run.Start, run.GPUs}, change{run.End, -run.GPUs})
		}
	}
	out := map[sched.TenantID]steps{}
	for tenant, list := range changes {
		slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		var s steps
		sum := 0
		for _, ch := range list {
			sum += ch.by
			if last := len(s.at) - 1; last >= 0 && s.at[last] == ch.at {
				s.n[last] = sum
				continue
			}
			s.at, s.n = append(s.at, ch.at), append(s.n, sum)
		}
		out[tenant] = s
	}
	return out
}

// above returns for how long the number was above a bound between two times.
func (s steps) above(bound int, from, to float64) float64 {
	i, found := slices.BinarySearch(s.at, from)
	if !found {
		i-- // the step before
	}
	sum := 0.0
	for ; i < len(s.at) && (i < 0 || s.at[i] < to); i++ {
		begin, n := from, 0
		if i >= 0 {
			begin, n = max(from, s.at[i]), s.n[i]
		}
		end := to
		if i+1 < len(s.at) {
			end = min(to, s.at[i+1])
		}
		if n > bound {
			sum += end - begin
		}
	}
	return sum
}
