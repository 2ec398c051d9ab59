// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// fraction is the fraction of a row that an app keeps and how it becomes whole
// gangs.
type fraction struct {
	keep  float64
	round Rounding
	rng   *rand.Rand
}

// gpus returns how many of the GPUs it won an app keeps, in whole gangs. One random
// number is drawn for every app that won and pays, none for the others.
func (f fraction) gpus(won, gang int) int {
	if f.keep >= 1 || won == 0 {
		return won
	}
	const slack = 1e-9 // the logarithms behind keep are rounded
	exactly := f.keep * float64(won) / float64(gang)
	whole := math.Floor(exactly + slack)
	switch f.round {
	case Chance:
		if f.rng.Float64() < f.keep {
			return won
		}
		return 0
	case Mixed:
		if f.rng.Float64() < exactly-whole {
			whole++
		}
	}
	return min(won, int(whole)*gang)
}

// trim returns the shares that remain when an app keeps only a number of GPUs. The
// worst-located machine loses first: one in another rack than most GPUs of the app,
// then one on which the app has few.
func trim(o Offer, b Bid, won []Share, gpus int) []Share {
	surplus := Total(won) - gpus
	if surplus <= 0 {
		return won
	}
	machine, rack := map[int]int{}, map[string]int{}
	for _, s := range slices.Concat(b.Holds, won) {
		machine[s.Machine] += s.GPUs
		rack[o.Machines[s.Machine].Rack] += s.GPUs
	}
	out := slices.Clone(won)
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(
			cmp.Compare(rack[o.Machines[a.Machine].Rack], rack[o.Machines[b.Machine].Rack]),
			cmp.Compare(machine[a.Machine], machine[b.Machine]),
			cmp.Compare(b.Machine, a.Machine),
		)
	})
	for i := range out {
		less := min(surplus, out[i].GPUs)
		out[i].GPUs -= less
		surplus -= less
	}
	out = slices.DeleteFunc(out, func(s Share) bool { return s.GPUs == 0 })
	sortShares(out)
	return out
}

func sortShares(shares []Share) {
	slices.SortFunc(shares, func(a, b Share) int { return cmp.Compare(a.Machine, b.Machine) })
}
