// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSimilarityOrder(t *testing.T) {
	job := Key{Model: "bert", Dataset: "squad", User: "ann", Script: "train.py"}
	nameless := Key{Dataset: "squad", User: "ann", Script: "train.py"}
	// Best first, for the first key of each line.
	for _, order := range [][]Key{
		{
			job,
			job,
			{Model: "bert", Dataset: "squad", User: "bob", Script: "train.py"},
			{Model: "bert", Dataset: "squad", User: "ann", Script: "eval.py"},
			{Model: "bert", Dataset: "squad"},
			{Model: "bert", Dataset: "imdb", User: "ann", Script: "train.py"},
			{Model: "bert", Script: "train.py"},
			{Model: "bert", User: "ann"},
			{Model: "bert"},
			nameless,
			{User: "ann", Script: "train.py"},
			{Script: "train.py"},
			{User: "ann"},
		},
		{nameless, job, {Script: "train.py", Model: "bert"}, {User: "ann"}},
	} {
		last := 2.0
		for _, past := range order[1:] {
			got := order[0].Similarity(past)
			if !(got > 0 && got <= 1 && got < last) {
				t.Errorf("%+v and %+v: similarity %v; want more than 0 and less than %v", order[0], past, got, last)
			}
			last = got
		}
	}
	if got := job.Similarity(job); got != 1 {
		t.Errorf("the same key: similarity %v, want 1", got)
	}
	for _, past := range []Key{
		{},
		{Dataset: "squad"},
		{Model: "gpt", Dataset: "squad", User: "ann", Script: "train.py"},
		{User: "bob", Script: "eval.py"},
	} {
		if got := job.Similarity(past); got != 0 {
			t.Errorf("%+v: similarity %v, want 0", past, got)
		}
	}
	if got := (Key{}).Similarity(Key{}); got != 0 {
		t.Errorf("two empty keys: similarity %v, want 0", got)
	}
}

func keys() *rapid.Generator[Key] {
	name := rapid.SampledFrom([]string{"", "a", "b"})
	return rapid.Custom(func(t *rapid.T) Key {
		return Key{Model: name.Draw(t, "model"), Dataset: name.Draw(t, "dataset"), User: name.Draw(t, "user"), Script: name.Draw(t, "script")}
	})
}

func TestSimilarityRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys().Draw(t, "a"), keys().Draw(t, "b")
		s := a.Similarity(b)
		if back := b.Similarity(a); s != back {
			t.Fatalf("similarity %v, the other way round %v", s, back)
		}
		sameModel := a.Model != "" && a.Model == b.Model
		differs := a.Model != b.Model && a.Model != "" && b.Model != ""
		switch {
		case differs && s != 0:
			t.Fatalf("models differ, similarity %v", s)
		case sameModel != (s >= 8./15):
			t.Fatalf("similarity %v; want 8/15 and above exactly for the same model", s)
		}
	})
}

func TestKeyValidate(t *testing.T) {
	for _, c := range []struct {
		key  Key
		want string // part of the error; "": none
	}{
		{Key{}, ""},
		{Key{Model: "größe <7b> \"x\"", Script: strings.Repeat("s", maxText)}, ""},
		{Key{Model: strings.Repeat("s", maxText+1)}, "model ="},
		{Key{Dataset: "a\nb"}, `dataset = "a\nb"`},
		{Key{User: "\xff"}, "user ="},
		{Key{Script: "a\u2028b"}, "script ="},
	} {
		err := c.key.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.key, err, c.want)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }
