// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched/num"
)

// TestRecovery: on a small cluster every part helps, or at least does not hurt, and the
// page says what was found.
func TestRecovery(t *testing.T) {
	c := DefaultRecovery()
	c.Nodes, c.Days, c.Jobs, c.Seeds = 100, 6, 60, []uint64{1, 2}
	r, err := RunRecovery(c)
	if err != nil {
		t.Fatal(err)
	}
	before := num.Mean(r.Disk.of(ettr))
	for i, row := range r.With {
		now := num.Mean(row.of(ettr))
		if now < before-0.002 || num.Mean(r.Alone[i].of(ettr)) < num.Mean(r.Disk.of(ettr))-0.002 {
			t.Errorf("%s: effective training time %.4f, before %.4f", row.Name, now, before)
		}
		before = now
	}
	if disk := num.Mean(r.Disk.of(ettr)); disk > 0.98 || before < 0.98 {
		t.Errorf("effective training time %.4f from disk and %.4f with all parts; want below and above 0.98", disk, before)
	}
	var page strings.Builder
	r.Print(&page, "images")
	for _, want := range []string{"800 GPUs (100 nodes of 8)", "| + spares |", "| 9600 | 2 |", "all but it", "## What the simulation leaves out", "| yes |"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in the page:\n%s", want, page.String())
		}
	}
	if chart := r.Charts()["failures.svg"]; len(chart.Bars) != 8 {
		t.Errorf("%d bars; want one for each part, and one without", len(chart.Bars))
	}
}
