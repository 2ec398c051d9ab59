// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// The finding of the Philly paper, on a small cluster: large gangs wait for
// GPUs close to each other, and giving up locality helps them most.
func TestPhillyFinding(t *testing.T) {
	c := repro.PhillyConfig{Jobs: 8000, Seed: 1, Cluster: "60x8/12+60x2/30", Load: 0.8}
	runs, err := repro.Philly(c)
	if err != nil {
		t.Fatal(err)
	}
	on, off, atOnce := runs[0], runs[1], runs[2]
	for _, size := range []struct{ least, most int }{{5, 8}, {9, 1 << 30}} {
		if share, frag := on.Causes(size.least, size.most); frag <= share || frag < 5 {
			t.Errorf("%d to %d GPUs: %d waited for their share, %d for locality; want more of the latter", size.least, size.most, share, frag)
		}
	}
	wait := func(r repro.PhillyRun, least, most int) float64 {
		w, jobs := r.Wait(least, most)
		if jobs == 0 {
			t.Fatalf("no jobs of %d to %d GPUs", least, most)
		}
		return w
	}
	small := wait(off, 2, 4) - wait(on, 2, 4)
	large := wait(off, 9, 1<<30) - wait(on, 9, 1<<30)
	if !(large > 0 && large > 2*small) {
		t.Errorf("relaxing saves gangs of 2 to 4 GPUs %.0f s and those above 8 GPUs %.0f s; want most for the large", small, large)
	}
	if a, b := wait(atOnce, 9, 1<<30), wait(off, 9, 1<<30); a >= b {
		t.Errorf("above 8 GPUs: %.0f s without locality, %.0f s with; want less without", a, b)
	}
	var out bytes.Buffer
	repro.PrintPhilly(&out, c, runs)
	for _, want := range []string{"| >8 |", "97.9 %", "philly:relax=off"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}
