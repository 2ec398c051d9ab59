// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package slaq gives GPUs to the jobs whose training losses they lower most: "SLAQ:
// Quality-Driven Scheduling for Distributed Machine Learning" (Zhang et al.,
// SoCC'17).
//
// # The rule
//
// Time is cut into epochs. For every job that reports training losses
// (goodput.Report.Losses) two curves are fitted, recent losses counting more
// than old ones: 1/(a*k^2 + b*k + c) + d, for methods that converge sublinearly
// in the step k, and mu^(k-b) + c, for those that converge linearly; the better
// one is kept. With the measured step times (StepTimes) it predicts how much the
// loss falls in the next epoch on n GPUs. The reduction is divided by the largest one
// so far, so that losses of different models can be compared.
//
// Every job first gets its smallest size. The rest goes, step by step, to the job
// whose predicted normalised loss falls most per additional GPU.
//
// # Shortage
//
// The paper's unit is a core, and every job gets one. A gang is a larger unit, so
// that there may not be one for every job. First units then go in order of the
// predicted reduction per GPU. A job that has waited for patience goes before all
// others, the longest wait first: this bounds how long a job with a flat curve waits
// for new jobs.
//
// # What is not known
//
// Before a job has reported three losses and a step time it is assumed to be at its
// steepest: its smallest size takes it half of the way, each further one half of what
// remains. Beyond the largest size it has run at, speed is assumed to grow in
// proportion; the agent's limit (Report.MostGPUs) bounds the step.
//
// Jobs without an agent report no losses. Together they have a fair share: the GPUs of
// the cluster times their part of all jobs. It goes to whole requests, the least GPU
// time so far first, up to and including the one that crosses the share. They also get
// GPUs that no other job needs as a first unit. They run at the size they ask for,
// elastic or not.
//
// # Promises
//
// No GPU idles that a waiting job could use. A job that waits for patience is
// served before all others, and a job that has been the first of the waiting
// ones for an epoch breaks the leases of running ones (see place.Lease). So no job
// starves, unless it insists on GPUs that are close together and never come free: no
// job is moved to make room.
//
// # Deviations
//
//   - The paper changes shares every few seconds, at no cost. Here a resize is a
//     restart: a job that was started or resized stays unchanged for an epoch of
//     minutes, and a resize shortens the epoch of a job by the knob restart.
//   - Gains are therefore not smooth: a step is any larger size, by its mean gain per
//     GPU, not the next size alone.
//   - The largest reduction is that between the highest and the lowest loss of the
//     report; the paper takes the largest of single iterations, which reports of
//     a few dozen losses do not show.
//   - Curves are found by weighted least squares for a grid of asymptotes.
//   - A job runs at a size that it allows (gangs, lists of sizes, tasks); a rigid
//     one, or one that is not preemptible, at its request or not at all.
//   - GPU types are separate pools, as are tenants' limits: a share that finds
//     no place falls back to what the job had, then to its smallest size.
package slaq
