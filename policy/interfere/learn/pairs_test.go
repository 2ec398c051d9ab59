// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

const head = "model_a,batch_a,model_b,batch_b,mode,status,solo_ms_a,solo_ms_b,slowdown_a,slowdown_b,solo_util_a,solo_util_b,session,note\n"

func TestReadPairs(t *testing.T) {
	got, err := ReadPairs(strings.NewReader(head+
		"lenet,64,resnet,8,time-slice,ok,2,20,1.25,1.5,20,50,s1,\n"+
		"lenet,64,bert,8,time-slice,oom,,,,,,,s1,no room\n"+
		"bert,8,resnet,8,mps,ok,40,20,1.1,3,100,50,s2,\n"), "pairs.csv")
	if err != nil {
		t.Fatal(err)
	}
	resnet := Side{Key{"resnet", 8}, interfere.Load{Util: 0.5, Step: 0.02}, 1.5}
	slowed := resnet
	slowed.Slowdown = 3
	want := []Pair{
		{interfere.TimeSlice, "s1", [2]Side{{Key{"lenet", 64}, interfere.Load{Util: 0.2, Step: 0.002}, 1.25}, resnet}, 1},
		{interfere.MPS, "s2", [2]Side{{Key{"bert", 8}, interfere.Load{Util: 1, Step: 0.04}, 1.1}, slowed}, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if mps := OfMode(got, interfere.MPS); len(mps) != 1 || mps[0].Sides[0].Model != "bert" {
		t.Errorf("of mode mps: %v; want the last pair", mps)
	}
}

func TestReadPairsErrors(t *testing.T) {
	const row = "lenet,64,resnet,8,time-slice,ok,2,20,1.25,1.5,20,50,s1,\n"
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"a,b\n", "no column mode"},
		{head + strings.Replace(row, "time-slice", "turns", 1), `line 2, column 19: mode "turns"; want time-slice or mps`},
		{head + strings.Replace(row, ",64,", ",x,", 1), `line 2, column 7: batch_a "x"`},
		{head + strings.Replace(row, "1.25", "NaN", 1), `slowdown_a "NaN"; want a number from 0.01 to 1000`},
		{head + row + strings.Replace(row, ",50,", ",150,", 1), `line 3, column 50: solo_util_b "150"`},
		{head + strings.Replace(row, "lenet", "", 1), `model_a ""; want the name`},
		{head + "lenet,64\n", "wrong number of fields"},
		{head + `"`, "parse error"},
		{head + strings.Repeat("#", maxBytes), "more than 16777216 bytes"},
	} {
		if _, err := ReadPairs(strings.NewReader(c.text), "pairs.csv"); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "pairs.csv") {
			t.Errorf("%.200q: %v; want %q", c.text, err, c.want)
		}
	}
}

func FuzzReadPairs(f *testing.F) {
	f.Add([]byte(head + "lenet,64,resnet,8,time-slice,ok,2,20,1.25,1.5,20,50,s1,\n"))
	f.Add([]byte(head + "lenet,64,bert,8,time-slice,oom,,,,,,,s1,no room\n"))
	f.Add([]byte("\ufeff" + head + "\"a\nb\",1,c,1,mps,ok,1e-3,1e6,0.01,1000,0,100,,"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pairs, err := ReadPairs(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		for _, p := range pairs {
			for _, s := range p.Sides {
				if s.Model == "" || s.Batch < 1 || !(s.Slowdown > 0) || !(s.Load.Step > 0) || s.Load.Util < 0 || s.Load.Util > 1 {
					t.Errorf("accepted %+v", p)
				}
			}
		}
	})
}
