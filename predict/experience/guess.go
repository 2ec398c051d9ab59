// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"math/rand/v2"
)

// The error of a user's estimate is counted in wider cells, of the logarithm of run time
// over estimate.
const (
	guessCell  = 0.25
	guessCells = 60
	guessLeast = -12.0
)

func guessOf(ratio float64) int {
	return max(0, min(guessCells-1, int((ratio-guessLeast)/guessCell)))
}

// assumedGuesses is the number of jobs as which it counts that users estimate too much:
// that their jobs run for a part of the estimate, spread about evenly (Mu'alem and
// Feitelson, TPDS'01), and now and then for longer.
const (
	assumedGuesses = 10
	guessedLess    = 0.05
)

// likely returns how likely a user is to give an estimate, for each run time.
func (f *future) likely(estimate float64) *[cells]float64 {
	if f.guesses == nil {
		f.countGuesses()
	}
	var out [cells]float64
	for c := range out {
		out[c] = f.guesses[guessOf(cell*(float64(c)+0.5)-estimate)]
	}
	return &out
}

func (f *future) countGuesses() {
	f.guesses = make([]float64, guessCells)
	for c := range f.guesses {
		ratio := guessLeast + guessCell*(float64(c)+0.5)
		if ratio < 0 {
			f.guesses[c] = assumedGuesses * guessCell * math.Exp(ratio)
		} else {
			f.guesses[c] = assumedGuesses * guessCell * guessedLess * math.Exp(-ratio)
		}
	}
	for i, o := range newest(f.ended) {
		if math.IsNaN(o.estimate) {
			continue
		}
		at := guessOf(o.log - o.estimate)
		for k, part := range [...]float64{0.25, 0.5, 0.25} {
			f.guesses[max(0, min(guessCells-1, at+k-1))] += part * f.weights[i]
		}
	}
}

const (
	// reportSpread is the standard deviation of the logarithm of the time that is left over
	// that which the reported rate lets expect, before any job has shown it.
	reportSpread = 0.2
	// reportNoise is by how much jobs differ from those before.
	reportNoise = 0.02
	// assumedReports is the number of jobs as which that counts.
	assumedReports = 2
	contest        = 8 // jobs of which one of the same kind is picked
)

// reported draws the logarithm of the time that a job still runs, if it does not end
// early, over that which its agent's rate lets expect: as it was for jobs that had done as
// much, of the same kind if some are found.
func (l *Lengths) reported(r *rand.Rand, run Run) float64 {
	past := newest(l.reports[run.Tenth()])
	own := r.NormFloat64()
	if n := float64(len(past)); r.Float64()*(n+assumedReports) >= n {
		return reportSpread * own
	}
	var o report
	for range contest {
		if o = past[r.IntN(len(past))]; o.kind == run.Key.kind() {
			break
		}
	}
	return o.ratio + reportNoise*own
}
