// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import "time"

// Pods of others come and go all the time, and the state makes a record of every change of a
// node. What they take counts at once. What they give back counts at once only if it is much,
// or if it stays free: a pod that runs every minute would otherwise be in the journal twice a
// minute, and nothing would be decided differently. GPUs always count at once.

// much is the part of a node's CPUs or memory that counts at once when it becomes free.
const much = 8 // an eighth

// shown is what the state was told that others use of a node.
type shown struct {
	cpu, memory int64
	less        time.Time // since when they use a little less; zero: they do not
}

// settle updates what is shown from what is used now of a node with these facts. again is
// when it changes by itself; zero: not.
func (s *shown) settle(now time.Time, used demand, f *facts, after time.Duration) (out demand, again time.Time) {
	follow := func(shown *int64, used, all int64) (less bool) {
		if used < *shown && *shown-used < max(1, all/much) {
			return true
		}
		*shown = used
		return false
	}
	lessCPU, lessMemory := follow(&s.cpu, used.cpu, f.cpu), follow(&s.memory, used.memory, f.memory)
	switch {
	case !lessCPU && !lessMemory:
		s.less = time.Time{}
	case s.less.IsZero():
		s.less = now
	case now.Sub(s.less) >= after:
		*s = shown{cpu: used.cpu, memory: used.memory}
	}
	if !s.less.IsZero() {
		again = s.less.Add(after)
	}
	return demand{gpus: used.gpus, cpu: s.cpu, memory: s.memory}, again
}
