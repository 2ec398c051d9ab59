// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package antman runs jobs that have a guarantee as if they were alone, and fits
// others into what these leave of their GPUs: "AntMan: Dynamic Scaling on GPU
// Clusters for Deep Learning" (Xiao et al., OSDI'20).
//
// # Two classes
//
// The quota of a tenant is guaranteed. Its jobs have the guarantee in order of
// submission, as far as the quota reaches; one that is larger than the quota
// never has. GPUs that are in nobody's quota are the common quota of all jobs
// whose tenant has none. Who has the guarantee and runs keeps it (Job.Note.Level).
// All others are opportunistic: beyond the quota, while their tenant's limit
// allows.
//
// # Jobs with the guarantee
//
// They are placed first, on GPUs that no other such job has, near to each other:
// on idle GPUs if there are, else on those of opportunistic jobs, which give way
// at once where they do not suit. A job that finds no place reserves: later jobs
// with the guarantee, of the same GPU types, wait behind it; opportunistic ones do
// not. When it has waited for patience it runs as an opportunistic job meanwhile,
// and is upgraded before any other job starts.
//
// # Opportunistic jobs
//
// One that may share GPUs (Spec.Shareable) gets a small part (the knob guest) of
// each of its GPUs, idle ones or those of a job with the guarantee. Which suit:
//
//   - at most one opportunistic job is on a GPU, beside at most one with the
//     guarantee;
//   - the one with the guarantee may share, and uses its GPU to less than busy;
//   - the utilisation of both is known and adds up to max_util at most;
//   - with the knob slowdown, neither is expected to be slowed by more than that
//     by the interference model of the GPU's type (package interfere);
//   - the memory of both fits, as far as it is known.
//
// It goes to the node whose GPUs have the most utilisation to spare, then the
// most memory; to several nodes, of one rack if possible, when no single one has
// enough. A job that may not share runs on idle GPUs, whole, until somebody with
// the guarantee needs them.
//
// # Promises
//
// A job with the guarantee waits only for others with it that came before, and
// for jobs that are not preemptible; it is never stopped, unless quotas are
// lowered. So it does not starve as long as jobs end. Opportunistic jobs are
// promised nothing.
//
// # Deviations
//
//   - The local coordinator, which measures mini-batches and memory and changes
//     both shares within seconds, is not part of a scheduler's plan. The share
//     of a GPU (sched.Slice.Milli) is book-keeping for the pair, fixed when a job
//     starts, and caps nothing by itself; declared utilisation and memory take
//     the place of what is measured. By the fit to 1,388 measured pairs that
//     policy/gandiva uses, no pair within the standard max_util loses speed.
//   - The bound on slowdown is ours, and off by default. It comes on top of busy
//     and max_util; slowdown=1.15:max_util=2:busy=1 leaves the choice to it.
//   - A job that may share and has the guarantee holds 1 - guest of its GPUs from
//     the start, with or without a guest, so that one can come without a restart.
//   - An upgrade changes the share that a job holds, which is a restart here.
//   - The paper decides from the queue's history who is expected to wait long;
//     here it is who has waited for patience.
//   - What is reserved is not a set of nodes but the place in the queue.
//   - Memory is not overcommitted: there is no spilling to the host.
//   - An elastic job runs at the size it asks for.
package antman
