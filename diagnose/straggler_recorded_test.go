// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"encoding/json"
	"os"
	"testing"
)

// TestRecordedGangs: nothing is wrong with these real gangs of four processes, but they
// share two cores with a dozen others that compute and compile: windows differ by 20 %
// and more (python/bench/pace.py).
func TestRecordedGangs(t *testing.T) {
	text, err := os.ReadFile("testdata/pace.json")
	if err != nil {
		t.Fatal(err)
	}
	var gangs []struct {
		Name  string
		Quiet [][]float64
	}
	if err := json.Unmarshal(text, &gangs); err != nil {
		t.Fatal(err)
	}
	for _, g := range gangs {
		if len(g.Quiet) < 2*paceWindows {
			t.Errorf("%s: %d windows; want more", g.Name, len(g.Quiet))
		}
		var p Pace
		for i, w := range g.Quiet {
			p.Add(w)
			if s := p.Stragglers(); len(s) > 0 {
				t.Errorf("%s: %v found slow in window %d; want none", g.Name, s, i)
			}
		}
	}
}
