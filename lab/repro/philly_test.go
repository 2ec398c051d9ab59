// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// small is a small cluster of Philly's kind.
var small = repro.PhillyConfig{Jobs: 8000, Seeds: 1, Cluster: "60x8/12+60x2/30", Workers: 2}

// The finding of the Philly paper, on a small cluster: large gangs wait for
// GPUs close to each other, and giving up locality helps them most.
func TestPhillyFinding(t *testing.T) {
	run := func(policy string) repro.PhillyRun {
		r, err := small.Run(repro.PhillyRegime{Policy: policy, Load: 0.8}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	on, off, atOnce := run("philly"), run("philly:relax=off"), run("philly:relax=at-once")
	for _, size := range []struct{ least, most int }{{5, 8}, {9, 1 << 30}} {
		if c := on.Causes(size.least, size.most); c.Fragments <= c.FairShare || c.Fragments < 5 {
			t.Errorf("%d to %d GPUs: %+v; want more that wait for locality than for their share", size.least, size.most, c)
		}
	}
	wait := func(r repro.PhillyRun, least, most int) float64 {
		w, jobs := r.Wait(least, most)
		if jobs == 0 {
			t.Fatalf("no jobs of %d to %d GPUs", least, most)
		}
		return w
	}
	few := wait(off, 2, 4) - wait(on, 2, 4)
	many := wait(off, 9, 1<<30) - wait(on, 9, 1<<30)
	if !(many > 0 && many > 2*few) {
		t.Errorf("relaxing saves gangs of 2 to 4 GPUs %.0f s and those above 8 GPUs %.0f s; want most for the large", few, many)
	}
	if a, b := wait(atOnce, 9, 1<<30), wait(off, 9, 1<<30); a >= b {
		t.Errorf("above 8 GPUs: %.0f s without locality, %.0f s with; want less without", a, b)
	}
}

func TestPhillyPage(t *testing.T) {
	c := small
	c.Jobs, c.Seeds = 500, 2
	p, err := repro.RunPhilly(c)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p.Print(&out)
	for _, want := range []string{"97.9 % of 3183", "`philly:gather=true`", "seeds 1 to 2", "cannot be had from public data"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, out.String())
		}
	}
}
