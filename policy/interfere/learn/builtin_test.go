// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

func measured(t *testing.T) []Pair {
	t.Helper()
	pairs, err := Read(os.DirFS("../../../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

// TestBuiltinIsFitted: the model that comes with Fairway is the fit to the
// measurements that do.
func TestBuiltinIsFitted(t *testing.T) {
	want, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Model(measured(t), "h200", want.Source)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run: fairway interfere fit --data lab/profiling/data --out policy/interfere/models/h200.json\n(-built in +fitted)\n%s", diff)
	}
}

// TestBars: what is promised of time-sliced pairs of models not seen.
func TestBars(t *testing.T) {
	scores, _, err := Evaluate(OfMode(measured(t), interfere.TimeSlice), ByModel, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ours := scores[0]
	if ours.Precision() < 0.95 || ours.Called < 50 {
		t.Errorf("%d of %d pairs called safe are; want 95 %% of at least 50", ours.Right, ours.Called)
	}
	if ours.AbsError > 0.08 {
		t.Errorf("mean absolute error %.3f; want at most 0.08", ours.AbsError)
	}
	for _, s := range scores[1:] {
		if s.AbsError < ours.AbsError {
			t.Errorf("%s errs by %.3f, less than ours by %.3f", s.Method, s.AbsError, ours.AbsError)
		}
	}
}

// TestAlign: a job that waits for its host is less busy on a slower one.
func TestAlign(t *testing.T) {
	light, heavy := Key{"light", 8}, Key{"heavy", 64}
	pairs := []Pair{{Session: "slow", HostSlower: 1, Sides: [2]Side{
		{light, interfere.Load{Util: 0.4, Step: 0.02}, 1},
		{heavy, interfere.Load{Util: 1, Step: 0.1}, 1.5},
	}}}
	got := Align(pairs, map[Key]interfere.Load{light: {Util: 0.4, Step: 0.01}, heavy: {Util: 1, Step: 0.1}})[0]
	if l := got.Sides[0].Load; l.Util != 0.2 || l.Step != 0.02 {
		t.Errorf("light %+v; want half of 0.4, for the step takes twice as long", l)
	}
	if l := got.Sides[1].Load; l.Util != 1 {
		t.Errorf("heavy %+v; want it as it was", l)
	}
	if got.HostSlower != 2 {
		t.Errorf("host slower by %g; want 2", got.HostSlower)
	}
	if l := got.onHost(interfere.Load{Util: 0.6, Step: 0.03}); l.Util != 0.3 || l.Step != 0.06 {
		t.Errorf("a predicted load on that host %+v; want 0.3 and 60 ms", l)
	}
	if l := got.onHost(interfere.Load{Util: 0.95, Step: 0.03}); l.Util != 0.95 || l.Step != 0.03 {
		t.Errorf("a predicted load that fills the GPU %+v; want it as it was", l)
	}
	if pairs[0].Sides[0].Load.Util != 0.4 {
		t.Error("Align changed its argument")
	}
}

// TestBuiltinPairs: the pairs that slow jobs down in simulations are those that were
// measured.
func TestBuiltinPairs(t *testing.T) {
	var want strings.Builder
	if err := WritePairs(&want, measured(t)); err != nil {
		t.Fatal(err)
	}
	got, err := builtin.ReadFile("pairs/h200.csv")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("run: fairway interfere fit --data lab/profiling/data --pairs policy/interfere/learn/pairs/h200.csv\n(-measured +built in)\n%s", diff)
	}
	pairs, err := Builtin("h200")
	if err != nil || len(pairs) != 376 {
		t.Errorf("%d pairs, %v; want 376", len(pairs), err)
	}
	if none, err := Builtin("a100"); len(none) > 0 || err != nil {
		t.Errorf("%d pairs of a GPU that was not measured, %v; want none", len(none), err)
	}
}

// TestHalf: the model that policies use in experiments was fitted to pairs by which
// they are not judged.
func TestHalf(t *testing.T) {
	fitted, held := HoldOut(measured(t), 0.5)
	got, err := interfere.Default("h200-half")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Model(fitted, "h200-half", got.Source)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := WritePairs(&text, held); err != nil {
		t.Fatal(err)
	}
	have, err := builtin.ReadFile("pairs/h200-half.csv")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(text.String(), string(have)); diff != "" {
		t.Errorf("run the second example of fairway interfere fit --help\n(-measured +built in)\n%s", diff)
	}
	for _, p := range held {
		for _, q := range fitted {
			if p.Mode == q.Mode && p.Sides[0].Key == q.Sides[0].Key && p.Sides[1].Key == q.Sides[1].Key {
				t.Fatalf("%+v is in both halves", p)
			}
		}
	}
}
