// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import "github.com/fairway-gpu/fairway/sched"

// holdings is what jobs hold of each GPU, in thousandths, by node and bit.
type holdings map[sched.Slice]int32

// held returns what the running jobs hold. Only the loop gives out GPUs, but it
// may have seen some as free in a change that the journal refused afterwards.
func (m *memory) held() holdings {
	h := holdings{}
	for _, j := range m.state.Peek().Jobs {
		h.add(j.Placement, 1)
	}
	return h
}

func (h holdings) each(p sched.Placement, f func(gpu sched.Slice, milli int32)) {
	for _, s := range p {
		for g := s.GPUs; g != 0; g &= g - 1 {
			f(sched.Slice{Node: s.Node, GPUs: g & -g}, s.Milli)
		}
	}
}

func (h holdings) add(p sched.Placement, sign int32) {
	h.each(p, func(gpu sched.Slice, milli int32) { h[gpu] += sign * milli })
}

// room reports whether the GPUs of a placement are free.
func (h holdings) room(p sched.Placement) bool {
	ok := true
	h.each(p, func(gpu sched.Slice, milli int32) { ok = ok && h[gpu]+milli <= sched.WholeGPU })
	return ok
}
