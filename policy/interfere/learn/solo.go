// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/sched/num"
)

// Read reads the pairs of a GPU type and their jobs' solo measurements from a
// folder (GPU-pairs.csv, GPU-solo.csv), pools and aligns them, and merges pairs
// that were measured more than once.
func Read(folder fs.FS, gpu string) ([]Pair, error) {
	name := gpu + "-pairs.csv"
	file, err := folder.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	defer file.Close()
	pairs, err := ReadPairs(file, name)
	if err != nil {
		return nil, err
	}
	pairs = Pool(pairs)
	name = gpu + "-solo.csv"
	alone, err := folder.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Merge(pairs), nil // the pairs have their jobs' solo loads
	}
	if err != nil {
		return nil, fmt.Errorf("read what was measured alone: %w", err)
	}
	defer alone.Close()
	solo, err := ReadSolo(alone, name)
	if err != nil {
		return nil, err
	}
	return Merge(Align(pairs, solo)), nil
}

// ReadSolo reads a table of jobs measured alone, as lab/profiling/measure.py writes
// it. It skips rows that failed and those without a utilisation.
func ReadSolo(r io.Reader, name string) (map[Key]interfere.Load, error) {
	out := map[Key]interfere.Load{}
	err := eachRow(r, name, []string{"model", "batch", "status", "util_mean", "step_ms_mean"}, func(t *table) error {
		if t.text("util_mean") == "" {
			return nil
		}
		k := Key{Model: strings.Clone(t.text("model"))}
		var err error
		if k.Batch, err = t.batch("batch"); err != nil {
			return err
		}
		out[k], err = t.load("util_mean", "step_ms_mean")
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// hostBound is the utilisation below which the host determines the step time.
const hostBound = 0.88

// Align returns the pairs with the utilisations that their jobs had on the host of
// the pair measurements. Utilisation is measured separately, perhaps on a machine
// with a faster host: the GPU works equally long in every step, but a step that
// waits for the host takes longer. HostSlower is the median of that ratio over the
// jobs of a session.
func Align(pairs []Pair, solo map[Key]interfere.Load) []Pair {
	ratios := map[string][]float64{}
	out := make([]Pair, len(pairs))
	for n, p := range pairs {
		for i := range p.Sides {
			s := &p.Sides[i]
			apart, ok := solo[s.Key]
			if !ok {
				continue
			}
			if apart.Util < hostBound {
				ratios[p.Session] = append(ratios[p.Session], s.Load.Step/apart.Step)
			}
			s.align(solo)
		}
		out[n] = p
	}
	for n := range out {
		if all := ratios[out[n].Session]; len(all) > 0 {
			out[n].HostSlower = num.Quantile(all, 0.5)
		}
	}
	return out
}

// align gives a job the utilisation that it had where its step time was measured.
func (s *Side) align(solo map[Key]interfere.Load) {
	if apart, ok := solo[s.Key]; ok {
		s.Load.Util = min(1, apart.Util*apart.Step/s.Load.Step)
	}
}

// onHost converts a load predicted for the host of the solo measurements to the
// host of a pair.
func (p Pair) onHost(l interfere.Load) interfere.Load {
	if l.Util < hostBound {
		l.Util, l.Step = min(1, l.Util/p.HostSlower), l.Step*p.HostSlower
	}
	return l
}
