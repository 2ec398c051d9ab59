// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

const setHead = "status,model_a,batch_a,solo_ms_a,solo_util_a,slowdown_a,model_b,batch_b,solo_ms_b,solo_util_b,slowdown_b,model_c,batch_c,solo_ms_c,solo_util_c,slowdown_c\n"

// Three jobs of which the pairs are known: products of the pairs are right here, and
// twice the utilisation follows from half of the step.
const sets = setHead +
	"ok,x,1,10,50,2,y,1,10,50,1.5,,,,,\n" +
	"ok,x,1,10,50,1.5,z,1,10,50,1,,,,,\n" +
	"ok,y,1,10,50,2,z,1,10,50,1,,,,,\n" +
	"ok,x,1,10,50,3,y,1,10,50,3,z,1,10,50,1\n"

func TestTriples(t *testing.T) {
	folder := fstest.MapFS{
		"g-triples.csv": {Data: []byte(sets)},
		"g-solo.csv":    {Data: []byte(soloHead + "x,1,ok,20,20\n")},
	}
	got, err := ReadSets(folder, "g")
	if err != nil || len(got) != 4 || len(got[0]) != 2 || len(got[3]) != 3 {
		t.Fatalf("%d sets, %v; want three pairs and a triple", len(got), err)
	}
	if u := got[3][0].Load.Util; u != 0.4 {
		t.Errorf("utilisation %g; want 0.4: the step takes half as long here", u)
	}
	m, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Triples(got, m) {
		if exact := s.Method == "product of measured pairs"; exact != (s.AbsError < 1e-9) || math.IsNaN(s.Bias) || s.Triples != 1 {
			t.Errorf("%+v; want no error of the product, and one triple", s)
		}
	}
	if none, err := ReadSets(folder, "h"); len(none) > 0 || err != nil {
		t.Errorf("%d sets of a GPU without them, %v; want none", len(none), err)
	}
	folder["g-triples.csv"].Data = []byte(strings.Replace(sets, ",3,", ",x,", 1))
	if _, err := ReadSets(folder, "g"); err == nil || !strings.Contains(err.Error(), `line 5, column 14: slowdown_a "x"`) {
		t.Errorf("%v; want the position of the bad number", err)
	}
}

func FuzzReadSets(f *testing.F) {
	f.Add(sets)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readSets(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		for _, s := range got {
			if len(s) < 2 || len(s) > 3 || !(s[0].Slowdown > 0) {
				t.Errorf("accepted %+v", s)
			}
		}
	})
}
