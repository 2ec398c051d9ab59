// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math"
	"time"
)

// Offer is the next step by which a job could grow.
type Offer struct {
	Gain float64 // for each GPU
	Job  int     // index in the policy's list, in order of submission
	To   int     // GPUs it would have
	Most int     // GPUs it can use
}

// Offers is a heap (container/heap) for policies that hand out GPUs one step at
// a time: the largest gain is on top, then the job submitted first.
type Offers []Offer

func (h Offers) Len() int { return len(h) }
func (h Offers) Less(a, b int) bool {
	if h[a].Gain != h[b].Gain {
		return h[a].Gain > h[b].Gain
	}
	return h[a].Job < h[b].Job
}
func (h Offers) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

// Push implements heap.Interface.
func (h *Offers) Push(x any) { *h = append(*h, x.(Offer)) }

// Pop implements heap.Interface.
func (h *Offers) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	*h = (*h)[:last]
	return o
}

// century is longer than any wait and far from the end of time.Duration.
const century = 100 * 365 * 24 * time.Hour

// Seconds returns a number of seconds, not negative, as a duration: rounded up
// to whole nanoseconds, so that what is due after it is really due, and at most
// a century.
func Seconds(x float64) time.Duration {
	switch {
	case !(x > 0):
		return 0
	case x >= century.Seconds():
		return century
	}
	return time.Duration(math.Ceil(x * float64(time.Second)))
}
