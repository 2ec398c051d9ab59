// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"strconv"
)

// num is a number in the page. JSON cannot express NaN and infinity; they become
// null, which the page shows as a dash.
type num float64

// MarshalJSON implements json.Marshaler.
func (n num) MarshalJSON() ([]byte, error) { return appendNum(nil, float64(n)), nil }

// nums is a column of numbers, written like num but in one go: a page has
// hundreds of thousands of them.
type nums []float64

// MarshalJSON implements json.Marshaler.
func (ns nums) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+6*len(ns))
	b = append(b, '[')
	for i, v := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNum(b, v)
	}
	return append(b, ']'), nil
}

func appendNum(b []byte, v float64) []byte {
	switch {
	case !finite(v):
		return append(b, "null"...)
	case v == 0: // also -0
		return append(b, '0')
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// round keeps six significant digits or three decimals, whichever is finer:
// enough for any chart, and a third of the bytes.
func round(v float64) float64 {
	a := math.Abs(v)
	if !finite(v) || a >= 1e12 {
		return v
	}
	scale := 1e3
	for a > 0 && a*scale < 1e5 && scale < 1e9 {
		scale *= 10
	}
	return math.Round(v*scale) / scale
}

// never turns the -1 of the results ("it never happened") into NaN.
func never(v float64) float64 {
	if v < 0 {
		return math.NaN()
	}
	return v
}
