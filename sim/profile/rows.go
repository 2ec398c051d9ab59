// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"io/fs"
	"math"
)

func (m *Model) readPlacements(fsys fs.FS, file string) error {
	columns := []string{"placement", "local_bsz", "step_time", "sync_time"}
	err := readRows(fsys, file, columns, func(t *table) error {
		digits := t.text(0)
		p, ok := parsePlacement(digits)
		if !ok {
			return t.fail(0, fmt.Sprintf("one digit, 1 to 9, for each of at most %d nodes", maxDigits))
		}
		local, err := t.count(1, maxLocal/max(1, m.micro()))
		if err != nil {
			return err
		}
		v, err := m.times(t, 2, 3)
		if err != nil {
			return err
		}
		if !m.addPlacement(p, max(1, m.micro())*local, v) {
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
		local, err := t.count(2, maxLocal/max(1, m.micro()))
		if err != nil {
			return err
		}
		v, err := m.times(t, 3, 4)
		if err != nil {
			return err
		}
		q := point{int64(nodes), int64(gpus), int64(max(1, m.micro()) * local)}
		m.surface.add(q, v)
		m.scaled = append(m.scaled, q)
		return nil
	})
}

// times reads a step time and the part of it that exchanges gradients.
func (m *Model) times(t *table, step, sync int) (times, error) {
	var v times
	var err error
	if v.step, err = t.seconds(step); err != nil {
		return v, err
	}
	if v.sync, err = t.number(sync, 0); err != nil {
		return v, err
	}
	if m.micro() > 0 {
		if v.sync > maxSeconds {
			return v, t.fail(sync, "a number of seconds that a step may take")
		}
		return m.pipelined(v), nil
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
