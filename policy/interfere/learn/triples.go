// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// Set is two or three jobs that were measured together, time-sliced.
type Set []Side

// ReadSets reads the pairs and triples of a GPU type (GPU-triples.csv) from a folder
// and gives their jobs the utilisations that they had on that host; none if there is
// no such file.
func ReadSets(folder fs.FS, gpu string) ([]Set, error) {
	name := gpu + "-triples.csv"
	file, err := folder.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read triples: %w", err)
	}
	defer file.Close()
	sets, err := readSets(file, name)
	if err != nil {
		return nil, err
	}
	alone, err := folder.Open(gpu + "-solo.csv")
	if err != nil {
		return nil, fmt.Errorf("read what was measured alone: %w", err)
	}
	defer alone.Close()
	solo, err := ReadSolo(alone, gpu+"-solo.csv")
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		for i := range s {
			s[i].align(solo)
		}
	}
	return sets, nil
}

func readSets(r io.Reader, name string) ([]Set, error) {
	suffixes := []string{"_a", "_b", "_c"}
	want := []string{"status"}
	for _, suffix := range suffixes {
		for _, c := range sideColumns {
			want = append(want, c+suffix)
		}
	}
	var out []Set
	err := eachRow(r, name, want, func(t *table) error {
		var s Set
		for i, suffix := range suffixes {
			if i == 2 && t.text("model_c") == "" {
				break // a pair
			}
			side, err := t.side(suffix)
			if err != nil {
				return err
			}
			s = append(s, side)
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// TripleScore is how well a method predicts three jobs on a GPU.
type TripleScore struct {
	Method   string  `json:"method"`
	Triples  int     `json:"triples"`
	AbsError float64 `json:"mean_abs_error"` // of the slowdown, over all jobs
	AbsLog   float64 `json:"mean_abs_log_error"`
	Bias     float64 `json:"bias"` // mean of ln(measured/predicted)
	// Safe are the triples of which no job is slowed by more than the limit; Called
	// those that the means of a method call safe; Right both.
	Safe   int `json:"safe"`
	Called int `json:"called"`
	Right  int `json:"right"`
}

// Triples compares ways to predict triples: from the pairs that were measured in the
// same session, and from loads alone.
func Triples(sets []Set, m *interfere.Model) []TripleScore {
	pairs := map[[2]Key]float64{}
	for _, s := range sets {
		if len(s) == 2 {
			pairs[[2]Key{s[0].Key, s[1].Key}], pairs[[2]Key{s[1].Key, s[0].Key}] = s[0].Slowdown, s[1].Slowdown
		}
	}
	product := func(of func(own, other Side) float64) func(own, a, b Side) float64 {
		return func(own, a, b Side) float64 { return of(own, a) * of(own, b) }
	}
	measured := func(own, other Side) float64 { return max(1, pairs[[2]Key{own.Key, other.Key}]) }
	predicted := func(own Side, others ...interfere.Load) float64 {
		return m.Slowdown(interfere.TimeSlice, own.Load, others).Mean
	}
	var out []TripleScore
	for _, method := range []struct {
		name    string
		predict func(own, a, b Side) float64
	}{
		{"ours, for three", func(own, a, b Side) float64 { return predicted(own, a.Load, b.Load) }},
		{"product of measured pairs", product(measured)},
		{"product of predicted pairs", product(func(own, other Side) float64 { return predicted(own, other.Load) })},
		{"sum of measured pairs' delays", func(own, a, b Side) float64 { return measured(own, a) + measured(own, b) - 1 }},
	} {
		out = append(out, judgeTriples(sets, method.name, method.predict))
	}
	return out
}

func judgeTriples(sets []Set, name string, predict func(own, a, b Side) float64) TripleScore {
	score := TripleScore{Method: name}
	for _, s := range sets {
		if len(s) != 3 {
			continue
		}
		score.Triples++
		safe, called := true, true
		for i, own := range s {
			mean := predict(own, s[(i+1)%3], s[(i+2)%3])
			off := math.Log(own.Slowdown / mean)
			score.AbsError += math.Abs(own.Slowdown - mean)
			score.AbsLog += math.Abs(off)
			score.Bias += off
			safe = safe && own.Slowdown < interfere.DefaultLimit
			called = called && mean < interfere.DefaultLimit
		}
		score.Safe += count(safe)
		score.Called += count(called)
		score.Right += count(safe && called)
	}
	if n := float64(3 * score.Triples); n > 0 {
		score.AbsError, score.AbsLog, score.Bias = score.AbsError/n, score.AbsLog/n, score.Bias/n
	}
	return score
}
