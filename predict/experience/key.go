// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Key identifies the kind of work of a job. Unknown fields are empty.
type Key struct {
	Model   string `json:"model,omitempty"` // name or signature: what is trained
	Dataset string `json:"dataset,omitempty"`
	User    string `json:"user,omitempty"`
	Script  string `json:"script,omitempty"`
}

// Each field has more weight than all fields below it together, so that the sum
// orders keys as Similarity says.
const (
	sameUser = 1 << iota
	sameScript
	sameDataset
	sameModel
	sameAll = sameModel | sameDataset | sameScript | sameUser
)

// agreement returns what two keys have in common, 0 if they do not match.
func agreement(a, b Key) int {
	if a.Model != "" && b.Model != "" && a.Model != b.Model {
		return 0
	}
	common := 0
	for _, f := range []struct {
		a, b string
		bit  int
	}{
		{a.Model, b.Model, sameModel}, {a.Dataset, b.Dataset, sameDataset},
		{a.Script, b.Script, sameScript}, {a.User, b.User, sameUser},
	} {
		if f.a != "" && f.a == f.b {
			common |= f.bit
		}
	}
	if common == sameDataset {
		return 0 // a dataset alone says nothing about the model
	}
	return common
}

// Similarity says how similar a past job is, from 0 (not at all) to 1. It is
// symmetric. Fields that are known and equal add up, the model most, then the
// dataset, the script and the user, each more than all that follow it:
//
//	model, dataset and script    14/15, and 1 with the user
//	model and dataset            12/15 and above
//	model                         8/15 and above
//	script, or user               1/15 and above: only if one model is unknown
//
// It is 0 if both models are known and differ, or if nothing but the dataset is
// equal.
func (k Key) Similarity(past Key) float64 { return float64(agreement(k, past)) / sameAll }

// findable reports whether another key can be similar to it.
func (k Key) findable() bool { return agreement(k, k) != 0 }

func (k Key) compare(other Key) int {
	return cmp.Or(
		cmp.Compare(k.Model, other.Model), cmp.Compare(k.Dataset, other.Dataset),
		cmp.Compare(k.Script, other.Script), cmp.Compare(k.User, other.User))
}

// The longest names, in bytes. With the bounds of a pool they keep its file below
// MaxFile.
const (
	maxText = 256 // of a field of a key
	maxType = 64  // of a type of GPU
)

// Validate reports the first field that cannot be stored.
func (k Key) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"model", k.Model}, {"dataset", k.Dataset}, {"user", k.User}, {"script", k.Script},
	} {
		if !keepable(f.value, maxText) {
			return fmt.Errorf("%s = %.60q; want printable text of at most %d bytes", f.name, f.value, maxText)
		}
	}
	return nil
}

// keepable reports whether a text survives a round trip through a file, and takes at
// most twice its length there.
func keepable(text string, most int) bool {
	if len(text) > most || !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
