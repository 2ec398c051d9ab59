// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package antman runs jobs with a guarantee as if they were alone, and fits other
// jobs into the unused part of their GPUs: "AntMan: Dynamic Scaling on GPU
// Clusters for Deep Learning" (Xiao et al., OSDI'20).
//
// # Two classes
//
// The quota of a tenant is guaranteed. Its jobs get the guarantee in order of
// submission, as far as the quota reaches; a job that is larger than the quota never
// gets it. GPUs outside all quotas are the common quota of the jobs whose tenant has
// none. A running job with the guarantee keeps it (Job.Note.Level). All other jobs
// are opportunistic: they run beyond the quota, within their tenant's limit.
//
// # Jobs with the guarantee
//
// They are placed first, close together, on GPUs that no other such job has: on idle
// GPUs if there are any, else on those of opportunistic jobs, which are stopped at
// once if they cannot stay beside it. A job that does not fit holds back later jobs
// with the guarantee that accept the same GPU types, but not opportunistic ones.
// After patience it runs as an opportunistic job, and is upgraded before any other
// job starts.
//
// # Opportunistic jobs
//
// One that may share GPUs (Spec.Shareable) gets a small share (the knob guest) of
// each of its GPUs, which are idle or belong to a job with the guarantee, if:
//
//   - at most one opportunistic job is on a GPU, beside at most one with the
//     guarantee;
//   - the one with the guarantee may share, and uses its GPU less than busy;
//   - the utilisation of both is known and adds up to max_util at most;
//   - with the knob slowdown, neither is expected to be slowed by more than that
//     by the interference model of the GPU's type (package interfere);
//   - the memory of both fits, as far as it is known.
//
// It goes to the node whose GPUs have the most utilisation to spare, then the
// most memory; to several nodes, of one rack if possible, when no single one has
// enough. A job that may not share runs on idle whole GPUs until a job with the
// guarantee needs them.
//
// # The local coordinator
//
// When a job with the guarantee measures that its steps take more than harm times as
// long as alone (Status.Slowdown), the opportunistic job beside it is suspended, and
// so is one that itself takes more than twice as long: it goes on beside another job,
// or where it was when that is free, and never again beside a job of that model. This
// is the coarse form that every executor can carry out. The default of harm is above
// the error of a measured slowdown, which is 6 % for light jobs. A slowdown is measured
// against the job's own steps alone: one that never had its GPU to itself has none, and
// its guest stays. Under MPS an opportunistic job also gets no more threads of the GPU
// than its share (guest), and no more memory than it declares.
//
// In simulations a coordinator like the paper's acts on every GPU within seconds (the
// knob coordinator): the opportunistic job gets the time that the other leaves, and
// the other is slowed as the paper measured: 1 job in 100 at all, by 4 % at most.
//
// # Promises
//
// A job with the guarantee waits only for earlier jobs with it and for jobs that are
// not preemptible; it is never stopped, unless quotas are lowered. So it does not
// starve as long as jobs end. Opportunistic jobs have no guarantee.
//
// # Deviations
//
//   - No executor changes the shares of running jobs: a share (sched.Slice.Milli) is
//     fixed when a job starts, and without MPS it limits no speed. To throttle is to
//     suspend. A suspended job is stopped with a checkpoint by the daemon.
//   - Which job may share is decided by declared or predicted utilisation and
//     memory, not by those of the last ten seconds.
//   - The bound on slowdown is ours, and off by default. It comes on top of busy
//     and max_util; slowdown=1.15:max_util=2:busy=1 leaves the choice to it.
//   - A job that may share and has the guarantee holds 1 - guest of its GPUs from
//     the start, so that a guest can join without a restart.
//   - An upgrade changes the share that a job holds, which is a restart here.
//   - The paper predicts from the queue's history which jobs will wait long; here it
//     is those that have waited for patience.
//   - A job that waits reserves its place in the queue, not a set of nodes.
//   - Memory is not overcommitted: no framework here moves tensors to the host on
//     demand, and a plan whose jobs need more GPU memory than there is is refused
//     (sched.Check). The memory of an opportunistic job has an upper bound only under
//     MPS. What the paper does with bursts is not simulated either.
//   - An elastic job runs at the size it asks for.
package antman
