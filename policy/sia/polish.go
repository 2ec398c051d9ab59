// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"cmp"
	"slices"
)

// Effort of polish.
const (
	windowJobs = 16
	windowWork = 4_000_000  // steps of the exact solution of one window
	polishWork = 30_000_000 // of all windows
	polishJobs = 2_000      // with more jobs, a few matter too little
)

// polish takes a few jobs at a time and divides what they hold, and what is free,
// among them exactly. Each round combines other jobs, until two rounds gain
// nothing.
func (m *market) polish() {
	jobs := make([]int, 0, len(m.menus))
	for k, menu := range m.menus {
		if len(menu) > 0 {
			jobs = append(jobs, k)
		}
	}
	if len(jobs) > polishJobs {
		return
	}
	work, idle := 0, 0
	for _, step := range []int{1, 7, 13, 5, 11, 3, 17} {
		if len(jobs) > windowJobs {
			slices.SortFunc(jobs, func(a, b int) int {
				return cmp.Or(cmp.Compare(a*step%len(m.menus), b*step%len(m.menus)), cmp.Compare(a, b))
			})
		}
		gained := false
		for rest := jobs; len(rest) > 0; {
			n := min(windowJobs, len(rest))
			in, cost := m.window(rest[:n])
			for cost > windowWork && n > 2 {
				n /= 2
				in, cost = m.window(rest[:n])
			}
			if work += cost; work > polishWork {
				return
			}
			if cost <= windowWork {
				gained = m.replace(rest[:n], in) || gained
			}
			rest = rest[n:]
		}
		if idle++; gained {
			idle = 0
		}
		if idle == 2 {
			return
		}
	}
}

// window returns the program of some jobs, and the number of steps of its exact
// solution.
func (m *market) window(jobs []int) (instance, int) {
	in := instance{gpus: slices.Clone(m.left)}
	options := 0
	for _, k := range jobs {
		if o := m.choice[k]; o != nothing {
			in.gpus[m.menus[k][o].gpuType] += m.menus[k][o].gpus
		}
		in.menus = append(in.menus, m.menus[k])
		options += len(m.menus[k]) + 1
	}
	cost := options
	for _, n := range in.gpus {
		if cost *= n + 1; cost > windowWork {
			break
		}
	}
	return in, cost
}

// replace solves a window and adopts the solution if it is better.
func (m *market) replace(jobs []int, in instance) bool {
	before := 0.0
	for _, k := range jobs {
		before += m.gainOf(k, m.choice[k])
	}
	choice := in.exact()
	if in.value(choice) <= before+1e-9 {
		return false
	}
	for i, k := range jobs {
		m.set(k, choice[i])
	}
	return true
}
