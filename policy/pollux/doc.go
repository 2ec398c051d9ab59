// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package pollux is the scheduler of "Pollux: Co-adaptive Cluster Scheduling
// for Goodput-Optimized Deep Learning" (Qiao et al., OSDI'21). The agents of
// jobs report how fast they would train on any number of GPUs with the best
// batch size for it (goodput.Report); every decision divides all GPUs among all jobs
// again, so that a mean of their speedups is largest.
//
// # Fitness
//
// The speedup of a job is its predicted goodput on the GPUs it gets, against
// that on a fair share: the cluster's GPUs divided by the number of jobs,
// rounded up, as if they were on one node (equation 15). Jobs that wait count.
// The fitness of an allocation is the power mean of the speedups with exponent
// p (equation 14); p = 0, the limit, is the geometric mean. As in the authors'
// code, speedups are first multiplied by the number of nodes for each GPU, and
// 0.001 is added, so that a job without GPUs does not make the mean zero.
//
// A job whose GPUs change loses time to restart. Its speedup is multiplied by
// (age - restarts*restart) / (age + restart), at least 0 (restart is 30s by default).
// As in the authors' code this also holds for a job without GPUs: at age 0 the value
// of starting it is 0. Such jobs still get the GPUs that no other job wants.
//
// A job without a report, or without a model for a type of GPU, is assumed to speed
// up linearly (a thousandth less across nodes, so that it is not spread without
// need). It gets one GPU at first, and at most twice the most it has had; with a
// report, at most Report.MostGPUs.
//
// # Searches
//
// Package division finds the allocation, by a fast search of our own (search=fast) or
// as the paper does (search=genetic).
//
// # Deviations
//
//   - The genetic search selects by fitness alone, not also by utilisation
//     (NSGA-II), and each individual lives once.
//   - It starts anew each time: from what runs now, from one GPU or a fair share
//     for every job, and from mutants of these. The authors keep the population
//     between rounds; a policy here depends on nothing but the snapshot.
//   - A job may span any number of nodes; the authors' code allows 16.
//   - Decisions follow events and, when nothing happens, the interval. A driver
//     that wants decisions at fixed times only, as in the paper, has to see to
//     that itself.
//   - In a cluster of several GPU types, a fair share is the mean over the types
//     that the job has a model for, weighted by their GPUs. A job never has GPUs
//     of two types.
//   - A job that may not change its size gets what it asked for or nothing.
//     Quotas of tenants, pinned jobs, CPUs, memory and locality are respected;
//     the paper knows none of them. A limit below what a tenant holds stops its
//     jobs, except pinned ones.
//   - GPUs are always given whole. A job that another policy had put on shared
//     GPUs moves.
//   - In a problem with many jobs, the fast search does not look at every size:
//     it tries powers of two and whole nodes, and then sizes around the best of
//     them. Pairs of nodes with very many GPUs (more than about 16) are not
//     divided anew.
//
// # Promises
//
// Not every free GPU is used: with interference avoidance (apart), a job that
// needs several nodes may wait although there are enough GPUs, and a job keeps
// what it has if moving would cost more than it gains.
package pollux
