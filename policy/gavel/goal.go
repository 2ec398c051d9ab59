// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// kind is what the linear program sees of a job.
type kind struct {
	scale int
	speed speeds
	terms [3]float64 // what the goal needs to know about it
}

// table is a linear program and the claims behind each of its rows.
type table struct {
	problem
	rowOf []int // by claim; -1: no type can host it, or it is in a block
	terms [][3]float64

	groups  []group
	blockOf []int // by group
}

// allocate gives every claim its share of time on each type, and returns the
// shares of time that two claims have together.
func (p *policy) allocate(s *sched.Snapshot, claims []claim) []share {
	if p.Goal == AlloX {
		p.match(s, claims)
		return nil
	}
	t := p.table(s, claims)
	if len(t.rows) == 0 {
		return nil
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
		t.raise(func(r int, level float64) float64 { return min(1, level) * t.terms[r][0] }, 1)
		m = t.maximise()
	case Shortest, FIFO:
		m = t.maximise()
	case Throughput:
		m = t.maximise()
		t.spread(m, claims)
		return t.divideBlocks(m, claims)
	case Hierarchical:
		m = t.fill(t.hierarchical(s, p.Within))
	}
	t.divide(m, claims)
	return t.divideBlocks(m, claims)
}

// table groups identical claims into rows.
func (p *policy) table(s *sched.Snapshot, claims []claim) *table {
	t := &table{problem: problem{gpus: gpus(p.free)}, rowOf: make([]int, len(claims))}
	prices := p.prices(s.Cluster.Types)
	for k := range claims {
		t.rowOf[k] = -1
		for i, n := range t.gpus {
			if n == 0 { // its nodes take no work now
				claims[k].speed[i] = 0
			}
		}
	}
	t.groups = p.groups(s, claims)
	paired := make([]bool, len(claims))
	for _, g := range t.groups {
		for _, k := range g.claims {
			paired[k] = true
		}
	}
	seen := func(c *claim) kind { return kind{c.scale, c.speed, p.terms(s, c, t.gpus, len(claims))} }
	m := &p.memory
	t.rows, t.terms = m.rows[:0], m.terms[:0]
	speeds, gains := m.speeds[:0], m.gains[:0] // of all rows, next to each other
	add := func(key kind) int {
		speeds = append(speeds, key.speed[:len(t.gpus)]...)
		r := row{scale: float64(key.scale), speed: speeds[len(speeds)-len(t.gpus):], best: slices.Max(key.speed[:])}
		if p.Goal == Cost || p.Goal == Shortest || p.Goal == Throughput || p.Goal == FIFO {
			gains = p.gains(gains, &r, prices, key.terms)
			r.gain = gains[len(gains)-len(t.gpus):]
		}
		t.rows, t.terms = append(t.rows, r), append(t.terms, key.terms)
		return len(t.rows) - 1
	}
	if m.rowOf == nil {
		m.rowOf = map[kind]int{}
	}
	clear(m.rowOf)
	for k := range claims {
		c := &claims[k]
		if paired[k] || slices.Max(c.speed[:]) == 0 || (c.j.Phase == sched.Pending && !c.j.Ready(s.Now)) {
			continue
		}
		key := seen(c)
		n, ok := m.rowOf[key]
		if !ok {
			n = add(key)
			m.rowOf[key] = n
		}
		t.rows[n].count++
		t.rowOf[k] = n
	}
	t.addBlocks(claims, seen, add)
	m.rows, m.terms, m.speeds, m.gains = t.rows, t.terms, speeds, gains
	return t
}

// terms returns what the goal needs to know about a job.
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
	case Throughput:
		return [3]float64{c.first}
	case FIFO:
		return [3]float64{float64(jobs - c.rank)}
	case Hierarchical:
		terms := [3]float64{spreadSpeed(c, gpus) / float64(c.scale)}
		if t, ok := s.Tenant(c.j); ok {
			terms[1] = float64(t + 1)
		}
		if p.Within == InOrder {
			terms[2] = float64(c.rank)
		}
		return terms
	}
	return [3]float64{c.share / float64(c.scale) * spreadSpeed(c, gpus)}
}

// spreadSpeed is the throughput of a job that divides its time among the types in
// proportion to their GPUs.
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

// fairSpeed is the throughput with an equal part of every type, limited to all of
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

// promised is the throughput at which a job ends after slo times its estimate; 0:
// there is no deadline, or it has passed.
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

// gains appends the value of all time on each type: for cost, the speed relative to the
// job's best over the price relative to the lowest; for fifo, that speed times the
// number of jobs that are not ahead of it; for shortest, the part of the remaining
// work done in a second; for max-sum-throughput, the steps in a second.
func (p *policy) gains(out []float64, r *row, prices []float64, terms [3]float64) []float64 {
	for t, speed := range r.speed {
		gain := 0.0
		switch p.Goal {
		case Cost:
			gain = r.scale * speed / r.best / prices[t]
		case Throughput:
			gain = speed * terms[0]
		case FIFO:
			gain = r.scale * speed / r.best * terms[0]
		case Shortest:
			gain = speed / terms[0]
			if t == int(terms[1]) {
				gain *= p.Stick
			}
		}
		out = append(out, gain)
	}
	return out
}
