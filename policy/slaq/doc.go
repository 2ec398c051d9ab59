// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package slaq gives GPUs where they lower training losses most: "SLAQ:
// Quality-Driven Scheduling for Distributed Machine Learning" (Zhang et al.,
// SoCC'17).
//
// # The rule
//
// Time is cut into epochs. For every job that reports training losses
// (goodput.Report.Losses) two curves are fitted, recent losses counting more
// than old ones: 1/(a*k^2 + b*k + c) + d, for methods that converge sublinearly
// in the step k, and mu^(k-b) + c, for those that converge linearly; the better
// one is kept. With the measured step times (StepTimes) it says how much the
// loss would fall in the next epoch on n GPUs. The fall is divided by the
// largest one seen so far, so that losses of different models can be compared.
//
// Every job first gets its smallest size. Then the rest is given out, always to
// the job whose predicted normalised loss falls most for each GPU more.
//
// # Shortage
//
// The paper's unit is a core and there is one for every job. A gang is a larger
// unit, so that a first unit for everybody may be too much. First units are
// then given in order of the predicted fall for each GPU. A job that has waited
// for patience goes before all others, the longest wait first: it bounds what a
// job with a flat curve waits for those that have just begun.
//
// # What is not known
//
// Before a job has reported three losses and a step time it is taken to be at
// its steepest: its smallest size takes it half of the way, each further one
// half of what remains. Speed beyond the largest size it has run at is taken to
// grow in proportion; the agent's limit (Report.MostGPUs) bounds the step.
//
// Jobs that have no agent report nothing. Together they have a fair share, the
// GPUs of the cluster times their part of all jobs. It is given out in whole
// requests, least GPU time so far first; the one that crosses the share is the
// last. GPUs that nobody else needs as a first unit are theirs too. They run at
// the size they ask for, elastic or not.
//
// # Promises
//
// No GPU idles that a waiting job could use. A job that waits for patience is
// served before all others, and a job that has been the first of the waiting
// ones for an epoch breaks the leases of running ones (see place.Lease). So
// nobody starves, unless it insists on a place near to itself that never comes
// free: nobody is moved to make room.
//
// # Deviations
//
//   - The paper changes shares every few seconds, at no cost. Here another size
//     is a restart: a job that was started or resized stays as it is for an
//     epoch, of minutes; and the epoch of a job that would change its size is
//     counted shorter by the knob restart.
//   - With that, gains have bumps: a step is any larger size, by its mean gain
//     for each GPU, not the next size alone.
//   - The largest fall seen is between the highest and the lowest loss of the
//     report; the paper takes the largest of single iterations, which reports of
//     a few dozen losses do not show.
//   - Curves are found by weighted least squares for a grid of asymptotes.
//   - A job runs at a size that it allows (gangs, lists of sizes, tasks); a rigid
//     one, or one that is not preemptible, at its request or not at all.
//   - GPU types are separate pools, as are tenants' limits: a share that finds
//     no place falls back to what the job had, then to its smallest size.
package slaq
