// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
)

// PrintClaims writes what was to be shown as a table, with what holds.
func PrintClaims(w io.Writer, claims []Claim) {
	fmt.Fprint(w, `
## What was to be shown

| | wanted | ours | holds |
|---|---|---|---|
`)
	for _, c := range claims {
		holds := "yes"
		if !c.Holds {
			holds = "**no**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", c.What, c.Want, c.Ours, holds)
	}
}
