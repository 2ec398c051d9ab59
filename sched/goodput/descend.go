// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

// When to stop: the loss can fall by no more than these, relative or absolute.
const (
	relativeTolerance = 1e-6
	absoluteTolerance = 1e-7
)

// margin is by how much, relative, a start must promise to be better than the
// best point so far in order to be followed to its end.
const margin = 0.005

// poor is the loss above which promises are not to be trusted: the profile is
// unlike anything the model can describe.
const poor = 0.5

// search follows the first start to the lowest point nearby, and the second as
// long as it promises a lower point still.
func (q *problem) search(first, second vector) vector {
	v, loss := q.descend(first, 0)
	enough := 0.0
	if loss < poor {
		enough = loss * (1 - margin)
	}
	if w, other := q.descend(second, enough); other < loss {
		return w
	}
	return v
}

// descend goes downhill from v. It stops early when what is in sight is not
// below enough; 0 never stops it. In each step it moves to the lowest point of
// the tangent. That converges fast for any residuals that are nearly straight,
// and unlike Newton's method or its cousins it does not mind that a norm has no
// second derivative where the fit is perfect.
func (q *problem) descend(v vector, enough float64) (vector, float64) {
	const rounds = 200
	var here, there surface
	q.measure(&v, &here)
	damp := 1e-3
	for range rounds {
		t := newTangent(&here, v, &q.pinned, damp)
		move, gain := t.lowestPoint()
		if gain < relativeTolerance*here.loss+absoluteTolerance || here.loss-gain > enough && enough > 0 {
			break
		}
		to := v
		for i := range dims {
			if !q.pinned[i] {
				to[i] = within(i, v[i]+move[i])
			}
		}
		q.measure(&to, &there)
		fell := here.loss - there.loss
		switch {
		case fell > 0.75*gain:
			damp = max(damp/10, 1e-9)
		case !(fell > 0.1*gain):
			damp *= 8
		}
		if fell > 0 {
			v, here = to, there
		}
	}
	return v, here.loss
}
