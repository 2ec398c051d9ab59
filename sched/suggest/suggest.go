// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package suggest says what a mistyped word may have been meant to be. Policies,
// files and the command line use it for their errors.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// Among is the second half of an error about an unknown word: the word, the name
// that it was probably meant to be, and all names.
func Among(word string, names []string) string {
	if len(names) == 0 {
		return fmt.Sprintf("%q; there are none", clip(word))
	}
	names = slices.Sorted(slices.Values(names))
	hint := ""
	if near, ok := nearest(word, names); ok {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Sprintf("%q; %sthere are: %s", clip(word), hint, strings.Join(names, ", "))
}

// clip keeps an error message readable whatever was typed.
func clip(word string) string {
	const most = 40
	if len(word) <= most {
		return word
	}
	return strings.ToValidUTF8(word[:most], "") + "..."
}

// nearest returns the name with the fewest edits from the word, if these are
// few enough to be typing errors.
func nearest(word string, names []string) (string, bool) {
	if len(word) > 40 {
		return "", false
	}
	best, least := "", 1+max(1, len(word)/3)
	for _, name := range names {
		if d := edits(strings.ToLower(word), name); d < least {
			best, least = name, d
		}
	}
	return best, best != ""
}

// edits returns how many letters must be added, removed or replaced to turn a
// into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
