// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

//go:embed models/*.json
var builtin embed.FS

// MaxFile is the largest model file that is read, in bytes.
const MaxFile = 1 << 20

// Zoo is a set of models. Names are case-insensitive.
type Zoo struct {
	models map[string]*Model // by lower-case name
}

// Builtin returns a new zoo with the models that come with Fairway.
func Builtin() (*Zoo, error) {
	sub, err := fs.Sub(builtin, "models")
	if err != nil {
		return nil, fmt.Errorf("open built-in models: %w", err)
	}
	z := &Zoo{}
	if err := z.Extend(sub); err != nil {
		return nil, fmt.Errorf("read built-in models: %w", err)
	}
	return z, nil
}

// Extend adds the models of every *.json file of a folder, in order of file names. A
// model replaces one of the same name. On an error, nothing is added.
func (z *Zoo) Extend(fsys fs.FS) error {
	files, err := fs.Glob(fsys, "*.json")
	if err != nil {
		return fmt.Errorf("list model files: %w", err)
	}
	slices.Sort(files)
	added := make(map[string]*Model, len(files))
	for _, file := range files {
		m, err := readFile(fsys, file)
		if err != nil {
			return fmt.Errorf("read model file %s: %w", file, err)
		}
		added[strings.ToLower(m.Name)] = m
	}
	if z.models == nil {
		z.models = make(map[string]*Model, len(added))
	}
	maps.Copy(z.models, added)
	return nil
}

// Model returns the model of that name. Callers must not modify it.
func (z *Zoo) Model(name string) (*Model, bool) {
	m, ok := z.models[strings.ToLower(name)]
	return m, ok
}

// Names returns the names of all models, sorted.
func (z *Zoo) Names() []string {
	names := make([]string, 0, len(z.models))
	for _, m := range z.models {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

func readFile(fsys fs.FS, file string) (*Model, error) {
	f, err := fsys.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("more than %d bytes; a model has a few hundred", MaxFile)
	}
	return Decode(data)
}

// Decode reads and checks one model. An unknown field is an error.
func Decode(data []byte) (*Model, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	m := &Model{}
	if err := dec.Decode(m); err != nil {
		return nil, locate(data, err)
	}
	if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("%s: more text after the model; want one JSON object", position(data, len(data)-len(rest)))
	}
	var err error
	if m.Throughput, err = lowerKeys(m.Throughput); err != nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	if m.StepTime, err = lowerKeys(m.StepTime); err != nil {
		return nil, fmt.Errorf("step_time: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// locate adds line and column to an error of the decoder, if it has them.
func locate(data []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s: %w", position(data, int(syntax.Offset)-1), err)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: field %s: a %s; want %s", position(data, int(kind.Offset)-1), kind.Field, kind.Value, kind.Type)
	}
	return err
}

// position returns the line and column of an offset.
func position(data []byte, offset int) string {
	before := data[:min(max(0, offset), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d, column %d", line, column)
}

// lowerKeys returns the map with its keys in lower case.
func lowerKeys[V any](in map[string]V) (map[string]V, error) {
	if in == nil {
		return nil, nil
	}
	out := make(map[string]V, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		low := strings.ToLower(strings.TrimSpace(k))
		if _, twice := out[low]; twice || low == "" {
			return nil, fmt.Errorf("GPU type %q is empty or given twice", k)
		}
		out[low] = in[k]
	}
	return out, nil
}
