// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/tune/search"
)

var space = search.Space{
	{Name: "lr", Kind: search.LogFloat, Low: 1e-4, High: 1},
	{Name: "layers", Kind: search.Int, Low: 1, High: 2},
	{Name: "optimiser", Kind: search.Choice, Choices: []string{"sgd", "adam"}},
}

func newSource(t *testing.T, m Method, trials int) Source {
	t.Helper()
	s, err := NewSource(SourceConfig{Method: m, Space: space, Seed: 7, Trials: trials})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGrid(t *testing.T) {
	s := newSource(t, Grid, 0)
	var got []string
	for i := range 100 {
		p, ok := s.Next(i, nil)
		if !ok {
			break
		}
		got = append(got, space.Text(p))
	}
	if len(got) != 3*2*2 || GridSize(SourceConfig{Space: space}, 1000) != 12 || GridSize(SourceConfig{Space: space}, 5) != 5 {
		t.Errorf("%d trials, size %d; want 12", len(got), GridSize(SourceConfig{Space: space}, 1000))
	}
	want := []string{"lr=0.0001 layers=1 optimiser=sgd", "lr=0.0001 layers=1 optimiser=adam", "lr=0.0001 layers=2 optimiser=sgd"}
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(got[4], "lr=0.01 ") || !strings.HasPrefix(got[11], "lr=1 ") {
		t.Errorf("%q and %q; want the middle and the end of the range in its logarithm", got[4], got[11])
	}
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != 12 {
		t.Errorf("%d different trials; want 12", n)
	}
}

// A source has no memory: asked again, it says the same.
func TestSourcesRepeat(t *testing.T) {
	for _, m := range Methods() {
		s := newSource(t, m, 30)
		var seen []Outcome
		var first []search.Params
		for i := range 12 {
			p, _ := s.Next(i, seen)
			if again, _ := newSource(t, m, 30).Next(i, seen); !cmp.Equal(p, again) {
				t.Errorf("%s: trial %d is %v, then %v", m, i, p, again)
			}
			if !space.Contains(p) {
				t.Errorf("%s: %v is not in the space", m, p)
			}
			first = append(first, p)
			seen = append(seen, Outcome{p, math.Abs(math.Log10(p[0]) + 2)})
		}
		if m == Random && cmp.Equal(first[0], first[1]) {
			t.Error("two random trials are the same")
		}
	}
	if _, err := NewSource(SourceConfig{Method: "luck", Space: space}); err == nil || !strings.Contains(err.Error(), "method") {
		t.Errorf("%v; want an error about the method", err)
	}
	if _, err := NewSource(SourceConfig{Method: Random}); err == nil {
		t.Error("a space with nothing in it is accepted")
	}
}

// TPE learns which way to go, for both goals.
func TestTPELearns(t *testing.T) {
	for _, goal := range []Goal{Minimise, Maximise} {
		s, err := NewSource(SourceConfig{Method: TPE, Space: space, Goal: goal, Seed: 3, Trials: 60})
		if err != nil {
			t.Fatal(err)
		}
		sign := 1.0
		if goal == Maximise {
			sign = -1
		}
		var seen []Outcome
		early, late := 0.0, 0.0
		for i := range 60 {
			p, _ := s.Next(i, seen)
			distance := math.Abs(math.Log10(p[0]) + 2)
			seen = append(seen, Outcome{p, sign * distance})
			switch {
			case i < 20:
				early += distance / 20
			case i >= 40:
				late += distance / 20
			}
		}
		if late > 0.6*early {
			t.Errorf("%s: %.2f decades from the best at first, %.2f in the end; want it closer", fmt.Sprint(goal), early, late)
		}
	}
}
