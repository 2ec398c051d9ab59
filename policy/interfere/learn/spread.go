// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/sched/num"
)

// regions are the ranges of pressure in which the spread is computed, by their
// upper ends.
var regions = []float64{0.45, 0.55, 0.65, 0.75, 0.9, 1.05, 1.15, 1.3, 1.6, 2, math.Inf(1)}

const (
	leastJobs = 20   // samples that a region needs
	calm      = 1.03 // predicted slowdown below which there is practically none
	leastOff  = 0.03 // least scatter assumed: steps vary this much between processes
)

// spread measures how far measured slowdowns are from the predictions.
func spread(predict predictor, pairs []Pair) []interfere.Spread {
	parts := make([][]miss, len(regions))
	for _, x := range samples(pairs) {
		e := predict(x.own, x.others[0])
		i := slices.IndexFunc(regions, func(end float64) bool { return e.Pressure < end })
		parts[i] = append(parts[i], miss{e.Pressure, e.Mean, x.slowdown})
	}
	var kept [][]miss
	for _, part := range parts {
		if n := len(kept); n > 0 && len(kept[n-1]) < leastJobs {
			kept[n-1] = append(kept[n-1], part...)
		} else {
			kept = append(kept, part)
		}
	}
	if n := len(kept); n > 1 && len(kept[n-1]) < leastJobs {
		kept[n-2] = append(kept[n-2], kept[n-1]...)
		kept = kept[:n-1]
	}
	// The bound must not fall as pressure grows: where it does so by chance,
	// regions are merged.
	var out []interfere.Spread
	var of [][]miss
	for _, part := range kept {
		s := describe(part)
		for n := len(out); n > 0 && s.High < out[n-1].High; n-- {
			part = append(of[n-1], part...)
			s = describe(part)
			out, of = out[:n-1], of[:n-1]
		}
		out, of = append(out, s), append(of, part)
	}
	return out
}

// miss is a prediction and the measured value.
type miss struct{ pressure, predicted, measured float64 }

// describe returns the spread of a region.
//
// Where no slowdown is predicted, hiccups of the host dominate the measurements:
// many jobs are faster together than alone. Sharing cannot do that, so the values
// below the prediction show the measurement error, and only larger deviations above
// it are scatter. The bound is that of the measurements, all errors included.
func describe(part []miss) interfere.Spread {
	var pressure, mean, squares, below, above, slower float64
	ratios := make([]float64, len(part)) // measured over predicted
	n := float64(len(part))
	for i, m := range part {
		pressure += m.pressure / n
		mean += m.predicted / n
		ratios[i] = m.measured / m.predicted
		off := math.Log(ratios[i])
		squares += off * off
		if off > 0 {
			above, slower = above+off*off, slower+1
		} else {
			below += off * off
		}
	}
	scatter := math.Sqrt(squares / n)
	if mean < calm {
		scatter = math.Sqrt(max(0, above/max(1, slower)-below/max(1, n-slower)))
	}
	return interfere.Spread{
		At: digits(pressure), Scatter: digits(max(scatter, leastOff)),
		High: digits(max(1, mean*max(1, num.Quantile(ratios, 0.95)))), Jobs: len(part),
	}
}
