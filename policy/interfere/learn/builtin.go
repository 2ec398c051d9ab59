// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"bytes"
	"embed"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

//go:embed pairs/*.csv
var builtin embed.FS

// Builtin returns the pairs that were measured on a type of GPU, pooled, aligned and
// merged; none if it was not measured. The simulator slows jobs by them; policies
// may not import this package.
//
// The type "h200-half" stands for H200s in experiments that judge policies by pairs
// that their model has not seen: here it has half of the pairs, and interfere.Default
// returns a model fitted to the other half.
func Builtin(gpu string) ([]Pair, error) {
	data, err := builtin.ReadFile("pairs/" + gpu + ".csv")
	if err != nil { // files in memory have only this error: there is none of that name
		return nil, nil
	}
	return ReadPairs(bytes.NewReader(data), gpu+".csv")
}

// HoldOut divides pairs at random, the same way each time: a share of those of every
// mode is held out.
func HoldOut(pairs []Pair, share float64) (rest, held []Pair) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		of := OfMode(pairs, mode)
		n := int(share * float64(len(of)))
		for at, i := range rng.Perm(len(of)) {
			if at < n {
				held = append(held, of[i])
			} else {
				rest = append(rest, of[i])
			}
		}
	}
	return rest, held
}

// WritePairs writes pairs so that ReadPairs reads them.
func WritePairs(w io.Writer, pairs []Pair) error {
	out := csv.NewWriter(w)
	head := []string{"mode", "status", "session"}
	for _, suffix := range []string{"_a", "_b"} {
		for _, c := range sideColumns {
			head = append(head, c+suffix)
		}
	}
	rows := [][]string{head}
	for _, p := range pairs {
		row := []string{p.Mode.String(), "ok", "merged"}
		for _, s := range p.Sides {
			row = append(row, s.Model, strconv.Itoa(s.Batch), short(1000*s.Load.Step), short(100*s.Load.Util), short(s.Slowdown))
		}
		rows = append(rows, row)
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("write pairs: %w", err)
	}
	return nil
}

// short prints four significant digits.
func short(x float64) string { return strconv.FormatFloat(digits(x), 'g', -1, 64) }
