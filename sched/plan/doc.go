// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan predicts how fast a large model trains under an execution plan, and
// whether the plan fits in memory.
//
// # Plans
//
// A model that is too large, or too slow, for plain data parallelism can be trained in
// many ways on the same GPUs: replicas that share the optimiser's state (ZeRO) or all of
// it (FSDP), layers cut over GPUs (tensor parallelism) or dealt out to them (pipeline
// parallelism), state in the memory of the host (offload), activations computed twice
// (recomputation). A Plan is one such way on a given number of GPUs. Which one is
// fastest depends on the placement, so a scheduler that knows how fast each would be
// gets more out of the same GPUs.
//
// # Time
//
// Params has seven numbers for each model and type of GPU. They say what a step consists
// of: computing, a fixed part, the exchange of gradients through the network, the
// update of the weights, the exchanges of tensor parallelism, the update on the host,
// and how much faster or slower the code for model parallelism computes. Every plan and
// every size follows from the same seven (Params.Step), so what was measured under one
// plan says something about all of them. Fit finds them from a handful of steps, and from how
// long their exchanges take where that was measured (Parts); what
// the steps do not determine stays close to what hardware of this kind does with a model
// of this size (Typical).
//
// # Memory
//
// Model.Memory predicts the memory of a plan on each GPU and on the host, from the shape
// of a transformer. Generate lists the plans that fit; one that does not is never tried.
//
// The package is pure mathematics: it knows no jobs, no nodes and no clock.
package plan
