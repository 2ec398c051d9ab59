// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Space is a set of ways to train: which kinds of plans a job allows. Plain data
// parallelism is always among them.
type Space struct {
	FSDP, Zero, Offload, Accumulate, Recompute bool
	Tensor, Pipeline                           int // most GPUs of a layer, most stages; 0: 1
}

// most is the largest tensor or pipeline parallelism.
const most = 1024

// ParseSpace reads the names of generators: fsdp, zero, zero-offload, accumulate,
// recompute, tp, pp, and with a bound tp<=8, pp<=4.
func ParseSpace(names []string) (Space, error) {
	var s Space
	for _, name := range names {
		kind, bound, bounded := strings.Cut(name, "<=")
		n := most
		if bounded {
			var err error
			if n, err = strconv.Atoi(bound); err != nil || n < 1 || n > most || kind != "tp" && kind != "pp" {
				return Space{}, fmt.Errorf("generator %.40q; want a bound only for tp and pp, of 1 to %d, such as tp<=8", name, most)
			}
		}
		switch kind {
		case "fsdp":
			s.FSDP = true
		case "zero":
			s.Zero = true
		case "zero-offload":
			s.Offload = true
		case "accumulate":
			s.Accumulate = true
		case "recompute":
			s.Recompute = true
		case "tp":
			s.Tensor = n
		case "pp":
			s.Pipeline = n
		default:
			return Space{}, fmt.Errorf("generator %.40q; want fsdp, zero, zero-offload, accumulate, recompute, tp, pp, or a bound such as tp<=8", name)
		}
	}
	return s, nil
}

// Room is the memory of a node, in bytes; 0: not bounded.
type Room struct {
	GPUs int     // of a node
	GPU  float64 // of each GPU
	Host float64 // for each GPU
}

// Generate returns the plans of a space on a number of GPUs that fit in memory. Of each
// kind it returns the one with the fewest parts of the batch, and one that recomputes
// only if nothing fits otherwise: both only cost time.
func Generate(m Model, s Space, gpus int, room Room) []Plan {
	var out []Plan
	for t := 1; t <= min(max(1, s.Tensor), gpus, room.GPUs); t *= 2 {
		if gpus%t != 0 || m.Heads%t != 0 {
			continue
		}
		for p := 1; p <= min(max(1, s.Pipeline), gpus/t); p++ {
			if gpus%(t*p) != 0 || m.Layers%p != 0 || m.Batch%(gpus/t/p) != 0 {
				continue
			}
			base := Plan{Data: gpus / t / p, Tensor: t, Pipeline: p, Micro: 1}
			for _, k := range s.kinds(base) {
				if found, ok := m.fit(k, s, room); ok {
					out = append(out, found)
				}
			}
		}
	}
	return out
}

// kinds returns a plan with each kind of sharding of the space.
func (s Space) kinds(base Plan) []Plan {
	out := []Plan{base}
	with := func(sharding Sharding, offload bool) {
		base.Sharding, base.Offload = sharding, offload
		out = append(out, base)
	}
	if s.Zero && base.Data > 1 {
		with(Optimizer, false)
	}
	if s.FSDP && base.Data > 1 && base.Pipeline == 1 {
		with(Full, false)
	}
	if s.Offload && base.Pipeline == 1 {
		with(Optimizer, true)
	}
	return out
}

// fit divides the batch of a plan until the plan fits in memory. A pipeline without
// parts stands still most of the time, so it starts with four for each stage.
func (m Model) fit(p Plan, s Space, room Room) (Plan, bool) {
	share := m.Batch / p.Data
	parts := []int{1}
	if s.Accumulate || p.Pipeline > 1 {
		for n := 2; n <= share; n *= 2 {
			if share%n == 0 {
				parts = append(parts, n)
			}
		}
	}
	if p.Pipeline > 1 {
		enough := slices.IndexFunc(parts, func(n int) bool { return n >= 4*p.Pipeline })
		if enough < 0 {
			enough = len(parts) - 1
		}
		parts = parts[enough:]
	}
	for _, again := range []bool{false, true} {
		if again && !s.Recompute {
			break
		}
		p.Recompute = again
		for _, p.Micro = range parts {
			gpu, host := m.Memory(p)
			if (room.GPU == 0 || gpu <= room.GPU) && (room.Host == 0 || host <= room.Host) {
				return p, true
			}
		}
	}
	return p, false
}
