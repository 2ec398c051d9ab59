// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// On a small cluster: adaptive retries save failed attempts and lose no job,
// screening catches failures before the gang has its GPUs and costs little.
func TestFailures(t *testing.T) {
	c := repro.DefaultFailures()
	c.Jobs, c.Seeds, c.Cluster, c.Short = 1500, c.Seeds[:1], "8x8/4+8x2/8", true
	r, err := repro.Failures(c)
	if err != nil {
		t.Fatal(err)
	}
	fixed, adaptive, screen, both := r.Runs[0].Faults(), r.Runs[1].Faults(), r.Runs[2].Faults(), r.Runs[3].Faults()
	if adaptive.Attempts >= fixed.Attempts*9/10 {
		t.Errorf("%d attempts fail with adaptive retries, %d as recorded; want a tenth less at least", adaptive.Attempts, fixed.Attempts)
	}
	if screen.Attempts != fixed.Attempts {
		t.Errorf("%d attempts fail with screening, %d without; screening alone changes only where", screen.Attempts, fixed.Attempts)
	}
	_, gangs, _ := r.Failing()
	if n := both.CaughtJobs; n < gangs/4 || n > gangs {
		t.Errorf("%d of %d failing gangs are caught in the pool; want a quarter at least", n, gangs)
	}
	if held := r.Runs[3].Held(); both.ScreenGPUs <= 0 || both.ScreenGPUs > 0.01*held {
		t.Errorf("screening holds %.0f of %.0f GPU-seconds; want some, and less than 1 %%", both.ScreenGPUs, held)
	}
	for _, run := range r.Runs {
		if n := run.Results[0].Unfinished; n > 0 {
			t.Errorf("%s: %d jobs have not ended", run.Name, n)
		}
	}
	var page bytes.Buffer
	if err := r.Markdown(&page, "images"); err != nil {
		t.Fatal(err)
	}
	charts := r.Charts()
	for _, want := range []string{"| both |", "| syntax error |", "| >8 GPUs |", "(images/philly-failures-wasted.svg)"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if c := charts["philly-failures-attempts.svg"]; len(c.Bars) != 4 || c.Bars[3].Value >= c.Bars[0].Value {
		t.Errorf("failed attempts of gangs: %v; want fewer with both", c.Bars)
	}
}
