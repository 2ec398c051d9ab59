// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
	"testing"
)

func TestIndexes(t *testing.T) {
	for text, want := range map[string]struct {
		indexes []int
		most    int
	}{
		"0-3": {[]int{0, 1, 2, 3}, 0}, "0-3%2": {[]int{0, 1, 2, 3}, 2}, "7": {[]int{7}, 0},
		"1, 5,3": {[]int{1, 3, 5}, 0}, "0-9:4,20%1": {[]int{0, 4, 8, 20}, 1},
	} {
		indexes, most, err := Indexes(text)
		if err != nil || most != want.most || !slices.Equal(indexes, want.indexes) {
			t.Errorf("%q: %v, %d, %v; want %v, %d", text, indexes, most, err, want.indexes, want.most)
		}
	}
	for _, text := range []string{"", "a", "3-1", "0-3%0", "0-3%", "1,1", "0-1000", "-1", "1-", "0-9:0", "5:2", "1000000", "0-9%8%2", "1,,2"} {
		if indexes, _, err := Indexes(text); err == nil || CodeOf(err) != Invalid {
			t.Errorf("%q: %v, %v; want it refused", text, indexes, err)
		}
	}
}

// FuzzIndexes: what is read is ascending, within the limits, and reads the same again.
func FuzzIndexes(f *testing.F) {
	f.Add("0-99%8")
	f.Add("1,3,10-20:5")
	f.Fuzz(func(t *testing.T, text string) {
		indexes, _, err := Indexes(text)
		if err != nil {
			return
		}
		if n := len(indexes); n == 0 || n > MaxSubmit || indexes[0] < 0 || indexes[n-1] > maxArrayIndex || !slices.IsSorted(indexes) {
			t.Fatalf("%q: %v", text, indexes)
		}
		list := ""
		for _, i := range indexes {
			list += fmt.Sprintf(",%d", i)
		}
		if again, _, err := Indexes(list[1:]); err != nil || !slices.Equal(again, indexes) {
			t.Fatalf("%q: %v, then %v, %v", text, indexes, again, err)
		}
	})
}

// FuzzDependency: a dependency prints as it is read.
func FuzzDependency(f *testing.F) {
	f.Add("train-1")
	f.Add("train-1:any")
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDependency(text); err == nil && d.String() != text {
			t.Fatalf("%q prints as %q", text, d)
		}
	})
}
