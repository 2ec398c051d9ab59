// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import "iter"

// queue yields the active jobs in order of submission, for those who need not see
// all of a long queue.
func (m *memory) queue() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, j := range m.state.Peek().Jobs {
			if !yield(m.jobs[j.ID]) {
				return
			}
		}
	}
}
