// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import "math"

// StepRatio returns how many times as long as on one GPU type a step takes on another:
// the geometric mean over the records that have measured the same placement and local
// batch size on both, each record counting once. ok is false if there is none.
func (p *Pool) StepRatio(from, to string) (ratio float64, ok bool) {
	if p.ratios == nil || p.ratiosAt != p.used {
		p.ratios, p.ratiosAt = map[[2]string]float64{}, p.used
	}
	key := [2]string{from, to}
	ratio, cached := p.ratios[key]
	if !cached {
		ratio = p.stepRatio(from, to)
		p.ratios[key] = ratio
	}
	return ratio, ratio > 0
}

func (p *Pool) stepRatio(from, to string) float64 {
	logs, records := 0.0, 0.0
	for _, r := range p.records {
		sum, n := 0.0, 0.0
		for _, s := range r.Samples[to] {
			if here, both := sampleAt(r.Samples[from], s); both {
				sum += math.Log(s.Step / here.Step)
				n++
			}
		}
		if n > 0 {
			logs += sum / n
			records++
		}
	}
	if records == 0 {
		return 0
	}
	return math.Exp(logs / records)
}
