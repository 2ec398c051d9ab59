// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package profile reads measured step times and gradient statistics of models, and
// computes a job's speed and progress from them without a fitted model. Its files
// have the layout of the artifacts of Pollux (Qiao et al., OSDI 2021) and of Sia
// (Subramanya et al., SOSP 2023), so that results can be compared with those of their
// simulators on equal terms.
//
// A folder has one sub-folder for each model, with
//
//   - placements.csv: placement, local_bsz, step_time, sync_time. A placement
//     is a number with one digit for each node, the GPUs used there.
//   - scalability.csv (optional): num_nodes, num_replicas, local_bsz, step_time,
//     sync_time, for placements too large to measure individually.
//   - validation-<batch>.csv, at least one: progress, iteration, metric,
//     grad_sqr, grad_var; one row for each epoch of a training run at that
//     total batch size, progress and iterations being those at its end.
//
// Sia's folders have placements-<type>.csv and scalability-<type>.csv for each GPU
// type instead; the nodes of a cluster then name their type as the files do. In the
// tables of gpt_pmp, a GPT that is trained in pipelines, local_bsz is the size of a
// micro-batch, step_time its forward time in one stage, and sync_time the exchange
// between pipelines; every placement holds whole pipelines.
//
// Times are in seconds. Columns may be in any order. Other columns and files are
// ignored.
//
// # Placements that were not measured
//
// The step time of a placement that placements.csv does not have is interpolated over
// nodes, GPUs and local batch: linearly within the tetrahedra of the Delaunay
// triangulation of all measurements. The reference does the same with another
// library. The triangulation of measurements on a grid is not unique, and the two
// differ where there is a choice: for the tables of the artifact by half a percent of
// the step time on average at measured local batches, and by one percent between
// them. That library's own results differ as much when the rows of a table are
// shuffled.
package profile
