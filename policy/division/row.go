// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// slot is a number of GPUs of one node. A search does not care which ones.
type slot struct{ node, gpus int32 }

// row is what a job has: one slot for each node.
type row []slot

// rowOf returns the row of a placement.
func rowOf(p sched.Placement) row {
	r := make(row, len(p))
	for i, s := range p {
		r[i] = slot{s.Node, int32(s.GPUs.Len())}
	}
	return r
}

func (r row) gpus() int {
	n := 0
	for _, s := range r {
		n += int(s.gpus)
	}
	return n
}

// on returns how many GPUs of a node the row has.
func (r row) on(node int) int {
	for _, s := range r {
		if int(s.node) == node {
			return int(s.gpus)
		}
	}
	return 0
}

// same reports whether two rows have the same slots, in any order.
func (r row) same(other row) bool {
	if len(r) != len(other) {
		return false
	}
	for _, s := range r {
		if !slices.Contains(other, s) {
			return false
		}
	}
	return true
}
