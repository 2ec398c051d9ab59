// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Ledger holds how far off earlier forecasts of the same cluster were, and corrects
// others by it: where the start came later than foreseen in more than one of twenty
// cases, ranges end later, and so on (conformal prediction; Romano, Patterson and Candes,
// NeurIPS'19, on logarithms of waits). Before any outcome is known it changes nothing.
// The zero value is empty.
type Ledger struct {
	scores []float64 // newest last
}

// Asked is a forecast, uncorrected, whose job has not started yet.
type Asked struct {
	Range
	At time.Time
}

const (
	// keepScores bounds a ledger: the newest outcomes.
	keepScores = 150
	// assumed is the number of outcomes, all as foreseen, with which a ledger begins.
	assumed = 49
	// outside is the part of outcomes that a range leaves out: less than a tenth, because
	// those of the next busy hour are not like those of the last.
	outside = 0.08
	// grain is the wait, in seconds, below which differences do not matter.
	grain = 30
	// narrowest is the least half width of a range: of the logarithm.
	narrowest = 0.05
)

// Add notes when the job of a forecast started.
func (l *Ledger) Add(f Asked, start time.Time) {
	score, ok := f.score(start)
	if !ok {
		return
	}
	if l.scores = append(l.scores, score); len(l.scores) >= 2*keepScores {
		l.scores = slices.Clone(l.scores[keepScores:])
	}
}

// Correct returns a forecast with what the ledger has learned. Jobs that are still
// waiting count as later than now, for they are the long waits of the recent past.
func (l *Ledger) Correct(f Asked, open []Asked, now time.Time) Range {
	low, middle, high, ok := f.logs()
	if !ok {
		return f.Range
	}
	scores := make([]scored, 0, assumed+keepScores+len(open))
	for i := range assumed { // the second and the last but one lie on the edge
		scores = append(scores, scored{value: float64(i-assumed/2) / float64(assumed/2-1)})
	}
	for _, s := range l.scores[max(0, len(l.scores)-keepScores):] {
		scores = append(scores, scored{value: s})
	}
	for _, o := range open {
		if s, ok := o.score(now); ok {
			scores = append(scores, scored{value: s, open: true})
		}
	}
	weigh(scores)
	at := func(level float64) time.Time {
		wait := middle
		if s := quantile(scores, level); s < 0 {
			wait += s * (middle - low)
		} else {
			wait += s * (high - middle)
		}
		return f.At.Add(time.Duration(grain * max(0, math.Expm1(wait)) * float64(time.Second)))
	}
	return Range{at(outside / 2), at(0.5), at(1 - outside/2)}
}

// logs returns the logarithms of the waits of a forecast; ok is false if one of them is
// unknown.
func (f Asked) logs() (low, middle, high float64, ok bool) {
	if f.Early.IsZero() || f.Middle.IsZero() || f.Late.IsZero() {
		return 0, 0, 0, false
	}
	low, middle, high = f.log(f.Early), f.log(f.Middle), f.log(f.Late)
	return min(low, middle-narrowest), middle, max(high, middle+narrowest), true
}

func (f Asked) log(t time.Time) float64 { return math.Log1p(max(0, t.Sub(f.At).Seconds()) / grain) }

// score returns where in its range a start lies: -1 at the early end, 0 in the middle,
// 1 at the late end.
func (f Asked) score(start time.Time) (float64, bool) {
	low, middle, high, ok := f.logs()
	off := f.log(start) - middle
	if off < 0 {
		return off / (middle - low), ok
	}
	return off / (high - middle), ok
}

// scored is a score with its weight. That of an open forecast is at least value.
type scored struct {
	value, weight float64
	open          bool
}

// weigh sorts the scores and gives each its weight. An open one passes its weight on to
// those above it (Kaplan and Meier's estimate); the last keeps it.
func weigh(scores []scored) {
	slices.SortFunc(scores, func(a, b scored) int { return cmp.Compare(a.value, b.value) })
	passed := 0.0
	for i := range scores {
		above := float64(len(scores) - i)
		w := 1 + passed/above
		passed -= passed / above
		if scores[i].open && i < len(scores)-1 {
			passed += w
			w = 0
		}
		scores[i].weight = w
	}
}

// quantile returns the score below which a part of the weight lies. One more outcome may
// lie anywhere.
func quantile(scores []scored, level float64) float64 {
	want := level * float64(len(scores)+1)
	last := scores[0].value
	for _, s := range scores {
		if s.weight == 0 {
			continue
		}
		if want -= s.weight; want <= 1e-9 {
			return s.value
		}
		last = s.value
	}
	return last
}
