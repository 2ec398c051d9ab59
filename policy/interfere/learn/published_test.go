// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

const (
	aloneHead = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label\n"
	pairHead  = ",model1,dataset1,gpu_num1,batchsize1,amp1,speed1,model2,dataset2,gpu_num2,batchsize2,amp2,speed2,gpu_util,gmem_util,gmem\n"
	alone2    = aloneHead + "light,X,32,0,3200,20,5,2000,0\nheavy,Y,64,1,640,99,60,9000,2\n"
	// Two light jobs hardly slow each other down; a light and a heavy one do, one of
	// them by more than 15 %; the third pair keeps its mean speed, but not both.
	pair3 = pairHead + "0,light,X,1,32,0,0.98,light,X,1,32,0,0.97,40,9,4000\n" +
		"1,light,X,1,32,0,0.9,heavy,Y,1,64,1,0.6,99,60,11000\n" +
		"2,light,X,1,32,0,0.8,light,X,1,32,0,0.95,40,9,4000\n"
)

func published(alone, pairs string) fstest.MapFS {
	return fstest.MapFS{publishedSolo: {Data: []byte(alone)}, publishedPairs: {Data: []byte(pairs)}}
}

func TestReadPublished(t *testing.T) {
	p, err := ReadPublished(published(alone2, pair3))
	if err != nil {
		t.Fatal(err)
	}
	heavy := Key{"heavy/Y/amp1", 64}
	if side := p.Pairs[1].Sides[1]; len(p.Pairs) != 3 || side.Key != heavy || side.Load != (interfere.Load{Util: 0.99, Step: 0.1}) || side.Slowdown != 1/0.6 {
		t.Errorf("%d pairs, the second with %+v; want 3, with %v of 99 %% and 100 ms at 0.6 of its speed", len(p.Pairs), p.Pairs[1].Sides[1], heavy)
	}
	if p.Score[heavy] != 2 {
		t.Errorf("score %d; want 2", p.Score[heavy])
	}
	m, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	got := p.Judge(m)
	if got.Pairs != 3 || got.Safe != 1 || got.Mean != 2 {
		t.Errorf("%+v; want 3 pairs, both jobs safe in the first, the mean in the first and third", got)
	}
	for _, c := range got.Cuts[1:] {
		if strings.Contains(c.Method, "2") {
			continue // this score accepts all three
		}
		if strings.Contains(c.Method, "elsewhere") {
			if c.Called != 0 {
				t.Errorf("%+v; want no pair called safe: no pair of other models says which limit is", c)
			}
			continue
		}
		if c.Called != 2 || c.Right != 1 || c.Mean != 2 {
			t.Errorf("%+v; want the two light pairs called safe, of which one is and both are on average", c)
		}
	}
}

// A limit is chosen on the pairs of other models: the model whose pairs are all slowed is
// judged by a limit that has not seen them.
func TestChosenLimit(t *testing.T) {
	m, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	p := &Published{}
	const models = 2 * chosenFolds
	for i := range models {
		for k := range i {
			slowdown := 1.0
			if k == 0 {
				slowdown = 1.5
			}
			side := func(n int) Side {
				return Side{Key{fmt.Sprint("m", n), 32}, interfere.Load{Util: 0.1, Step: 0.01}, slowdown}
			}
			p.Pairs = append(p.Pairs, Pair{Sides: [2]Side{side(i), side(k)}, HostSlower: 1})
		}
	}
	// With the slowed model in sight no limit reaches 98 %, so only pairs that are held
	// out together with it are called safe: its own, and others of its fold.
	c := p.chosen(m)
	if wrong := c.Called - c.Right; wrong != models-1 || c.Called >= len(p.Pairs)/2 {
		t.Errorf("%+v of %d pairs; want the %d pairs of the slowed model called safe, and few others", c, len(p.Pairs), models-1)
	}
}

func TestReadPublishedErrors(t *testing.T) {
	for _, c := range []struct{ alone, pairs, want string }{
		{"model\n", pair3, "single_data.csv: no column dataset"},
		{alone2, pairHead + "0,other,X,1,32,0,1,light,X,1,32,0,1,1,1,1\n", `colocate_info.csv: line 2, column 3: model1 "other"; want a job of single_data.csv`},
		{strings.Replace(alone2, "3200", "0", 1), pair3, `speed "0"; want a number from 0.001`},
		{strings.Replace(alone2, ",99,", ",101,", 1), pair3, `gpu_util "101"; want a number from 0 to 100`},
		{alone2, strings.Replace(pair3, "0.98", "NaN", 1), `speed1 "NaN"`},
		{alone2, strings.Replace(pair3, "1,32,0,0.98", "1,x,0,0.98", 1), `batchsize1 "x"`},
		{alone2, pairHead + strings.Repeat("#", maxBytes), "more than 16777216 bytes"},
	} {
		if _, err := ReadPublished(published(c.alone, c.pairs)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}

func FuzzReadPublished(f *testing.F) {
	f.Add(alone2, pair3)
	f.Add(aloneHead, pairHead)
	f.Fuzz(func(t *testing.T, alone, pairs string) {
		p, err := ReadPublished(published(alone, pairs))
		if err != nil {
			return
		}
		for _, pair := range p.Pairs {
			for _, s := range pair.Sides {
				if s.Batch < 1 || !(s.Slowdown > 0) || !(s.Load.Step > 0) || !(s.Load.Util >= 0 && s.Load.Util <= 1) {
					t.Errorf("accepted %+v", pair)
				}
			}
		}
	})
}

// TestTransfer: what docs/interference.md says of the pairs that Lucid's authors
// published.
func TestTransfer(t *testing.T) {
	folder := filepath.Join(cmp.Or(os.Getenv("FAIRWAY_TEST_DATA"), "../../../../shared/data"), "lucid")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("no published pairs: ", err)
	}
	p, err := ReadPublished(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	m, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	got := p.Judge(m)
	for _, c := range got.Cuts {
		precision, recall := float64(c.Right)/float64(c.Called), float64(c.Right)/float64(got.Safe)
		if c.Method == Ours && c.Limit == interfere.DefaultLimit && (precision < 0.96 || recall < 0.75) {
			t.Errorf("by the default limit %.3f of the pairs called safe are, %.3f of all; want 0.96 and 0.75", precision, recall)
		}
		if c.Method == Ours && c.Limit == 1.095 && (precision < 0.98 || recall < 0.5) {
			t.Errorf("by the strictest limit %.3f of the pairs called safe are, %.3f of all; want 0.98 and 0.5", precision, recall)
		}
	}
}
