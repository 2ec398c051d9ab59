// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"container/heap"
	"time"
)

// tick is a scheduled event of a job. It is void if the job's version has changed.
type tick struct {
	at      time.Duration // since the start of the workload
	order   uint64        // in which it was added: breaks ties
	job     *job
	version uint32
}

// agenda holds the scheduled ticks, earliest first.
type agenda struct {
	ticks []tick
	order uint64
}

func (a *agenda) add(at time.Duration, j *job) {
	a.order++
	heap.Push((*byTime)(a), tick{at: at, order: a.order, job: j, version: j.version})
}

// next drops void ticks and returns the time of the first valid one.
func (a *agenda) next() (time.Duration, bool) {
	for len(a.ticks) > 0 {
		if t := a.ticks[0]; t.version == t.job.version {
			return t.at, true
		}
		heap.Pop((*byTime)(a))
	}
	return 0, false
}

func (a *agenda) pop() tick { return heap.Pop((*byTime)(a)).(tick) }

type byTime agenda

func (b *byTime) Len() int { return len(b.ticks) }
func (b *byTime) Less(i, j int) bool {
	x, y := &b.ticks[i], &b.ticks[j]
	if x.at != y.at {
		return x.at < y.at
	}
	return x.order < y.order
}
func (b *byTime) Swap(i, j int) { b.ticks[i], b.ticks[j] = b.ticks[j], b.ticks[i] }
func (b *byTime) Push(x any)    { b.ticks = append(b.ticks, x.(tick)) }
func (b *byTime) Pop() any {
	last := len(b.ticks) - 1
	t := b.ticks[last]
	b.ticks[last] = tick{}
	b.ticks = b.ticks[:last]
	return t
}
