// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"math"
	"time"
)

// Ledger corrects ranges by how earlier forecasts of the same cluster fared. A start after
// its range lets ranges end later, one within it lets them end a little sooner, in such
// proportion that both balance where one of twenty comes later; so too at the early end
// (quantile tracking; Gibbs and Candes, NeurIPS'21, Angelopoulos, Candes and Tibshirani,
// NeurIPS'23). Steps are bounded, because the jobs of a busy hour are early or late
// together: a hundred of them tell little more than ten. The middle stays where it is.
// Before any outcome is known the ledger changes nothing. The zero value is empty.
type Ledger struct {
	early, late float64 // width of each half of a range, of the logarithm, over that of the forecast, less one
}

// Asked is a forecast, uncorrected, whose job has not started yet.
type Asked struct {
	Range
	At time.Time
}

const (
	// outside is the part of starts that should lie beyond each end of a range.
	outside = 0.05
	// step is the most by which one outcome changes the width of a half.
	step = 0.1
	// most bounds the width of a half, over that of the forecast.
	most = 3
	// leastEarly and leastLate bound it from below. Long waits are known last, so what is
	// known at any time speaks for ends that are too soon: the late half shrinks only a
	// little. A start before its range is known at once, so the early half needs no bound.
	leastEarly, leastLate = 0, 0.9
	// grain is the wait, in seconds, below which differences do not matter.
	grain = 30
	// narrowest is the least half width of a range: of the logarithm.
	narrowest = 0.05
)

// Add notes when the job of a forecast started.
func (l *Ledger) Add(f Asked, start time.Time) {
	if score, ok := f.score(start); ok {
		l.late = learn(l.late, score > 1+l.late, leastLate)
		l.early = learn(l.early, score < -1-l.early, leastEarly)
	}
}

// learn returns the correction of an end of the range after one more outcome.
func learn(by float64, missed bool, least float64) float64 {
	if missed {
		return min(most-1, by+step*(1-outside))
	}
	return max(least-1, by-step*outside)
}

// Correct returns a forecast with what the ledger has learned. Jobs that are still
// waiting after their range count as later, for they are the long waits of the recent
// past.
func (l *Ledger) Correct(f Asked, open []Asked, now time.Time) Range {
	low, middle, high, ok := f.logs()
	if !ok {
		return f.Range
	}
	late := l.late
	for _, o := range open {
		if score, ok := o.score(now); ok && score > 1+late {
			late = learn(late, true, leastLate)
		}
	}
	at := func(log float64) time.Time {
		return f.At.Add(time.Duration(grain * max(0, math.Expm1(log)) * float64(time.Second)))
	}
	r := f.Range
	r.Early, r.Late = at(middle-(1+l.early)*(middle-low)), at(middle+(1+late)*(high-middle))
	return r
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
