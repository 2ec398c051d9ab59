// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package predict estimates, from a model's graph alone, how training it will use
// a GPU: utilisation, memory and step time. Beneath it: onnx reads graphs, features
// sums them up, experience keeps what past jobs measured. Of Fairway it imports only
// sched/goodput.
//
// # Utilisation
//
// A GPU is busy while kernels run. What a step's kernels take (busy) and what
// the host needs to launch them (host) are both sums over the graph: of
// arithmetic, traffic and launches by class of operator for the first, of
// operators by kind for the second. The coefficients of both sums are fitted
// to measured steps, and kept near what is known of the hardware where the
// measurements say little. The step takes about the longer of the two, and
// utilisation is busy over step. This is the physical estimate.
//
// What it leaves is learned by gradient-boosted trees over the estimate and
// the figures of the graph, from residuals of models that the estimate was
// not fitted to. A GPU type with fewer than 50 profiles has a linear model
// instead; one without any is estimated from another one's sums, scaled by
// peak rates, with wide intervals.
//
// # Memory
//
// Parameters, gradients, momentum and activations are replayed against a
// model of PyTorch's caching allocator (see package features); the context,
// and what the replay misses, come from measurement.
//
// # Files
//
// A Model is a JSON file, one per GPU type. Those under models/ are part of
// the program. Train makes them from two tables: what was measured and the
// figures of the graphs. The same tables give the same bytes.
package predict
