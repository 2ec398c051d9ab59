// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/fairway-gpu/fairway/lab/progress"
	"github.com/fairway-gpu/fairway/sim"
)

// showRun returns a callback that draws the progress of a simulation.
func showRun(b *progress.Bar, name string) func(sim.Progress) {
	return func(p sim.Progress) {
		b.Show(name, p.Ended, p.Jobs, fmt.Sprintf("%d/%d jobs, %s simulated, %d decisions", p.Ended, p.Jobs, human(p.Now.Seconds()), p.Decisions))
	}
}

// human prints seconds in the unit a person would choose.
func human(s float64) string {
	switch {
	case s < 0:
		return "-"
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.1f min", s/60)
	case s < 2*86400:
		return fmt.Sprintf("%.2f h", s/3600)
	}
	return fmt.Sprintf("%.1f d", s/86400)
}
