// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "math/rand/v2"

// fast is the default search: a market for pieces of nodes (see market) finds what
// every job should have, build lays that out, and the descent improves the layout
// on the true fitness. The dual value of the market bounds what any search could
// reach; a layout that reaches it ends the search.
type fast struct{ seed uint64 }

const (
	// rounds is how often the prices of the market are moved; roundsPerJob and minRounds
	// bound it in a large problem.
	rounds, roundsPerJob, minRounds = 100, 100_000, 12
	// perJob and minBuilds bound the number of layouts that are built: one for each
	// round in a small problem, a few in a large one.
	perJob, minBuilds = 20_000, 3
	// descentSteps and descentStepsNode bound the work of the descent, in steps
	// of its dynamic programmes: a step is a few nanoseconds.
	descentSteps, descentStepsNode = 400_000, 10_000
)

func (f fast) search(p *problem) []row {
	m := newMenu(p)
	rng := rand.New(rand.NewPCG(f.seed, p.digest()))
	best, trial := newLayout(m), newLayout(m)
	jobs := max(1, len(p.jobs))
	if p.Leave != nil {
		jobs = max(1, len(p.s.Jobs))
	}
	rounds := min(rounds, max(minRounds, roundsPerJob/jobs))
	builds := min(rounds, max(minBuilds, perJob/jobs))
	for i := range rounds {
		dual := m.market.ask()
		if i == 0 && p.Leave != nil {
			best.build(m.held())
		}
		if i == 0 || i*builds/rounds != (i-1)*builds/rounds {
			if i > 0 {
				m.market.distort([...]float64{0, 0.03, 0.1}[i%3], rng) // exact, slightly distorted, more distorted
			}
			m.trim(m.market.choice)
			trial.build(m.market.choice)
			if i == 0 && p.Leave == nil || trial.beats(best) {
				best, trial = trial, best
			}
		}
		m.market.step(dual, best.sum())
		if !less(m.market.bound, best.sum()) {
			return best.rows
		}
	}
	m.eager()
	d := newDescent(best, rng)
	d.run(best)
	return d.recall(d.polish(best, trial)).rows
}
