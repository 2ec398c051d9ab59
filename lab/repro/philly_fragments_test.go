// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// On a small cluster, moves shorten the delay of large gangs, do not spread them
// more, and cost next to nothing.
func TestFragments(t *testing.T) {
	c := repro.FragmentsConfig{Jobs: 3000, Seed: 1, Cluster: "30x8/10+30x2/15", Load: 0.84}
	f, err := repro.RunFragments(c)
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]repro.FragmentsRun{}
	for _, r := range f.Runs {
		run[r.Name] = r
		if r.Result.Unfinished > 0 {
			t.Errorf("%s: %d jobs have not ended", r.Name, r.Result.Unfinished)
		}
	}
	delay := func(name string) float64 { return run[name].Delay(">8", 9, 1<<30).Mean }
	if a, b := delay("fixed"), delay("strict"); !(a < b) {
		t.Errorf("gangs above 8 GPUs: %.0f s when locality is relaxed, %.0f s when not; want less", a, b)
	}
	if a, b := delay("+defrag"), delay("ladder"); !(a < b) {
		t.Errorf("gangs above 8 GPUs: %.0f s with moves, %.0f s without; want less", a, b)
	}
	if a, b := run["+defrag"].Spread(), run["ladder"].Spread(); a > b+0.01 {
		t.Errorf("moves leave %.1f %% of gangs' time spread, %.1f %% without; want no more", 100*a, 100*b)
	}
	if d := run["+defrag"].Result; d.Moved == 0 || d.Ledger == nil || d.Ledger.Layers[0].Gain < 2*d.Ledger.Layers[0].Cost {
		t.Errorf("%d moves, ledger %v; want some, which pay", d.Moved, d.Ledger)
	}
	if run["ladder"].Result.Ledger != nil {
		t.Error("a run without the layer has a ledger")
	}
	var out bytes.Buffer
	if err := f.Markdown(&out, "images"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"philly:relax=proportional@defrag:saves=all@reserve", "![Delay", "2-4 GPUs: mean"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	for name, chart := range f.Charts() {
		out.Reset()
		if err := chart.Write(&out); err != nil || !strings.Contains(out.String(), "+defrag") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
