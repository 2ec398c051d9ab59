// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"math/rand/v2"
	"time"
)

// future is one way in which past jobs may be typical of others.
type future struct {
	*Lengths
	weights []float64 // of past jobs: those that have ended, then those that run
	tail    float64   // hazard where no job has been, over that which is assumed
	guesses []float64 // how often users were wrong by how much; nil: not counted yet
	lives   map[lifeOf]*life
	hazards map[hazardOf]*hazard
	kinds   map[JobKey]float64 // normal scores
}

// lifeOf is what a distribution of run times depends on.
type lifeOf struct {
	key      JobKey
	estimate time.Duration
	early    bool
}

// hazardOf is what the hazard by the groups of a level and all wider ones depends on.
type hazardOf struct {
	level int
	key   JobKey // what the job has in common with the others of those groups
	early bool
}

const (
	// tailSpread is the standard deviation of the logarithm of the hazard where no job has
	// been.
	tailSpread = 0.3
	// likeness is the part of what differs between jobs of one user, model and size that
	// they have in common, beyond what past jobs show: those of one sweep are long together.
	likeness = 0.5
	// earlyEnds is the part of the assumed hazard that is due to early ends.
	earlyEnds = 0.1
)

// Future returns a function that draws how long jobs still run. All draws of one future
// share what nobody knows: how typical the jobs are that have ended so far (each weighs
// something else: the Bayesian bootstrap, Rubin 1981), how long jobs run that run longer
// than any before, and whether those of one user, model and size are long or short.
//
// A job whose agent reports ends by what that says, or early, as others did that were as
// old. The run time of another is drawn from those of all past jobs, of which the more
// similar count more; an estimate makes those more likely of which users would have
// estimated as much.
func (l *Lengths) Future(r *rand.Rand) func(Run) (left time.Duration, b Basis) {
	f := &future{Lengths: l, tail: math.Exp(tailSpread * r.NormFloat64()), lives: map[lifeOf]*life{}, hazards: map[hazardOf]*hazard{}, kinds: map[JobKey]float64{}}
	for range len(newest(l.ended)) + len(l.running) {
		f.weights = append(f.weights, r.ExpFloat64())
	}
	return func(run Run) (time.Duration, Basis) {
		if l.nothing(run) { // what it shares with jobs that run would be found in vain
			return 0, Nothing
		}
		s := l.shared(run.Key)
		b := l.basis(run, s)
		u, ran := f.rank(r, run.Key), run.Ran.Seconds()
		left := math.Exp(f.life(run, s, b == Reported).after(math.Log(ran), u)) - ran
		if b == Reported {
			left = min(left, max(0, run.Whole-run.Done).Seconds()*math.Exp(l.reported(r, run)))
		}
		return seconds(left), b
	}
}

// mean returns the future in which every past job counts the same.
func (l *Lengths) mean() *future {
	f := &future{Lengths: l, tail: 1, lives: map[lifeOf]*life{}, hazards: map[hazardOf]*hazard{}}
	for range len(newest(l.ended)) + len(l.running) {
		f.weights = append(f.weights, 1)
	}
	return f
}

// rank draws which part of the jobs like it a job outlasts.
func (f *future) rank(r *rand.Rand, k JobKey) float64 {
	own := r.NormFloat64()
	if k.kind() != "" {
		k.App = ""
		z, ok := f.kinds[k]
		if !ok {
			z = r.NormFloat64()
			f.kinds[k] = z
		}
		own = math.Sqrt(likeness)*z + math.Sqrt(1-likeness)*own
	}
	return 0.5 * math.Erfc(-own/math.Sqrt2)
}

// life returns the distribution of the run time of a job; if early, of the time at which it
// ends early.
func (f *future) life(r Run, s shared, early bool) *life {
	asked := lifeOf{f.known(r.Key), r.Estimate, early}
	if early {
		asked.estimate = 0
	}
	if l, ok := f.lives[asked]; ok {
		return l
	}
	h := f.hazard(asked.key, &s, levels-1, early)
	var likely *[cells]float64
	if asked.estimate > 0 {
		likely = f.likely(math.Log(asked.estimate.Seconds()))
	}
	l := h.life(likely)
	f.lives[asked] = l
	return l
}

// hazard returns the hazard of a job by the groups of a level and all wider ones. The jobs
// that are in the same groups share it.
func (f *future) hazard(k JobKey, s *shared, level int, early bool) *hazard {
	if level < 0 {
		times := f.tail
		if early {
			times *= earlyEnds
		}
		h := assumed(times)
		return &h
	}
	asked := hazardOf{level, k.upTo(level), early}
	if h := f.hazards[asked]; h != nil {
		return h
	}
	h := *f.hazard(k, s, level-1, early)
	f.mix(&h, s, level, early)
	f.hazards[asked] = &h
	return &h
}

// mix adds what the group of a level shows.
func (f *future) mix(h *hazard, s *shared, level int, early bool) {
	if len(s.kin[level]) == 0 {
		return
	}
	var g group
	for _, i := range s.kin[level] {
		if o, ended := f.past(i); !early {
			g.add(o.log, f.weights[i], ended)
		} else if o.reported {
			g.add(o.log, f.weights[i], ended && o.early)
		}
	}
	if g.all > 0 {
		h.mix(&g, f.trust.width(level))
	}
}

// past returns a past job, and whether it has ended.
func (l *Lengths) past(i int) (o *lived, ended bool) {
	if past := newest(l.ended); i < len(past) {
		return &past[i], true
	} else {
		return &l.running[i-len(past)], false
	}
}
