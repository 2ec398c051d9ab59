// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package predict estimates, from a model's graph alone, how training it will use a
// GPU: utilisation, memory and step time. Beneath it: onnx reads graphs, features
// summarises them, experience stores what past jobs measured. Of Fairway it imports
// only sched/goodput.
//
// # Utilisation
//
// A GPU is busy while kernels run. The time of a step's kernels (busy) and the time
// the host needs to launch them (host) are both sums over the graph: busy is a sum of
// arithmetic, traffic and launches by class of operator, host of operators by kind.
// The coefficients of both sums are fitted to measured steps, and stay near the known
// figures of the hardware where there are few measurements. The step takes about the
// longer of the two, and utilisation is busy over step. This is the physical
// estimate.
//
// Gradient-boosted trees over the estimate and the figures of the graph learn its
// error, from residuals of models that the estimate was not fitted to. A GPU type
// with fewer than 50 profiles has a linear model instead; for one without any, the
// sums of another type are scaled by peak rates, with wide intervals.
//
// # Memory
//
// Parameters, gradients, momentum and activations are replayed against a model of
// PyTorch's caching allocator (see package features); the context, and what the
// replay misses, are measured.
//
// # Files
//
// A Model is a JSON file, one per GPU type. Those under models/ are built in. Train
// makes them from two tables: the measurements and the figures of the graphs. The
// same tables give the same bytes.
package predict
