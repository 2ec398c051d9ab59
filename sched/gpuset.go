// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"math/bits"
	"strings"
)

// MaxGPUs is the largest number of GPUs a node may have: a GPUSet is one word.
const MaxGPUs = 64

// GPUSet is a set of GPU indexes of one node; bit i stands for GPU i.
type GPUSet uint64

// FirstGPUs returns the set of GPUs 0 to n-1.
func FirstGPUs(n int) GPUSet {
	if n >= MaxGPUs {
		return ^GPUSet(0)
	}
	return GPUSet(1)<<n - 1
}

// Len returns the number of GPUs in the set.
func (g GPUSet) Len() int { return bits.OnesCount64(uint64(g)) }

// Has reports whether GPU i is in the set.
func (g GPUSet) Has(i int) bool { return g&(1<<i) != 0 }

// Lowest returns the n lowest GPUs of the set, or the whole set if it has
// fewer.
func (g GPUSet) Lowest(n int) GPUSet {
	if n >= g.Len() {
		return g
	}
	var out GPUSet
	for ; n > 0; n-- {
		low := g & -g
		out |= low
		g ^= low
	}
	return out
}

// Indexes returns the GPUs of the set in ascending order.
func (g GPUSet) Indexes() []int {
	out := make([]int, 0, g.Len())
	for ; g != 0; g &= g - 1 {
		out = append(out, bits.TrailingZeros64(uint64(g)))
	}
	return out
}

// String prints the set as a list of ranges, such as "0-3,6".
func (g GPUSet) String() string {
	var b strings.Builder
	for i := 0; i < MaxGPUs; {
		if !g.Has(i) {
			i++
			continue
		}
		end := i
		for end+1 < MaxGPUs && g.Has(end+1) {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		if end > i {
			fmt.Fprintf(&b, "%d-%d", i, end)
		} else {
			fmt.Fprintf(&b, "%d", i)
		}
		i = end + 1
	}
	return b.String()
}
