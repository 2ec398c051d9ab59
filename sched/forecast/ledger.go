// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"math"
	"slices"
	"time"
)

// Ledger corrects ranges by how earlier forecasts of the same cluster fared. A start after
// its range lets ranges end later, one within it lets them end a little sooner, in such
// proportion that both balance where one of twenty comes later; so too at the early end
// (quantile tracking; Gibbs and Candes, NeurIPS'21, Angelopoulos, Candes and Tibshirani,
// NeurIPS'23). Jobs that wait at the same time wait for the same ends, and are early or late
// together: a start counts as the part of its wait that has passed since the one before, so
// that as much is learned while one job waits as while a hundred do. The middle stays where
// it is, and an end that the clock decides is only ever widened: were it narrowed by a second,
// it would lose all the starts that come just then. Before any outcome is known the ledger
// changes nothing. The zero value is empty.
type Ledger struct {
	early, late float64   // width of each half of a range, of the logarithm, over that of the forecast, less one
	last        time.Time // the latest start
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
	step = 0.5
	// most bounds the width of a half, over that of the forecast.
	most = 3
	// grain is the wait, in seconds, below which differences do not matter.
	grain = 30
	// narrowest is the least half width of a range: of the logarithm.
	narrowest = 0.05
	// inexact is by how many seconds a time may be off that was computed from its logarithm.
	inexact = 1e-3
)

// Add notes when the job of a forecast started. Starts come in their order.
func (l *Ledger) Add(f Asked, start time.Time) {
	score, ok := f.score(start)
	if !ok {
		return
	}
	news := 1.0
	if !l.last.IsZero() {
		wait := max(time.Second, start.Sub(f.At))
		news = max(0, min(1, start.Sub(l.last).Seconds()/wait.Seconds()))
	}
	l.last = start
	l.late = learn(l.late, score > 1+l.late, news)
	l.early = learn(l.early, score < -1-l.early, news)
}

// learn returns the correction of an end of the range after one more outcome. A range never
// ends before its middle.
func learn(by float64, missed bool, news float64) float64 {
	if missed {
		return min(most-1, by+news*step*(1-outside))
	}
	return max(-1, by-news*step*outside)
}

// Correct returns a forecast with what the ledger has learned. Jobs that are still waiting
// after their range are the long waits of the recent past: they count as one that came later.
func (l *Ledger) Correct(f Asked, open []Asked, now time.Time) Range {
	low, middle, high, ok := f.logs()
	if !ok {
		return f.Range
	}
	late := l.late
	if slices.ContainsFunc(open, func(o Asked) bool { score, ok := o.score(now); return ok && score > 1+l.late }) {
		late = learn(late, true, 1)
	}
	at := func(log float64, whole func(float64) float64) time.Time {
		return f.At.Add(time.Duration(whole(grain*max(0, math.Expm1(log)))) * time.Second)
	}
	early := l.early
	if f.clockEarly {
		early = max(0, early)
	}
	if f.clockLate {
		late = max(0, late)
	}
	r := f.Range
	r.Early = at(middle-(1+early)*(middle-low), func(s float64) float64 { return math.Floor(s + inexact) })
	r.Late = at(middle+(1+late)*(high-middle), func(s float64) float64 { return math.Ceil(s - inexact) })
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
