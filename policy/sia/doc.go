// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package sia is the scheduler of "Sia: Heterogeneity-aware, goodput-optimized
// ML-cluster scheduling" (Subramanya et al., SOSP'23). Every minute it chooses for
// every job at once how many GPUs it gets and of which type, by the goodput that
// the job's agent predicts, while agents tune batch sizes.
//
// # Configurations
//
// A job gets GPUs of one type: a power of two up to a node, or whole nodes, such as
// 1, 2, 4, 8, 12, ... where nodes have 4 GPUs, on as few nodes as possible. An elastic
// job starts small and may have as many as its report allows, or without a report twice
// the most it has had. A rigid job has a choice of types only.
//
// # The integer program
//
// The goodput of each configuration is divided by that of the job's worst. For a
// running job, every configuration but the present one is multiplied by
// (age - restarts*restart) / (age + restart), as in Pollux. With these values G, the
// program minimises the sum over jobs of G^p, rounded to hundredths and at most 3000,
// or lambda for a job that gets nothing, within the GPUs of each type. p is -0.5 and
// lambda 1.1. A job that is still starting keeps its configuration.
//
// Programs of up to about 40 million steps, which covers the paper's cluster of 64
// GPUs with a hundred jobs, are solved exactly by dynamic programming over the free
// GPUs of each type. For larger ones, a subgradient method sets prices of GPUs; the
// choice at these prices is improved by exchanges between pairs of jobs and by exact
// solutions for a dozen jobs at a time. Tests check that it is within 1 % of the exact
// solution where there is one (0.4 % at most in 75 draws), and within 1 % of the bound
// from its own prices with 1,000 jobs.
//
// # Goodput on types
//
// A job that has run on a type has a model for it (Report.Params). For another type
// its goodput is that of the cluster's first type with a model, with as many replicas,
// times the ratio of its speeds on both on one GPU (Report.StepTimes), from trials at
// its submission or borrowed from other models. A job that has not run at all is
// assumed to speed up linearly from the trials.
//
// A job whose replicas are pipelines of several GPUs (Report.Units) gets whole ones.
//
// # Placement
//
// Jobs whose configuration stays keep their GPUs. The others go to the fewest nodes
// that can hold them, the largest first and best fit. If some then do not fit, all
// are placed again, the largest first, and small ones move to make room. A job that
// still does not fit gets its best configuration that does.
//
// # Deviations
//
//   - The authors solve the program with CBC or GLPK to a gap of 1e-4.
//   - The restart cost is what the job's agent says, or a knob. The authors' code has a
//     figure for each model.
//   - The configuration a running job has is always among its options, even if it
//     is not of the form above: another policy may have put it there.
//   - Where nodes of one type differ in size, whole nodes are counted by the
//     largest.
//   - Jobs have equal weights.
//   - Decisions follow events as well as the interval.
//   - Quotas of tenants, pinned jobs, CPUs, memory and locality are respected; the
//     paper has only pinned jobs. A job that is over its tenant's limit after the
//     program is solved gets less or nothing.
//
// # Promises
//
// A job may wait although enough GPUs are free, if they are spread over more nodes
// than it needs.
package sia
