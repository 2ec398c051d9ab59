// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
	"github.com/fairway-gpu/fairway/policy"
)

// TestMixedListsEveryPolicy, on a small mix. sia, which plans by type, must beat
// fifo, which does not.
func TestMixedListsEveryPolicy(t *testing.T) {
	c := repro.DefaultMixed()
	c.Jobs, c.Largest, c.Seeds = 8, []int{4}, []uint64{1}
	runs, err := repro.Mixed(c)
	if err != nil {
		t.Fatal(err)
	}
	jct := map[string]float64{}
	for _, r := range runs {
		jct[r.Policy] = r.JCT[0]
	}
	if len(jct) < 20 || jct["sia"] == 0 || jct["sia"] >= jct["fifo"] {
		t.Errorf("average JCT by policy: %v; want at least 20 policies and sia ahead of fifo", jct)
	}
	var page strings.Builder
	repro.PrintMixed(&page, c, runs)
	wants := []string{"| `sia` | yes |", "| `themis` |", "`gavel`"}
	for _, v := range policy.Builtin()["gavel"].Variants {
		if v.Name != "packing" { // the others are goals
			wants = append(wants, "| `gavel:"+v.Name+"` | yes |")
		}
	}
	for _, want := range wants {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
}
