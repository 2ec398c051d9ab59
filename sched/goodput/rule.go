// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// Rule says by what factor the learning rate of the initial batch size is to be
// multiplied at another one. scale is the batch size over the initial one, above
// 0; n is what is known of the gradient now.
type Rule func(scale float64, n Noise) float64

// Rules returns the rules by name. A program may add its own to the map.
func Rules() map[string]Rule {
	return map[string]Rule{"adascale": AdaScale, "sqrt": SquareRoot, "linear": Linear}
}

// AdaScale multiplies the learning rate by the number of steps at the initial
// batch size that one step is worth, for plain gradient descent: between 1, when
// there is no noise, and scale, when there is nothing else. Johnson et al., ICML
// 2020.
func AdaScale(scale float64, n Noise) float64 {
	if n.Var == 0 && n.Sqr == 0 {
		return 1
	}
	larger := max(n.Var, n.Sqr) // the sums of the largest numbers would be infinite
	noise, gradient := n.Var/larger, n.Sqr/larger
	return (noise + gradient) / (noise/scale + gradient)
}

// SquareRoot keeps the noise of the step the same: for Adam and its relatives.
func SquareRoot(scale float64, _ Noise) float64 { return math.Sqrt(scale) }

// Linear keeps the progress for each example the same, as long as there is far
// more noise than gradient. Goyal et al., 2017.
func Linear(scale float64, _ Noise) float64 { return scale }
