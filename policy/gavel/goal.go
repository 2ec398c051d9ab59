// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// kind is all of a job that the linear program sees.
type kind struct {
	scale int
	speed speeds
	terms [3]float64 // what the goal knows of it
}

// table is a linear program and the claims behind each of its rows.
type table struct {
	problem
	rowOf []int // by claim; -1: no type can host it
	terms [][3]float64
}

// allocate gives every claim its share of time on each type.
func (p *policy) allocate(s *sched.Snapshot, claims []claim) {
	t := p.table(s, claims)
	if len(t.rows) == 0 {
		return
	}
	var m mixture
	switch p.Goal {
	case MaxMin: // terms: throughput at level 1
		m = t.fill(func(r int, level float64) float64 { return level * t.terms[r][0] })
	case FinishTime: // terms: work left, time it would take with a fair share, time passed
		m = t.fill(func(r int, level float64) float64 {
			left, fair, age := t.terms[r][0], t.terms[r][1], t.terms[r][2]
			if spare := fair - level*age; spare > 0 {
				return level * left / spare
			}
			return t.rows[r].best
		})
	case Makespan: // terms: work left
		m = t.fill(func(r int, level float64) float64 { return level * t.terms[r][0] })
	case Cost: // terms: throughput that the promised time needs
		t.raise(func(r int, level float64) float64 { return min(1, level) * t.terms[r][0] })
		m = t.maximise()
	case Shortest:
		m = t.maximise()
	}
	t.divide(m, claims)
}

// table groups claims that are alike into rows.
func (p *policy) table(s *sched.Snapshot, claims []claim) *table {
	t := &table{problem: problem{gpus: gpus(p.free)}, rowOf: make([]int, len(claims))}
	prices := p.prices(s.Cluster.Types)
	rows := map[kind]int{}
	for k := range claims {
		c := &claims[k]
		t.rowOf[k] = -1
		for i, n := range t.gpus {
			if n == 0 { // its nodes take no work now
				c.speed[i] = 0
			}
		}
		best := slices.Max(c.speed[:])
		if best == 0 || (c.j.Phase == sched.Pending && !c.j.Ready(s.Now)) {
			continue
		}
		key := kind{c.scale, c.speed, p.terms(s, c, t.gpus, len(claims))}
		n, ok := rows[key]
		if !ok {
			n = len(t.rows)
			rows[key] = n
			r := row{scale: float64(c.scale), speed: c.speed[:len(t.gpus)], best: best}
			if p.Goal == Cost || p.Goal == Shortest {
				r.gain = p.gains(&r, prices, key.terms)
			}
			t.rows = append(t.rows, r)
			t.terms = append(t.terms, key.terms)
		}
		t.rows[n].count++
		t.rowOf[k] = n
	}
	return t
}

// terms returns what the goal needs to know of a job.
func (p *policy) terms(s *sched.Snapshot, c *claim, gpus []float64, jobs int) [3]float64 {
	switch p.Goal {
	case FinishTime:
		left, done := c.left(s.Now)
		alone := fairSpeed(c, gpus, jobs)
		return [3]float64{left, (done + left) / alone, c.j.Age(s.Now).Seconds()}
	case Makespan:
		left, _ := c.left(s.Now)
		return [3]float64{left}
	case Shortest:
		left, _ := c.left(s.Now)
		return [3]float64{left, float64(c.on)}
	case Cost:
		return [3]float64{p.promised(s, c)}
	}
	return [3]float64{weight(s, c.j) / float64(c.scale) * spreadSpeed(c, gpus)}
}

// spreadSpeed is the throughput of a job that divides its time among the types
// by their numbers of GPUs.
func spreadSpeed(c *claim, gpus []float64) float64 {
	speed, all := 0.0, 0.0
	for t, n := range gpus {
		if c.speed[t] > 0 {
			speed += c.speed[t] * n
			all += n
		}
	}
	if all == 0 {
		return 1
	}
	return speed / all
}

// fairSpeed is the throughput with an equal part of every type, at most all of
// its time.
func fairSpeed(c *claim, gpus []float64, jobs int) float64 {
	speed, time := 0.0, 0.0
	for t, n := range gpus {
		if c.speed[t] > 0 {
			x := n / float64(jobs*c.scale)
			speed += x * c.speed[t]
			time += x
		}
	}
	if speed == 0 {
		return 1
	}
	return speed / max(1, time)
}

// promised is the throughput with which a job ends after slo times its
// estimate; 0: nothing was promised, or it is too late.
func (p *policy) promised(s *sched.Snapshot, c *claim) float64 {
	if p.SLO == 0 || c.j.Estimate <= 0 {
		return 0
	}
	left, _ := c.left(s.Now)
	time := p.SLO*c.j.Estimate.D().Seconds() - c.j.Age(s.Now).Seconds()
	if time <= 0 {
		return 0
	}
	return left / time
}

// gains is what all time on each type is worth: for cost, the work for money,
// which is speed against the job's best, for the price against the lowest of all;
// for shortest, the part of what is left that is done in a second.
func (p *policy) gains(r *row, prices []float64, terms [3]float64) []float64 {
	out := make([]float64, len(r.speed))
	for t, speed := range r.speed {
		if p.Goal == Cost {
			out[t] = r.scale * speed / r.best / prices[t]
			continue
		}
		out[t] = speed / terms[0]
		if t == int(terms[1]) {
			out[t] *= p.Stick
		}
	}
	return out
}

// divide turns a mixture of columns into shares of time. A mixture gives every
// row a bit of every column; jobs would wander between types all the time. So of
// the jobs that differ in no more than what they need, as many get each kind of
// corner, whole, as its weight says; a job that runs rather gets one with the
// type it is on.
func (t *table) divide(m mixture, claims []claim) {
	types := len(t.gpus)
	codes := codePair(types, types-1, types-1) + 1
	owed := map[kind][]float64{} // by code: weight less jobs so far
	for k := range claims {
		n := t.rowOf[k]
		if n < 0 {
			continue
		}
		key := kind{scale: claims[k].scale, speed: claims[k].speed}
		if owed[key] == nil {
			owed[key] = make([]float64, codes)
		}
		sum := owed[key]
		var with [32]corner
		corners := with[:0]
		for col, w := range m.weights {
			if w <= 0 {
				continue
			}
			pick := m.columns[col].picks[n]
			sum[pick.code] += w
			if !slices.ContainsFunc(corners, func(c corner) bool { return c.code == pick.code }) {
				corners = append(corners, pick)
			}
		}
		best, most := corner{}, 0.0
		for _, c := range corners {
			score := sum[c.code]
			if on := claims[k].on; on >= 0 && ((c.on[0] == on && c.time[0] > 0) || (c.on[1] == on && c.time[1] > 0)) {
				score += 0.5
			}
			if score > most {
				best, most = c, score
			}
		}
		sum[best.code]--
		for i, on := range best.on {
			claims[k].time[on] += best.time[i]
		}
		copy(claims[k].gain[:], t.rows[n].gain)
	}
}
