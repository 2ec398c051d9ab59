// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
)

//go:embed models/*.json
var modelFiles embed.FS

// Version is the version of the format of model files.
const Version = 1

// maxModelBytes bounds a model file.
const maxModelBytes = 16 << 20

// The methods of a model.
const (
	byTrees  = "trees"  // physical estimate, with trees for its error
	byLinear = "linear" // too few profiles for trees
)

// Model predicts for one GPU type.
type Model struct {
	Version int    `json:"version"`
	GPU     string `json:"gpu"`
	Method  string `json:"method"`
	Rows    int    `json:"rows"`   // measured steps in the training set
	Models  int    `json:"models"` // architectures in the training set

	Busy sum `json:"busy"`
	Host sum `json:"host"`
	// Hosts is the time of the host relative to Host, by stretch of a session.
	Hosts    map[string]float64 `json:"hosts"`
	Residual *forest            `json:"residual,omitempty"`
	// After is Residual for a step that was measured; nil: Residual serves for it.
	After  *forest `json:"after,omitempty"`
	Linear *ridge  `json:"linear,omitempty"`
	Bands  []band  `json:"bands"`
	// AfterBands are Bands for a step that was measured.
	AfterBands []band `json:"after_bands"`
	// Even is what the spread of a job's steps tells; nil if none was measured.
	Even *evenness `json:"even,omitempty"`
	// Step is the interval of the logarithm of measured over predicted step
	// time.
	Step   span        `json:"step"`
	Memory memoryModel `json:"memory"`
	Space  space       `json:"space"`
	// Recipe is what mixed precision, Adam and recomputed layers change; nil if they
	// were not measured.
	Recipe *recipeModel `json:"recipe,omitempty"`

	device Device
	part   Part // of the device; zero: all of it
	scaled bool // from measurements of another GPU type
}

// span is an interval of a logarithm of measured over predicted.
type span struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// band is the interval of ln(1+measured) - ln(1+predicted) where the
// prediction is at most Upto percent.
type band struct {
	Upto float64 `json:"upto"`
	span
}

// measuredGPUs lists the GPU types with a model file.
func measuredGPUs() []string {
	entries, err := modelFiles.ReadDir("models")
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		list = append(list, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(list)
	return list
}

// For returns the model of a GPU type. A type without measurements is scaled from the
// one with the nearest peak rates.
func For(gpu string) (*Model, error) {
	device, err := deviceOf(gpu)
	if err != nil {
		return nil, fmt.Errorf("find a prediction model: %w", err)
	}
	best, distance := "", math.Inf(1)
	for _, name := range measuredGPUs() {
		other, err := deviceOf(name)
		if err != nil {
			continue
		}
		if d := device.distance(other); d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return nil, errors.New("find a prediction model: none is built in")
	}
	text, err := modelFiles.ReadFile(path.Join("models", best+".json"))
	if err != nil {
		return nil, fmt.Errorf("read prediction model: %w", err)
	}
	m, err := Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return m.on(device), nil
}

// distance compares peak rates.
func (d Device) distance(o Device) float64 {
	return math.Abs(math.Log(d.FP32/o.FP32)) + math.Abs(math.Log(d.TF32/o.TF32)) + 2*math.Abs(math.Log(d.Bandwidth/o.Bandwidth))
}

// on scales a model to another GPU type.
func (m *Model) on(d Device) *Model {
	own := m.device
	m.device = d
	if own.Name == d.Name {
		return m
	}
	m.scaled = true
	m.Busy.scale(busyColumns(), own, d)
	if m.Recipe != nil {
		m.Recipe.Busy.scale(recipeBusyColumns(), own, d)
	}
	return m
}

// scale changes coefficients from one GPU type to another.
func (s sum) scale(columns []column, from, to Device) {
	for i, c := range columns {
		switch c.rate {
		case fp32:
			s.Values[i] *= from.FP32 / to.FP32
		case tf32:
			s.Values[i] *= from.TF32 / to.TF32
		case traffic:
			s.Values[i] *= from.Bandwidth / to.Bandwidth
		}
	}
}

// WithHostSpeed returns the model for hosts that are that many times as fast as the
// measured ones.
func (m *Model) WithHostSpeed(speed float64) *Model {
	twin := *m
	twin.Host = m.Host.over(speed)
	if m.Recipe != nil {
		r := *m.Recipe
		r.Host = r.Host.over(speed)
		r.Host.Values[0] = m.Recipe.Host.Values[0] // its column has the speed already
		twin.Recipe = &r
	}
	return &twin
}

// over divides the coefficients.
func (s sum) over(n float64) sum {
	s.Values = slices.Clone(s.Values)
	for i := range s.Values {
		s.Values[i] /= n
	}
	return s
}

// Read reads a model file and checks it.
func Read(r io.Reader) (*Model, error) {
	limited := &io.LimitedReader{R: r, N: maxModelBytes + 1}
	decoder := json.NewDecoder(limited)
	decoder.DisallowUnknownFields()
	var m Model
	if err := decoder.Decode(&m); err != nil {
		if limited.N <= 0 {
			return nil, fmt.Errorf("read prediction model: longer than %d bytes", maxModelBytes)
		}
		return nil, fmt.Errorf("read prediction model: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("read prediction model: %w", err)
	}
	var err error
	if m.device, err = deviceOf(m.GPU); err != nil {
		return nil, fmt.Errorf("read prediction model: %w", err)
	}
	return &m, nil
}

// Write writes the model as JSON; the same model gives the same bytes.
func (m *Model) Write(w io.Writer) error {
	if m.scaled {
		return errors.New("write prediction model: it is scaled from another GPU type")
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(m)
}

// check refuses a model that Write could not have written.
func (m *Model) check() error {
	if m.Version != Version {
		return fmt.Errorf("version %d; this program reads %d", m.Version, Version)
	}
	if err := errors.Join(m.Busy.check("busy", busyColumns()), m.Host.check("host", hostColumns())); err != nil {
		return err
	}
	inputs := len(m.treeInputs(blank(), physicsOf(1, 1)))
	switch m.Method {
	case byTrees:
		if m.Residual == nil {
			return errors.New(`method "trees" without residual`)
		}
		if err := m.Residual.check(inputs); err != nil {
			return err
		}
		if m.After != nil {
			if err := m.After.check(inputs + 1); err != nil {
				return fmt.Errorf("after: %w", err)
			}
		}
	case byLinear:
		if m.Linear == nil {
			return errors.New(`method "linear" without linear`)
		}
		if err := m.Linear.check("linear", len(linearInputs(blank(), physicsOf(1, 1)))); err != nil {
			return err
		}
	default:
		return fmt.Errorf("method %q; want %q or %q", m.Method, byTrees, byLinear)
	}
	for _, bands := range [][]band{m.Bands, m.AfterBands} {
		if len(bands) == 0 || bands[len(bands)-1].Upto < 100 {
			return errors.New("bands do not reach 100 percent")
		}
	}
	if err := errors.Join(m.Memory.check(), m.Even.check()); err != nil {
		return err
	}
	if r := m.Recipe; r != nil {
		if err := errors.Join(r.Busy.check("recipe: busy", recipeBusyColumns()), r.Host.check("recipe: host", recipeHostColumns()), r.Compiled.check()); err != nil {
			return err
		}
	}
	return m.Space.check(inputs)
}

// blank is a vector of zeros.
func blank() *vector {
	v := &vector{Batch: 1, Busy: make([]float64, len(busyColumns())), Host: make([]float64, len(hostColumns()))}
	v.setPlain(make([]float64, len(plainColumns())))
	return v
}

func (s sum) check(what string, columns []column) error {
	if !slices.Equal(s.Columns, names(columns)) || len(s.Values) != len(columns) {
		return fmt.Errorf("%s: columns of another version; train again", what)
	}
	for i, v := range s.Values {
		if !(v >= 0) {
			return fmt.Errorf("%s: %s is %g; want 0 or more", what, s.Columns[i], v)
		}
	}
	return nil
}

func (r *ridge) check(what string, columns int) error {
	if len(r.Mean) != columns || len(r.Scale) != columns || len(r.Slopes) != columns {
		return fmt.Errorf("%s: %d means, %d scales, %d slopes; want %d each", what, len(r.Mean), len(r.Scale), len(r.Slopes), columns)
	}
	for j, s := range r.Scale {
		if !(s > 0) {
			return fmt.Errorf("%s: scale %d is %g; want above 0", what, j, s)
		}
	}
	return nil
}

// check verifies that every path down a tree ends in a leaf.
func (f *forest) check(inputs int) error {
	for k, t := range f.Trees {
		if len(t) == 0 {
			return fmt.Errorf("tree %d is empty", k)
		}
		for i, n := range t {
			if n.Left == 0 {
				continue
			}
			if n.Left <= i || n.Right <= i || n.Left >= len(t) || n.Right >= len(t) || n.Feature < 0 || n.Feature >= inputs {
				return fmt.Errorf("tree %d: node %d: branches %d and %d on feature %d; want branches beyond it and a feature below %d", k, i, n.Left, n.Right, n.Feature, inputs)
			}
		}
	}
	return nil
}
