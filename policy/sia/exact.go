// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import "math"

// instance is the integer program: at most one option from each menu, no more
// GPUs of any type than there are, and the largest sum of gains.
type instance struct {
	gpus  []int      // by type
	menus [][]option // by job
}

// nothing, as a choice, stands for no option.
const nothing = -1

// exactWork bounds the steps of the exact solution: about 50 ms.
const exactWork = 40_000_000

// assign returns an index into each menu, or nothing.
func (in *instance) assign() []int {
	states, options, jobs := 1, 0, 0
	for _, n := range in.gpus {
		if states *= n + 1; states > exactWork {
			return in.search()
		}
	}
	for _, m := range in.menus {
		options += len(m)
		if len(m) > 0 {
			jobs++
		}
	}
	if states*(options+jobs) > exactWork {
		return in.search()
	}
	return in.exact()
}

// exact solves the program by dynamic programming over the numbers of free GPUs
// of each type.
func (in *instance) exact() []int {
	states := 1
	stride := make([]int, len(in.gpus))
	for t, n := range in.gpus {
		stride[t] = states
		states *= n + 1
	}
	// room[t][s] is the number of free GPUs of type t in state s.
	room := make([][]int32, len(in.gpus))
	for t, n := range in.gpus {
		room[t] = make([]int32, states)
		for s := range states {
			room[t][s] = int32(s / stride[t] % (n + 1))
		}
	}
	best, next := make([]float64, states), make([]float64, states)
	took := make([][]int8, len(in.menus)) // by job and state: the option taken
	for k, menu := range in.menus {
		if len(menu) == 0 {
			continue
		}
		took[k] = make([]int8, states)
		copy(next, best)
		for s := range took[k] {
			took[k][s] = nothing
		}
		for o, x := range menu[:min(len(menu), math.MaxInt8)] {
			need, step, free, mine := int32(x.gpus), x.gpus*stride[x.gpuType], room[x.gpuType], took[k]
			for s := step; s < states; s++ {
				if free[s] >= need {
					if g := best[s-step] + x.gain; g > next[s] {
						next[s], mine[s] = g, int8(o)
					}
				}
			}
		}
		best, next = next, best
	}
	return in.walkBack(took, stride, states-1)
}

// walkBack reads the choices off the tables, from the state with all GPUs free.
func (in *instance) walkBack(took [][]int8, stride []int, s int) []int {
	choice := make([]int, len(in.menus))
	for k := len(in.menus) - 1; k >= 0; k-- {
		choice[k] = nothing
		if took[k] != nil && took[k][s] != nothing {
			choice[k] = int(took[k][s])
			x := in.menus[k][choice[k]]
			s -= x.gpus * stride[x.gpuType]
		}
	}
	return choice
}

// value returns the sum of gains of a choice.
func (in *instance) value(choice []int) float64 {
	sum := 0.0
	for k, o := range choice {
		if o != nothing {
			sum += in.menus[k][o].gain
		}
	}
	return sum
}
