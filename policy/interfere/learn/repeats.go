// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"math"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// Pool returns the pairs with the solo time of each job averaged over all its solo
// measurements in the session, instead of the one before that pair. A job that
// waits for its host varies by 7 % from one second to the next, which is most of
// the error of a slowdown.
func Pool(pairs []Pair) []Pair {
	type run struct {
		mode    interfere.Mode
		session string
		key     Key
	}
	sums, counts := map[run]float64{}, map[run]float64{}
	for _, p := range pairs {
		for _, s := range p.Sides {
			r := run{p.Mode, p.Session, s.Key}
			sums[r] += s.Load.Step
			counts[r]++
		}
	}
	out := make([]Pair, len(pairs))
	for n, p := range pairs {
		for i := range p.Sides {
			s := &p.Sides[i]
			r := run{p.Mode, p.Session, s.Key}
			alone := sums[r] / counts[r]
			s.Slowdown *= s.Load.Step / alone
			s.Load.Step = alone
		}
		out[n] = p
	}
	return out
}

// Merge combines pairs that were measured more than once in a mode into one, with
// the geometric means of the measurements, at the position of the first.
func Merge(pairs []Pair) []Pair {
	type same struct {
		mode interfere.Mode
		keys [2]Key
	}
	at := map[same]int{}
	var out []Pair
	var times []float64
	for _, p := range pairs {
		k := same{p.Mode, [2]Key{p.Sides[0].Key, p.Sides[1].Key}}
		n, again := at[k]
		if !again {
			at[k] = len(out)
			out, times = append(out, p), append(times, 1)
			continue
		}
		times[n]++
		first := &out[n]
		blend(&first.HostSlower, p.HostSlower, times[n])
		for i := range p.Sides {
			a, b := &first.Sides[i], p.Sides[i]
			blend(&a.Slowdown, b.Slowdown, times[n])
			blend(&a.Load.Step, b.Load.Step, times[n])
			blend(&a.Load.Util, b.Load.Util, times[n])
		}
	}
	return out
}

// blend adds the n-th value to a geometric mean of n-1 values.
func blend(mean *float64, value, n float64) {
	*mean = math.Pow(*mean, (n-1)/n) * math.Pow(value, 1/n)
}
