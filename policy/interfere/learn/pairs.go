// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"io"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// Key names what was measured: a model at a batch size.
type Key struct {
	Model string
	Batch int
}

// Side is one of the two jobs of a pair.
type Side struct {
	Key
	Load     interfere.Load // as measured alone
	Slowdown float64        // step time together over step time alone
}

// Pair is two jobs that were measured together.
type Pair struct {
	Mode    interfere.Mode
	Session string // in which it was measured: one machine, one run of the harness
	Sides   [2]Side
	// HostSlower is how many times longer the session's host took for its part of a
	// step than the host on which the jobs were measured alone; see Align.
	HostSlower float64
}

// sideColumns are the columns that a table of pairs has for each side.
var sideColumns = []string{"model", "batch", "solo_ms", "solo_util", "slowdown"}

// ReadPairs reads a table of pairs as lab/profiling/measure.py writes it: CSV with
// named columns. It skips pairs that failed (status other than "ok"). name is for
// errors.
func ReadPairs(r io.Reader, name string) ([]Pair, error) {
	want := []string{"mode", "status", "session"}
	for _, c := range sideColumns {
		want = append(want, c+"_a", c+"_b")
	}
	var out []Pair
	err := eachRow(r, name, want, func(t *table) error {
		p, err := t.pair()
		out = append(out, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (t *table) pair() (Pair, error) {
	mode, err := interfere.ParseMode(t.text("mode"))
	if err != nil {
		return Pair{}, t.fail("mode", "time-slice or mps")
	}
	p := Pair{Mode: mode, Session: strings.Clone(t.text("session")), HostSlower: 1}
	for i, suffix := range []string{"_a", "_b"} {
		if p.Sides[i], err = t.side(suffix); err != nil {
			return Pair{}, err
		}
	}
	return p, nil
}

func (t *table) side(suffix string) (Side, error) {
	s := Side{Key: Key{Model: strings.Clone(t.text("model" + suffix))}}
	if s.Model == "" {
		return s, t.fail("model"+suffix, "the name of a model")
	}
	var err error
	if s.Batch, err = t.batch("batch" + suffix); err != nil {
		return s, err
	}
	if s.Load, err = t.load("solo_util"+suffix, "solo_ms"+suffix); err != nil {
		return s, err
	}
	s.Slowdown, err = t.number("slowdown"+suffix, 0.01, 1000)
	return s, err
}

// OfMode returns the pairs measured in a mode.
func OfMode(pairs []Pair, mode interfere.Mode) []Pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return p.Mode != mode })
}
