// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"github.com/fairway-gpu/fairway/predict/features"
)

// Limits of the tables.
const (
	maxTableBytes = 64 << 20
	maxTableRows  = 100_000
)

// Sample is one measured step of training, with the figures of its graph.
type Sample struct {
	Model, Family string
	Session       string // the machine, after the time
	Host          string // stretch of the session, see stretchModels
	Batch         int64
	Util          float64 // percent
	StepMS        float64
	MemMiB        float64 // on the device, above idle
	ReservedMiB   float64 // by the allocator
	x             *vector
}

// Measured is one row of a table of measurements.
type Measured struct {
	Model  string
	Batch  int64
	Recipe features.Recipe
}

// table is a CSV file by column name.
type table struct {
	name  string
	index map[string]int
	rows  [][]string
}

func readTable(name string, r io.Reader) (*table, error) {
	limited := &io.LimitedReader{R: r, N: maxTableBytes + 1}
	reader := csv.NewReader(limited)
	reader.ReuseRecord = false
	header, err := reader.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: the file is empty; want a header", name)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &table{name: name, index: map[string]int{}}
	for i, column := range header {
		if _, twice := t.index[column]; twice {
			return nil, fmt.Errorf("%s: line 1: column %q is repeated", name, column)
		}
		t.index[column] = i
	}
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(t.rows) == maxTableRows {
			return nil, fmt.Errorf("%s: more than %d rows", name, maxTableRows)
		}
		t.rows = append(t.rows, row)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("%s: longer than %d bytes", name, maxTableBytes)
	}
	return t, nil
}

func (t *table) require(columns ...string) error {
	for _, c := range columns {
		if _, ok := t.index[c]; !ok {
			return fmt.Errorf("%s: line 1: column %q is missing", t.name, c)
		}
	}
	return nil
}

func (t *table) text(row int, column string) string { return t.rows[row][t.index[column]] }

// number reads a cell. Line numbers count the header and assume one line per row.
func (t *table) number(row int, column string) (float64, error) {
	text := t.text(row, column)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%s: line %d: column %q: %q is not a number of 0 or more", t.name, row+2, column, text)
	}
	return v, nil
}

// ReadSolo lists the rows of a table of solo measurements, without failed ones.
func ReadSolo(name string, r io.Reader) ([]Measured, error) {
	samples, err := readSolo(name, r)
	var list []Measured
	for _, s := range samples {
		list = append(list, Measured{Model: s.Model, Batch: s.Batch})
	}
	return list, err
}

// stretchModels is the number of models in a stretch of a session. The host of a
// measuring machine is shared with others and can be a third faster after a quarter
// of an hour, so the fit has a factor for every stretch.
const stretchModels = 10

// stretches numbers the models of each session in measuring order.
type stretches map[string]map[string]int

func (s stretches) of(session, model string) string {
	if s[session] == nil {
		s[session] = map[string]int{}
	}
	n, known := s[session][model]
	if !known {
		n = len(s[session])
		s[session][model] = n
	}
	return fmt.Sprintf("%s/%d", session, n/stretchModels)
}

func readSolo(name string, r io.Reader) ([]Sample, error) {
	t, err := readTable(name, r)
	if err != nil {
		return nil, err
	}
	list, _, err := soloSamples(t)
	return list, err
}

// soloSamples returns the measured steps of a table and their rows, without failed
// ones.
func soloSamples(t *table) (list []Sample, rows []int, err error) {
	if err := t.require("model", "family", "batch", "status", "util_mean", "step_ms_mean", "mem_device_mib", "mem_reserved_mib", "session"); err != nil {
		return nil, nil, err
	}
	hosts := stretches{}
	for i := range t.rows {
		if t.text(i, "status") != "ok" {
			continue
		}
		s := Sample{Model: t.text(i, "model"), Family: t.text(i, "family"), Session: t.text(i, "session")}
		s.Host = hosts.of(s.Session, s.Model)
		batch := 0.0
		for _, cell := range []struct {
			column string
			to     *float64
		}{{"batch", &batch}, {"util_mean", &s.Util}, {"step_ms_mean", &s.StepMS}, {"mem_device_mib", &s.MemMiB}, {"mem_reserved_mib", &s.ReservedMiB}} {
			if *cell.to, err = t.number(i, cell.column); err != nil {
				return nil, nil, err
			}
		}
		if s.Batch = int64(batch); s.Batch < 1 || s.StepMS <= 0 || s.Util > 100 {
			return nil, nil, fmt.Errorf("%s: line %d: batch %d, step %g ms, utilisation %g %%; want 1 or more, above 0, at most 100", t.name, i+2, s.Batch, s.StepMS, s.Util)
		}
		list, rows = append(list, s), append(rows, i)
	}
	return list, rows, nil
}

// key identifies a row in both tables.
type key struct {
	model string
	batch int64
}

// ReadSamples reads GPU-solo.csv and GPU-features.csv from a folder and joins them:
// measurements without features are dropped and counted.
func ReadSamples(dir fs.FS, gpu string) (samples []Sample, without int, err error) {
	measured, err := readFile(dir, gpu+"-solo.csv", readSolo)
	if err != nil {
		return nil, 0, err
	}
	return join(dir, gpu, measured)
}

// ReadSamplesOf is ReadSamples with measurements from another source, of models whose
// features are in the folder.
func ReadSamplesOf(dir fs.FS, gpu, name string, solo io.Reader) (samples []Sample, without int, err error) {
	measured, err := readSolo(name, solo)
	if err != nil {
		return nil, 0, err
	}
	return join(dir, gpu, measured)
}

func join(dir fs.FS, gpu string, measured []Sample) (samples []Sample, without int, err error) {
	vectors, err := readFile(dir, gpu+"-features.csv", readVectors)
	if err != nil {
		return nil, 0, err
	}
	seen := map[key]bool{}
	for _, s := range measured {
		k := key{s.Model, s.Batch}
		switch s.x = vectors[k]; {
		case s.x == nil:
			without++
		case !seen[k]:
			seen[k] = true
			samples = append(samples, s)
		}
	}
	if len(samples) == 0 {
		return nil, without, fmt.Errorf("none of %d measured steps has its features in %s-features.csv", without, gpu)
	}
	return samples, without, nil
}

// readMore reads GPU-TABLE.csv, which has the columns of solo measurements and some
// more, and features from GPU-features.csv; nil if there is no such table.
func readMore[T any](dir fs.FS, gpu, name string, columns []string, of func(Sample, []float64) (T, error)) ([]T, error) {
	t, err := readFile(dir, gpu+"-"+name+".csv", readTable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.require(columns...); err != nil {
		return nil, err
	}
	samples, rows, err := soloSamples(t)
	if err != nil {
		return nil, err
	}
	vectors, err := readFile(dir, gpu+"-features.csv", readVectors)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(samples))
	for i, s := range samples {
		if s.x = vectors[key{s.Model, s.Batch}]; s.x == nil {
			return nil, fmt.Errorf("%s: %s at batch %d has no features in %s-features.csv", t.name, s.Model, s.Batch, gpu)
		}
		x, err := t.numbers(rows[i], columns)
		if err != nil {
			return nil, err
		}
		if list[i], err = of(s, x); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", t.name, rows[i]+2, err)
		}
	}
	return list, nil
}

func readFile[T any](dir fs.FS, name string, read func(string, io.Reader) (T, error)) (T, error) {
	f, err := dir.Open(name)
	if err != nil {
		var none T
		return none, fmt.Errorf("read measurements: %w", err)
	}
	defer f.Close()
	return read(name, f)
}

// featureColumns is the header of a table of features.
func featureColumns() []string {
	return slices.Concat([]string{"model", "batch"}, plainColumns(), names(busyColumns()), names(hostColumns()))
}

func readVectors(name string, r io.Reader) (map[key]*vector, error) {
	t, err := readTable(name, r)
	if err != nil {
		return nil, err
	}
	if err := t.require(featureColumns()...); err != nil {
		return nil, err
	}
	out := map[key]*vector{}
	for i := range t.rows {
		v, err := t.vector(i)
		if err != nil {
			return nil, err
		}
		out[key{t.text(i, "model"), int64(v.Batch)}] = v
	}
	return out, nil
}

// numbers reads cells of a row.
func (t *table) numbers(row int, columns []string) ([]float64, error) {
	values := make([]float64, len(columns))
	for j, name := range columns {
		v, err := t.number(row, name)
		if err != nil {
			return nil, err
		}
		values[j] = v
	}
	return values, nil
}

// vector reads the features of a row.
func (t *table) vector(row int) (*vector, error) {
	batch, err := t.number(row, "batch")
	plain, err1 := t.numbers(row, plainColumns())
	busy, err2 := t.numbers(row, names(busyColumns()))
	host, err3 := t.numbers(row, names(hostColumns()))
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return nil, err
	}
	v := &vector{Batch: batch, Busy: busy, Host: host}
	v.setPlain(plain)
	return v, nil
}

// FeatureWriter writes a table of features.
type FeatureWriter struct {
	w       *csv.Writer
	recipes bool
}

// NewFeatureWriter begins a table, of models or of their recipes.
func NewFeatureWriter(w io.Writer, recipes bool) (*FeatureWriter, error) {
	f := &FeatureWriter{csv.NewWriter(w), recipes}
	if recipes {
		return f, f.w.Write(recipeFeatureColumns())
	}
	return f, f.w.Write(featureColumns())
}

// Add writes the row of one model at the batch and recipe of its features.
func (f *FeatureWriter) Add(model string, x *features.Features) error {
	v := vectorOf(x)
	row := []string{model, strconv.FormatInt(x.Batch, 10)}
	numbers := slices.Concat(v.plain, v.Busy, v.Host)
	if f.recipes {
		row = slices.Insert(row, 0, x.Recipe.String())
		numbers = slices.Concat(numbers, v.RecipeBusy[1:], v.RecipeHost[1:])
	}
	for _, n := range numbers {
		row = append(row, strconv.FormatFloat(n, 'g', 7, 64))
	}
	return f.w.Write(row)
}

// Close ends the table.
func (f *FeatureWriter) Close() error {
	f.w.Flush()
	return f.w.Error()
}
