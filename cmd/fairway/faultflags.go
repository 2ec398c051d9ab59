// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// screenLayer is what screens new jobs, in the spec of a policy.
const screenLayer = "@screen"

// faultFlags are those of runs in which failures depend on what is done about them.
type faultFlags struct {
	adaptive   bool
	screen     sched.Duration
	quarantine bool
	badNodes   float64
	hardware   string
}

func (f *faultFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.adaptive, "adaptive-retry", false, "retry only failures that a retry can fix, instead of as often as recorded")
	fl.TextVar(&f.screen, "screen", f.screen, "first run new gangs on one GPU for this long, such as 5m (adds layer "+screenLayer+" to each policy); 0s: off")
	fl.BoolVar(&f.quarantine, "quarantine", false, "quarantine nodes on which several jobs fail")
	fl.Float64Var(&f.badNodes, "bad-nodes", 0, "fraction of nodes that are faulty at any time, such as 0.005")
	fl.StringVar(&f.hardware, "failures", "", "let GPUs and nodes fail, at the rates and with the costs of recovery in this JSON `file`; {} for those of public reports (docs/failures.md)")
}

func (f *faultFlags) set() bool {
	return f.adaptive || f.screen > 0 || f.quarantine || f.badNodes > 0
}

// apply sets what the flags ask for. Without any, failures are as recorded.
func (f *faultFlags) apply(cfg *sim.Config) {
	if !f.set() {
		return
	}
	faults := sim.DefaultFaults()
	faults.Adaptive, faults.Screen, faults.Quarantine, faults.BadNodes = f.adaptive, f.screen.D(), f.quarantine, f.badNodes
	faults.Seed = cfg.Seed
	cfg.Faults = &faults
}

// readHardware reads the file that says how hardware fails; nil without one.
func (f *faultFlags) readHardware(seed uint64) (*sim.HardwareConfig, error) {
	if f.hardware == "" {
		return nil, nil
	}
	r, err := os.Open(f.hardware)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	h, err := sim.ReadHardware(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.hardware, err)
	}
	h.Seed = seed
	return h, nil
}

// check refuses what no simulation can be given.
func (f *faultFlags) check() error {
	if f.screen < 0 {
		return usagef("--screen %s: want 0s or more, such as 5m", f.screen)
	}
	if !(f.badNodes >= 0 && f.badNodes <= 0.5) {
		return usagef("--bad-nodes %g: want 0 to 0.5", f.badNodes)
	}
	return nil
}

// over puts the layers that flags stand for over a policy, unless it has them.
func (f *simFlags) over(spec string) (string, error) {
	if err := f.faults.check(); err != nil {
		return "", err
	}
	layers := map[string]bool{}
	for _, layer := range strings.Split(spec, "@")[1:] {
		name, _, _ := strings.Cut(layer, ":")
		layers[name] = true
	}
	switch f.share {
	case "off":
	case "auto":
		if !layers["share"] {
			spec += "@share"
		}
	default:
		return "", usagef("--share %q: want auto or off", f.share)
	}
	if f.faults.screen > 0 && !layers["screen"] {
		spec += screenLayer
	}
	return spec, nil
}

// printFaults says what failures cost in each run.
func printFaults(w io.Writer, runs []finishedRun) {
	for _, r := range runs {
		f := r.result.Faults
		if f == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s: %d failed attempts, %d of them while screening, %.1f GPU-hours wasted, %.1f GPU-hours of screening, %d quarantines\n",
			r.result.Policy, f.Attempts, f.Caught, f.Wasted/3600, f.ScreenGPUs/3600, f.Quarantines)
	}
}

// printHardware says what failing hardware cost in each run.
func printHardware(w io.Writer, runs []finishedRun) {
	for _, r := range runs {
		h := r.result.Hardware
		if h == nil {
			continue
		}
		part := h.Parts()
		fmt.Fprintf(w, "\n%s: effective training time %.2f %%; %d ranks and %d nodes lost, %d hangs, %d slow nodes, %d of them found\n",
			r.result.Policy, 100*h.ETTR, h.Ranks, h.Nodes, h.Hangs, h.Slow, h.Found)
		fmt.Fprintf(w, "  the rest: saving %.2f %%, undetected %.2f %%, redone %.2f %%, waiting %.2f %%, restarting %.2f %%, slowed %.2f %%\n",
			100*part.Saving, 100*part.Undetected, 100*part.Redone, 100*part.Waiting, 100*part.Restarting, 100*part.Slowed)
	}
}

// printPlans says how many starts of jobs with execution plans had measured speeds.
func printPlans(w io.Writer, runs []finishedRun) {
	for _, r := range runs {
		if p := r.result.Plans; p != nil {
			fmt.Fprintf(w, "\n%s: %d starts on placements that were measured under their plan, %d interpolated; %d changes of plan in place\n",
				r.result.Policy, p.Measured, p.Fitted, p.Changed)
		}
	}
}

// printLedgers says what was weighed up about moving jobs in each run.
func printLedgers(w io.Writer, runs []finishedRun) {
	const most = 40
	for _, r := range runs {
		fmt.Fprintf(w, "\n%s: ", r.result.Policy)
		_ = r.result.Ledger.Print(w, most) // standard output keeps its error
	}
}
