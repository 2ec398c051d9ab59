// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// configOf returns the settings that all runs of a policy share.
func configOf(spec string) (sim.Config, error) {
	table := policy.Builtin()
	p, err := table.New(spec)
	if err != nil {
		return sim.Config{}, err
	}
	z, err := zoo.Builtin()
	if err != nil {
		return sim.Config{}, err
	}
	about := table.About(spec)
	return sim.Config{
		Policy: p, Name: spec, Zoo: z, Interference: sim.PerModel,
		CoAdapt: about.Agents, Losses: about.Losses, Oracle: about.Oracle, UsesEstimates: about.Estimates,
		Coordinator: about.Coordinator,
	}, nil
}

// label names a policy in a table and marks an oracle.
func label(spec string, oracle bool) string {
	if oracle {
		return "`" + spec + "` (oracle)"
	}
	return "`" + spec + "`"
}

// PrintClaims writes a table of claims and whether they hold.
func PrintClaims(w io.Writer, claims []Claim) {
	fmt.Fprint(w, `
## Claims

| claim | target | ours | holds |
|---|---|---|---|
`)
	for _, c := range claims {
		holds := "yes"
		if !c.Holds {
			holds = "**no**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", c.What, c.Want, c.Ours, holds)
	}
}

// The smallest gains over exclusive GPUs in the Horus paper.
const (
	horusUtil     = 32.0 // percent
	horusMakespan = -24.0
)

// Claims returns the claims about sharing.
func (h *HorusShare) Claims() []Claim {
	util, makespan, _ := h.Gains("horus")
	plus, plain := row(h.Main, "horus+"), row(h.Main, "horus")
	return []Claim{
		{"utilisation of `horus` against exclusive FIFO", fmt.Sprintf("%+.0f %% or more", horusUtil), fmt.Sprintf("%+.0f ± %.0f %%", util.Mean, util.Spread), util.Mean >= horusUtil},
		{"makespan of `horus` against exclusive FIFO", fmt.Sprintf("%+.0f %% or less", horusMakespan), fmt.Sprintf("%+.0f ± %.0f %%", makespan.Mean, makespan.Spread), makespan.Mean <= horusMakespan},
		{"median wait of `horus+`", "below that of `horus`", fmt.Sprintf("%.2f h, `horus` %.2f h (means %.2f and %.2f h)", plus.P50Wait/3600, plain.P50Wait/3600, plus.AvgWait/3600, plain.AvgWait/3600), plus.P50Wait < plain.P50Wait},
	}
}
