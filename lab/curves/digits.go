// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "math/rand/v2"

const (
	digits = 10
	side   = 9
	pixels = side * side
)

// font is a picture of each digit: 7 rows of 5 pixels.
var font = [digits][7]string{
	{" ### ", "#   #", "#  ##", "# # #", "##  #", "#   #", " ### "},
	{"  #  ", " ##  ", "  #  ", "  #  ", "  #  ", "  #  ", " ### "},
	{" ### ", "#   #", "    #", "   # ", "  #  ", " #   ", "#####"},
	{" ### ", "#   #", "    #", "  ## ", "    #", "#   #", " ### "},
	{"   # ", "  ## ", " # # ", "#  # ", "#####", "   # ", "   # "},
	{"#####", "#    ", "#### ", "    #", "    #", "#   #", " ### "},
	{"  ## ", " #   ", "#    ", "#### ", "#   #", "#   #", " ### "},
	{"#####", "    #", "   # ", "  #  ", "  #  ", "  #  ", "  #  "},
	{" ### ", "#   #", "#   #", " ### ", "#   #", "#   #", " ### "},
	{" ### ", "#   #", "#   #", " ####", "    #", "   # ", " ##  "},
}

// example is a picture; the last value is 1, for the bias.
type example struct {
	x     [in]float64
	digit int
}

// draw makes pictures: a digit somewhere in the frame, with uneven ink and noise.
func draw(r *rand.Rand, n int) []example {
	out := make([]example, n)
	for i := range out {
		e := &out[i]
		e.digit = r.IntN(digits)
		top, left := r.IntN(side-7+1), r.IntN(side-5+1)
		for y, line := range font[e.digit] {
			for x := range line {
				if line[x] == '#' && r.Float64() > 0.12 {
					e.x[(top+y)*side+left+x] = 0.5 + 0.5*r.Float64()
				}
			}
		}
		for k := range pixels {
			e.x[k] += 0.25 * r.NormFloat64()
		}
		e.x[pixels] = 1
	}
	return out
}
