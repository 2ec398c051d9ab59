// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import "math"

// kinship is what two jobs have in common, one bit for each level.
type kinship uint8

// The levels of kinship, the widest first. How much each says about run times differs
// from cluster to cluster, and is learned.
const (
	anybody kinship = 1 << iota
	sameSize
	sameTenant // and size
	sameTrain  // model and size
	sameOwner  // user and tenant
	sameHabit  // user, tenant and size
	sameTask   // user, tenant, model and size
	sameApp    // and size
	levels     = 8

	alike = sameTrain | sameOwner | sameHabit | sameTask | sameApp
)

// upTo returns the part of a key that decides to which groups of a level and all wider
// ones a job belongs.
func (k JobKey) upTo(level int) JobKey {
	by := kinship(1) << level
	if by < sameApp {
		k.App = ""
	}
	if by < sameOwner {
		k.User = ""
	}
	if by < sameTrain {
		k.Model = ""
	}
	if by < sameTenant {
		k.Tenant = ""
	}
	if by < sameSize {
		k.GPUs = 0
	}
	return k
}

// kin returns what two jobs have in common.
func (k JobKey) kin(o *JobKey) kinship {
	both := anybody
	tenant, size := k.Tenant == o.Tenant, k.GPUs == o.GPUs
	owner := tenant && k.User != "" && k.User == o.User
	if owner {
		both |= sameOwner
	}
	if !size {
		return both
	}
	both |= sameSize
	if tenant && k.Tenant != "" {
		both |= sameTenant
	}
	model := k.Model != "" && k.Model == o.Model
	if model {
		both |= sameTrain
	}
	if owner {
		both |= sameHabit
		if model {
			both |= sameTask
		}
	}
	if tenant && k.App != "" && k.App == o.App {
		both |= sameApp
	}
	return both
}

// widths are the numbers of jobs as which what is known from a wider group may count; the
// first is used until one of the others proves better.
var widths = [...]float64{2, 0.5, 8, 32}

// trust is how well each of the widths would have foreseen past jobs, for each level: the
// sum of the logarithms of their chances.
type trust [levels][len(widths)]float64

func (t *trust) width(level int) float64 {
	best := 0
	for i, sum := range t[level] {
		if sum > t[level][best] {
			best = i
		}
	}
	return widths[best]
}

// judge compares the widths by a job that has ended. kin is what each past job has in
// common with it.
func (t *trust) judge(past []lived, kin []kinship, o *lived) {
	h := assumed(1)
	for level := range levels {
		g := group{}
		for i := range past {
			if kin[i]>>level&1 != 0 {
				g.add(past[i].log, 1, true)
			}
		}
		if g.all == 0 {
			continue
		}
		for i, w := range widths {
			t[level][i] += math.Log(max(1e-9, h.chance(&g, w, o.log)))
		}
		h.mix(&g, t.width(level))
	}
}
