// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package search finds good hyper-parameters by many trials.
//
// TPE is the tree-structured Parzen estimator of Bergstra et al. (NIPS 2011),
// the method behind Hyperopt. After a number of random trials it splits those
// that have been observed into the good ones and the rest, estimates a density
// of each (l and g) for every parameter, draws candidates from l and suggests,
// for every parameter, the one at which l/g is largest: where good trials are
// dense and others are not.
//
// A density is a mixture of one normal distribution around each observation,
// truncated at the bounds, and a wide one over the whole range, so that no value is
// ever ruled out. The width of each is the distance to its neighbours. Logarithmic
// parameters are treated in the logarithm, whole numbers as the mass of the interval
// that rounds to them, choices by counting.
//
// Deviations from Hyperopt: the good set is the best quarter of the trials, at most
// 25, where Hyperopt grows it with the square root of their number; all observations
// have the same weight, where Hyperopt reduces that of all but the last 25; and
// parameters do not depend on each other (a space is a list, not a tree).
//
// Trials may be suggested before earlier ones have been observed, so that several can
// run at once. A Problem is what simulated searches are about: Surface is an analytic
// substitute for training, Table holds the learning curves of real ones.
//
// The package is pure: randomness comes from a seed, and the same observations
// in the same order give the same suggestions.
package search
