// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// The target: gavel's average JCT within 5 % of the Sia artifact's simulator. "fairway
// repro mixed" runs sia too.
func TestAgainstTheSiaArtifact(t *testing.T) {
	dir := filepath.Join(filepath.Dir(dataFolder(t)), "sia")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the Sia artifact is not at %s; set FAIRWAY_TEST_DATA", dir)
	}
	rows, err := repro.Sia(os.DirFS(dir), nil, "gavel:throughput")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Logf("%s on %s: avg JCT, p99, makespan %.0f s; reference %.0f s", r.Policy, r.Workload, r.Ours, r.Reference)
		if off := r.Ours[0]/r.Reference[0] - 1; r.Reference[0] > 0 && r.Ours[0] > 0 && math.Abs(off) > 0.05 {
			t.Errorf("%s on %s is off by %.1f %%", r.Policy, r.Workload, 100*off)
		}
	}
	var page strings.Builder
	repro.PrintSia(&page, rows)
	for _, want := range []string{"| `sia` | philly/workload-2 |", "6474", "another workload"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
}
