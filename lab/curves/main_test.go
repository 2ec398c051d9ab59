// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"

	"github.com/fairway-gpu/fairway/tune/search"
)

// With good hyper-parameters the network learns to read; with a tiny learning rate it
// does not; the same seed learns the same.
func TestTrialLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	train, test := draw(r, 1000), draw(r, 300)
	learn := func(rate float64) float64 {
		x := trialOf(search.Params{rate, 0.9, 1e-4, 40, 32, 2}, 1)
		for e := range 12 {
			x.epoch(train, float64(e)/12)
		}
		return x.accuracy(test)
	}
	good, again, slow := learn(0.1), learn(0.1), learn(1e-5)
	if good < 0.35 || good != again || slow > 0.25 {
		t.Errorf("accuracy %.2f, again %.2f, with a tiny rate %.2f; want above 0.35, the same, and about 0.1", good, again, slow)
	}
}

// Every digit is 7 lines of 5 pixels.
func TestFont(t *testing.T) {
	for d, lines := range font {
		for _, line := range lines {
			if len(line) != 5 {
				t.Errorf("digit %d has the line %q; want 5 pixels", d, line)
			}
		}
	}
}
