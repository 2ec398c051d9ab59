// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package pairing determines which jobs may share a GPU: it asks an interference
// model and caches the answers, because a policy asks the same questions thousands
// of times in a decision.
package pairing

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// MostJobs is the largest supported number of jobs on a GPU.
const MostJobs = 8

// Auto, as Config.GPU, asks the model of each GPU's own type.
const Auto = "auto"

// Config says which model to ask, and for what.
type Config struct {
	Limit float64 // largest slowdown of any of the jobs; 0: no limit
	Sure  bool    // hold in all but one case of twenty, not only on average
	GPU   string  // type whose model is used; Auto: that of the GPU. Types that were not measured: the published curve
	Mode  string  // time-slice or mps
}

// Bound determines which jobs may share a GPU. It is a cache and must not be used
// by two goroutines at once.
type Bound struct {
	Config
	mode interfere.Mode
	of   map[string]*answers // by GPU type
	last *answers            // of the most recent type
}

// answers are the cached answers for one type of GPU.
type answers struct {
	gpu   string
	model *interfere.Model
	pairs [(steps + 1) * (steps + 1)]answer // by the two utilisations
	more  map[levels]bool                   // for more than two jobs
}

type answer uint8

const (
	unknown answer = iota
	holds
	breaks
)

// levels are the utilisations of jobs, rounded up to steps, ascending.
type levels [MostJobs]uint8

// steps is how many utilisations are distinguished.
const steps = 100

// mostKnown bounds the number of cached answers.
const mostKnown = 1 << 18

// New checks the config.
func New(c Config) (*Bound, error) {
	if c.Limit != 0 && !(c.Limit > 1 && c.Limit <= 100) {
		return nil, fmt.Errorf("slowdown = %g; want 0 (no bound), or above 1 to 100", c.Limit)
	}
	mode, err := interfere.ParseMode(c.Mode)
	if err != nil {
		return nil, err
	}
	return &Bound{Config: c, mode: mode, of: map[string]*answers{}}, nil
}

// Holds reports whether none of the jobs with these utilisations would be slowed
// beyond the limit on one GPU of a type. More or busier jobs never hold where fewer
// do not.
func (b *Bound) Holds(gpu string, utils []float64) bool {
	if b.Limit == 0 || len(utils) < 2 {
		return true
	}
	if len(utils) > MostJobs {
		return false
	}
	var at levels
	for i, u := range utils {
		at[i] = uint8(math.Ceil(min(max(u, 0), 1)*steps - 1e-9))
	}
	on := b.on(gpu)
	if len(utils) == 2 {
		known := &on.pairs[int(at[0])*(steps+1)+int(at[1])]
		if *known == unknown {
			*known = breaks
			if b.ask(on.model, at[:2]) {
				*known = holds
			}
		}
		return *known == holds
	}
	slices.Sort(at[:len(utils)])
	ok, known := on.more[at]
	if !known {
		if len(on.more) >= mostKnown {
			clear(on.more)
		}
		ok = b.ask(on.model, at[:len(utils)])
		on.more[at] = ok
	}
	return ok
}

// ask asks the model.
func (b *Bound) ask(m *interfere.Model, at []uint8) bool {
	loads := make([]interfere.Load, len(at))
	for i := range loads {
		loads[i].Util = float64(at[i]) / steps
	}
	if b.Sure {
		return m.Safe(b.mode, b.Limit, loads)
	}
	for i := range loads {
		others := slices.Delete(slices.Clone(loads), i, i+1)
		if m.Slowdown(b.mode, loads[i], others).Mean > b.Limit {
			return false
		}
	}
	return true
}

// on returns the answers for a GPU type. A type whose model cannot be read counts
// as not measured: a test of package interfere reads all of them.
func (b *Bound) on(gpu string) *answers {
	if b.GPU != Auto {
		gpu = b.GPU
	}
	if b.last != nil && b.last.gpu == gpu {
		return b.last
	}
	a, ok := b.of[gpu]
	if !ok {
		m, err := interfere.Default(gpu)
		if err != nil {
			m = interfere.Published()
		}
		a = &answers{gpu: gpu, model: m, more: map[levels]bool{}}
		b.of[gpu] = a
	}
	b.last = a
	return a
}
