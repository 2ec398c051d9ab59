// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tables are the measurements of several models, each on one GPU type that the files
// do not name, or on several that they do.
type Tables struct {
	models map[string]map[string]*Model // by name and GPU type; "": the files name none
}

// Read reads every sub-folder that has a file placements.csv, or placements-<type>.csv
// for some GPU types. Where there are both, the first is not read.
func Read(fsys fs.FS) (*Tables, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	t := &Tables{models: map[string]map[string]*Model{}}
	for _, e := range entries {
		types, err := typesIn(fsys, e)
		if err != nil {
			return nil, fmt.Errorf("read profiles: %w", err)
		}
		if len(types) == 0 {
			continue
		}
		if t.models[e.Name()], err = readModel(fsys, e.Name(), types); err != nil {
			return nil, err
		}
	}
	if len(t.models) == 0 {
		return nil, errors.New("read profiles: no sub-folder has a file placements.csv or placements-<type>.csv")
	}
	return t, nil
}

// maxTypes is the most GPU types that one model may have.
const maxTypes = 64

// typesIn returns the GPU types of a model's files; "" stands for a file that names
// none.
func typesIn(fsys fs.FS, folder fs.DirEntry) ([]string, error) {
	files, err := fs.ReadDir(fsys, folder.Name())
	if err != nil && !folder.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var types []string
	plain := false
	for _, f := range files {
		if f.Name() == "placements.csv" {
			plain = true
		}
		name, ok := strings.CutPrefix(f.Name(), "placements-")
		gpuType, csv := strings.CutSuffix(name, ".csv")
		switch {
		case !ok || !csv:
			continue
		case gpuType == "" || gpuType != strings.ToLower(gpuType):
			return nil, fmt.Errorf("%s/%s: GPU type %q in the file name; want one in lower case", folder.Name(), f.Name(), gpuType)
		}
		types = append(types, gpuType)
	}
	switch {
	case len(types) > maxTypes:
		return nil, fmt.Errorf("%s: %d files placements-<type>.csv; want at most %d", folder.Name(), len(types), maxTypes)
	case len(types) == 0 && plain:
		return []string{""}, nil
	}
	return types, nil
}

// Models returns the names of the models, sorted.
func (t *Tables) Models() []string { return slices.Sorted(maps.Keys(t.models)) }

// Types returns the GPU types that the files name, sorted; none if they name none.
func (t *Tables) Types() []string {
	all := map[string]bool{}
	for _, m := range t.models {
		for gpuType := range m {
			if gpuType != "" {
				all[gpuType] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Typed reports whether the files name GPU types, as those of the Sia artifact do.
func (t *Tables) Typed() bool { return t != nil && len(t.Types()) > 0 }

// On returns the measurements of a model on a GPU type; those of files that name no
// type serve for any.
func (t *Tables) On(name, gpuType string) (*Model, bool) {
	if m, ok := t.models[name][""]; ok {
		return m, true
	}
	m, ok := t.models[name][gpuType]
	return m, ok
}

func readModel(fsys fs.FS, name string, types []string) (map[string]*Model, error) {
	runs, err := readRuns(fsys, name)
	if err != nil {
		return nil, err
	}
	out := map[string]*Model{}
	for _, gpuType := range types {
		m := newModel(name, gpuType)
		m.runs = runs
		suffix := ".csv"
		if gpuType != "" {
			suffix = "-" + gpuType + suffix
		}
		placements := path.Join(name, "placements"+suffix)
		if m.micro() > 0 {
			if err := m.readUnit(fsys, placements); err != nil {
				return nil, err
			}
		}
		if err := m.readPlacements(fsys, placements); err != nil {
			return nil, err
		}
		if err := m.readScalability(fsys, path.Join(name, "scalability"+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := m.Limits().Validate(); err != nil {
			return nil, fmt.Errorf("read profile %s: its training runs and steps do not fit: %w", placements, err)
		}
		out[gpuType] = m
	}
	return out, nil
}

// readRuns reads the training runs of a model.
func readRuns(fsys fs.FS, name string) ([]run, error) {
	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", name, err)
	}
	var runs []run
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), "validation-")
		batch, csv := strings.CutSuffix(rest, ".csv")
		if !ok || !csv {
			continue
		}
		file := path.Join(name, e.Name())
		n, err := strconv.Atoi(batch)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("read profile %s: batch size %q in the file name; want a whole number, 1 or more", file, batch)
		}
		r, err := readRun(fsys, file)
		if err != nil {
			return nil, err
		}
		r.batch = n
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("read profile %s: no file validation-<batch>.csv", name)
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.batch, b.batch) })
	for i, r := range runs[1:] {
		if r.batch == runs[i].batch {
			return nil, fmt.Errorf("read profile %s: two files for batch size %d", name, r.batch)
		}
	}
	return runs, nil
}
