// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

//go:embed models/*.json
var files embed.FS

// MaxFile is the largest model file that is read, in bytes.
const MaxFile = 1 << 16

// Default returns the built-in model for a type of GPU, by its name in lower case,
// or Published if there is none.
func Default(gpu string) (*Model, error) {
	data, err := files.ReadFile("models/" + gpu + ".json")
	if err != nil { // files in memory have only this error: there is none of that name
		return Published(), nil
	}
	m, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read built-in interference model %s: %w", gpu, err)
	}
	return m, nil
}

// Decode reads and checks a model. A field that does not exist is an error.
func Decode(data []byte) (*Model, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("it has %d bytes; want at most %d", len(data), MaxFile)
	}
	text := string(data)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	m := &Model{}
	if err := d.Decode(m); err != nil {
		return nil, locate(text, err)
	}
	if rest := strings.TrimSpace(text[d.InputOffset():]); rest != "" {
		return nil, fmt.Errorf("%s: more text after the model; want one JSON object", position(text, len(text)-len(rest)))
	}
	return m, m.check()
}

func (m *Model) check() error {
	switch {
	case m.GPU == "":
		return errors.New("gpu is missing; want the type that was measured, such as \"h200\"")
	case m.TimeSlice == nil:
		return errors.New("time-slice is missing; want the parameters of that mode")
	}
	if err := m.TimeSlice.check(); err != nil {
		return fmt.Errorf("time-slice: %w", err)
	}
	if m.MPS == nil {
		return nil
	}
	if err := m.MPS.check(); err != nil {
		return fmt.Errorf("mps: %w", err)
	}
	return nil
}

// limits are the allowed values of a parameter.
type limits struct {
	name             string
	value, low, high float64
}

func (s *Sharing) check() error {
	var all []limits
	switch s.Form {
	case FairShare:
		all = []limits{
			{"capacity", s.Capacity, 0.1, 4}, {"corner", s.Corner, 1, 100}, {"turn_s", s.Turn, 0, 1},
			{"short_step_s", s.ShortStep, 1e-6, 1e3},
		}
	case Overload:
		all = []limits{{"knee", s.Knee, 0, 10}, {"slope", s.Slope, 0, 10}}
	default:
		return fmt.Errorf("form %q; want %s or %s", s.Form, FairShare, Overload)
	}
	for _, l := range all {
		if !(l.value >= l.low && l.value <= l.high) {
			return fmt.Errorf("%s %g; want %g to %g", l.name, l.value, l.low, l.high)
		}
	}
	return s.checkSpread()
}

// checkSpread checks that the bounds do not fall as the slowdown grows.
func (s *Sharing) checkSpread() error {
	if len(s.Spread) == 0 {
		return errors.New("spread is empty; want the scatter by predicted slowdown")
	}
	for i, p := range s.Spread {
		switch {
		case !(p.At > 0 && p.At <= 1e3):
			return fmt.Errorf("spread[%d].at %g; want above 0 and up to 1000", i, p.At)
		case !(p.Scatter >= 0 && p.Scatter <= 2):
			return fmt.Errorf("spread[%d].scatter %g; want 0 to 2", i, p.Scatter)
		case !(p.High >= 1 && p.High <= 1000):
			return fmt.Errorf("spread[%d].high %g; want 1 to 1000", i, p.High)
		}
		if i == 0 {
			continue
		}
		if before := s.Spread[i-1]; !(p.At > before.At) || p.High < before.High {
			return fmt.Errorf("spread[%d]: at %g, high %g; want more than before, and not less, %g and %g", i, p.At, p.High, before.At, before.High)
		}
	}
	return nil
}

// locate adds line and column to a decoder error that knows its offset.
func locate(text string, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s: %w", position(text, int(syntax.Offset)-1), err)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: field %s: a %s; want %s", position(text, int(kind.Offset)-1), kind.Field, kind.Value, kind.Type)
	}
	return err
}

// position prints an offset as line and column.
func position(text string, offset int) string {
	before := text[:min(max(0, offset), len(text))]
	return fmt.Sprintf("line %d, column %d", strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n'))
}
