// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package philly is the scheduler that Microsoft's Philly cluster ran in 2017,
// as described by "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
// Training Workloads" (ATC'19): virtual clusters with a quota and a queue each,
// gangs that try and back off, locality that is given up step by step, and
// preemption only when the cluster is nearly full.
//
// # Virtual clusters
//
// A virtual cluster (VC) is a sched.Tenant with its Quota. Jobs of tenants without
// a quota share one VC, whose quota is what the others leave. The VC with the lowest
// ratio of GPUs held to quota is served first. Within a VC, jobs go by priority, then
// by submission, but a job that cannot run holds back no other: small jobs overtake.
// When all jobs within the quota of their VC have been tried, VCs that may borrow
// take what is still idle, in the same order.
//
// When no tenant has a quota, the cluster is one pool: the tenant with the
// fewest GPUs for its weight goes first, and no tenant is over quota.
//
// # Gangs and locality
//
// A job asks for all of its GPUs at once. The attempt lasts gang_timeout, and
// the job gets GPUs that come free during it; then it backs off for back_off,
// and gets none of the GPUs that come free meanwhile. With gather it keeps a part
// of its GPUs while it tries, as gangs did in Philly: no other job gets them, they
// idle, and they count as held by its VC. It begins with the strictest
// locality: as few servers as an empty cluster would need, in one RDMA domain
// (a rack). After retries_per_rung failed attempts it accepts any servers of
// one domain, after as many again any servers at all; on every rung it takes the
// GPUs that are closest together. The knob relax turns the ladder off (always
// strict), skips it (at-once), or makes the number of attempts on a rung follow from
// the job's expected run time (proportional: long jobs, which suffer longest from a
// bad placement, wait longer; place.StandardPatience has the bounds). A job that
// waits for its VC's quota makes no attempts and keeps its rung.
//
// The domain with the lowest occupancy is tried first, and in it the servers
// with the lowest occupancy. What is smaller than a server (a small job, or the
// rest of a large one) goes to the fullest server that has room.
//
// # Preemption
//
// A job that its VC's quota covers and that finds no place may take GPUs back
// when at least preempt_above of the cluster's GPUs are in use: from jobs of
// VCs that are above their quota, the shortest run since its last start first,
// only as many as it needs, and only if it can then run on its current rung.
// A VC loses no more jobs once it is down to its quota.
//
// # Reasons
//
// The paper distinguishes two causes of a wait. This policy chooses between them by
// the state of the cluster now, not by when the job will try again:
//
//   - fair-share delay is OverQuota: the job does not fit into its VC's quota,
//     and the VC may not borrow, or fewer GPUs of a kind the job accepts are
//     idle than it needs;
//   - fragmentation delay is Fragmented, and everything else: the quota is
//     there (or enough idle GPUs to borrow), but no GPUs are close enough together,
//     even if the true cause is that others borrowed too many. Until is the
//     start of the next attempt.
//
// In a pool without quotas a job that finds too few free GPUs is Full. BackOff
// is a job that backs off while there are GPUs for it; the paper counts this,
// too, as fragmentation. It is never the longer part of a wait, since an
// attempt has failed before.
//
// # Promises
//
// GPUs may idle for at most back_off plus one tick while a job that would fit
// waits. Under relax=on every job accepts any free GPUs after two times
// retries_per_rung attempts. A large gang can still starve while smaller jobs
// keep arriving and no quota protects it: nothing is reserved for it, as in the
// paper. When arrivals stop, every job runs that the cluster and its tenant's
// limit can hold at all.
//
// # Deviations
//
//   - In Philly an incomplete gang holds the GPUs it has got until the
//     time-out, and they idle. Here that takes gather; by default a gang gets
//     all or nothing and holds nothing while it tries. With gather, the attempt
//     that began first has the first choice, so that no two gangs block each
//     other, and which GPUs it keeps may change from one decision to the next.
//   - Time-out and back-off are 2.5 and 2 minutes, after the paper's "2-3
//     minutes" and "2 minutes". How often a gang retries before it relaxes is
//     not published; the default of 5 is ours (a domain after 22 minutes, any
//     server after 45).
//   - Attempts begin on multiples of tick, so that a large cluster decides
//     about many of them together. The first one begins at submission.
//   - YARN's fair scheduler also weighs CPUs and memory; here the share is
//     counted in GPUs, and host resources only limit what fits on a server.
//   - A preempted job restarts from its checkpoint; the paper's jobs lose what
//     they did not save. The driver decides what a stop costs.
//   - A tenant that may borrow but has no quota only borrows, as does the VC of
//     tenants without a quota when nothing is left for it; against others that
//     borrow such a VC counts as one at its quota plus what it holds.
//   - Elastic jobs run at the requested size.
package philly
