// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tables are the measurements of several models.
type Tables struct {
	models map[string]*Model
}

// Read reads every sub-folder that has a file placements.csv.
func Read(fsys fs.FS) (*Tables, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	t := &Tables{models: map[string]*Model{}}
	for _, e := range entries {
		_, err := fs.Stat(fsys, path.Join(e.Name(), "placements.csv"))
		if errors.Is(err, fs.ErrNotExist) || (err != nil && !e.IsDir()) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read profiles: %w", err)
		}
		m, err := readModel(fsys, e.Name())
		if err != nil {
			return nil, err
		}
		t.models[m.name] = m
	}
	if len(t.models) == 0 {
		return nil, errors.New("read profiles: no sub-folder has a file placements.csv")
	}
	return t, nil
}

// Models returns the names of the models, sorted.
func (t *Tables) Models() []string { return slices.Sorted(maps.Keys(t.models)) }

// Model returns the measurements of one model.
func (t *Tables) Model(name string) (*Model, bool) {
	m, ok := t.models[name]
	return m, ok
}

func readModel(fsys fs.FS, name string) (*Model, error) {
	m := newModel(name)
	if err := m.readPlacements(fsys, path.Join(name, "placements.csv")); err != nil {
		return nil, err
	}
	scalability := path.Join(name, "scalability.csv")
	if err := m.readScalability(fsys, scalability); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", name, err)
	}
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
		m.runs = append(m.runs, r)
	}
	if len(m.runs) == 0 {
		return nil, fmt.Errorf("read profile %s: no file validation-<batch>.csv", name)
	}
	slices.SortFunc(m.runs, func(a, b run) int { return cmp.Compare(a.batch, b.batch) })
	for i, r := range m.runs[1:] {
		if r.batch == m.runs[i].batch {
			return nil, fmt.Errorf("read profile %s: two files for batch size %d", name, r.batch)
		}
	}
	return m, nil
}

func (m *Model) readPlacements(fsys fs.FS, file string) error {
	columns := []string{"placement", "local_bsz", "step_time", "sync_time"}
	err := readRows(fsys, file, columns, func(t *table) error {
		digits := t.text(0)
		p, ok := parsePlacement(digits)
		if !ok {
			return t.fail(0, fmt.Sprintf("one digit, 1 to 9, for each of at most %d nodes", maxDigits))
		}
		local, err := t.count(1, maxLocal)
		if err != nil {
			return err
		}
		v, err := t.times(2, 3)
		if err != nil {
			return err
		}
		if !m.addPlacement(p, local, v) {
			return t.fail(1, "each local batch once for a placement and its rotations")
		}
		return nil
	})
	if err == nil && len(m.measured) == 0 {
		return fmt.Errorf("read profile %s: no rows", file)
	}
	return err
}

func (m *Model) readScalability(fsys fs.FS, file string) error {
	columns := []string{"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"}
	return readRows(fsys, file, columns, func(t *table) error {
		nodes, err := t.count(0, maxNodes)
		if err != nil {
			return err
		}
		gpus, err := t.count(1, maxGPUs)
		if err != nil {
			return err
		}
		if gpus < nodes {
			return t.fail(1, fmt.Sprintf("at least num_nodes = %d", nodes))
		}
		local, err := t.count(2, maxLocal)
		if err != nil {
			return err
		}
		v, err := t.times(3, 4)
		if err != nil {
			return err
		}
		m.surface.add(point{int64(nodes), int64(gpus), int64(local)}, v)
		return nil
	})
}

// times reads a step time and the part of it that exchanges gradients.
func (t *table) times(step, sync int) (times, error) {
	var v times
	var err error
	if v.step, err = t.seconds(step); err != nil {
		return v, err
	}
	if v.sync, err = t.number(sync, 0); err != nil {
		return v, err
	}
	if v.sync > v.step {
		return v, t.fail(sync, fmt.Sprintf("at most step_time = %v", v.step))
	}
	return v, nil
}

// run is one training run at a fixed batch size.
type run struct {
	batch  int
	epochs []epoch
}

// epoch is the state of a run at the end of an epoch.
type epoch struct {
	progress, iteration float64
	metric              float64 // of any kind: accuracy, error, loss
	sqr, variance       float64
}

func readRun(fsys fs.FS, file string) (run, error) {
	var r run
	columns := []string{"progress", "iteration", "metric", "grad_sqr", "grad_var"}
	err := readRows(fsys, file, columns, func(t *table) error {
		var last, e epoch
		if n := len(r.epochs); n > 0 {
			last = r.epochs[n-1]
		}
		for i, into := range []*float64{&e.progress, &e.iteration, &e.metric, &e.sqr, &e.variance} {
			least := 0.0
			if into == &e.metric { // any number is good
				least = math.Inf(-1)
			}
			x, err := t.number(i, least)
			if err != nil {
				return err
			}
			*into = x
		}
		if e.progress <= last.progress {
			return t.fail(0, fmt.Sprintf("more than %v, the epoch before", last.progress))
		}
		if e.iteration <= last.iteration {
			return t.fail(1, fmt.Sprintf("more than %v, the epoch before", last.iteration))
		}
		r.epochs = append(r.epochs, e)
		return nil
	})
	if err == nil && len(r.epochs) == 0 {
		return r, fmt.Errorf("read profile %s: no rows", file)
	}
	return r, err
}
