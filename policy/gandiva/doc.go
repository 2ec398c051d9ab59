// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package gandiva implements "Gandiva: Introspective Cluster Scheduling for Deep
// Learning" (OSDI'18): jobs start at once by sharing GPUs in time slices, and the
// scheduler keeps improving placements by packing, migrating and resizing jobs.
// It has no notion of fairness between tenants.
//
// # Servers
//
// A job is resident on the GPUs it runs on or was suspended on. The load of a
// server is the number of GPUs its residents have, the height of a GPU the
// number of its residents. The affinity of a server is the size class (1, 2,
// 3-4, 5-8, ... GPUs) of its first resident since it was empty: a job fits where
// another one of its size has left.
//
// A job that arrives gets idle GPUs (without residents): (1) on the server of
// its affinity with the lowest load; else (2) on an empty server; else (3) on any
// one server, then on several. If there are none, elastic jobs shrink for it: to
// the size they asked for or, if that is not enough, to their smallest. Else (4) it
// takes turns on GPUs with others: on the server of its affinity with the lowest
// load, then on any, as long as no GPU gets more than max_height residents. Else it
// waits for a server; after patience it holds back all later jobs, and idle GPUs
// are kept for it.
//
// # Time slices
//
// Time is cut into slices, the same for the whole cluster, so that the servers of a
// gang switch together. When a slice ends, waiting residents replace running ones,
// the longest wait first; a turn lasts from half a slice to one and a half. A
// suspended job resumes where it was, which is cheap (Plan.Suspend); when GPUs are
// idle elsewhere, it moves there and no longer shares. GPUs that a job needs and
// cannot have before the slice ends are claimed for it: no job that has waited less
// starts on them if its turn would end too late. For a job that has not run yet, the
// wait for its turn begins when it finds GPUs to share (kept in Job.Note.Since while
// it is pending); every decision chooses these GPUs again.
//
// # Packing
//
// When residents wait, two jobs of the same number of GPUs may run at the same time
// on the same GPUs, each with half, if both are shareable, their utilisation is
// known and adds up to at most max_packed_util (by default any sum is tried), their
// memory fits as far as it is known, and both have run alone for a while (profile).
// The job with the lowest utilisation goes first, beside the running one with the
// lowest. No other job may be resident on the GPUs.
//
// Packing is a trial. After the time trial the speeds of both jobs, measured against
// alone (Status.Slowdown), must add up to more than 1, the speed of taking turns, by
// pack_margin. If they do not, the job that came last leaves: it is packed with the
// next job or takes turns. The outcome is remembered for the two models, and a
// pair that failed is not tried again. Packed jobs are separated when no job waits, GPUs
// are idle, and one of them is measured to be slower than alone.
//
// # Migration
//
// Each decision moves at most a few jobs (moves), each after it has run in one
// place for a while (settle). A job on more servers than it needs moves to idle
// GPUs on fewer. Servers of which three quarters are idle are emptied, the emptiest
// first, if all of their jobs find idle GPUs on servers that are no emptier.
//
// A migration is a trial too: if the job's rate (Status.Rate) is lower after trial
// than before it, the job moves back, if its old GPUs are still idle, and is not
// migrated again.
//
// # Growing
//
// When no job waits, an elastic job takes idle GPUs of its server that have been
// idle for grow_after (kept in Job.Note.Since while it runs), up to the whole
// server.
//
// # Promises
//
// Among the residents of the same GPUs, the one that has waited longest runs within
// two slices, whatever its size, unless its hosts' CPUs or memory or its tenant's
// limit are used up; with a height of at most h, and jobs of one size, no job waits
// longer than about h slices for a turn. A job that finds no server is overtaken
// for at most its patience; then it starts when enough of the jobs before it have
// ended. So no job starves as long as jobs end.
//
// A GPU with a waiting resident idles for less than half a slice, or for as long as
// the other GPUs of the gang, CPUs or memory of the host, or the tenant's limit are
// not available. A GPU without residents idles only if no waiting job can use it, or
// if it is kept for a job whose patience is over.
//
// The policy asks to be woken at the end of the slice if a job waits for a turn,
// and when a job may grow; otherwise not at all.
//
// # Deviations
//
//   - Which pairs are tried depends on the utilisation that jobs declare or that is
//     predicted for them, not on one measured at run time. A job that does not report
//     its speed is never judged: it stays packed, and where it was moved to.
//   - Growing is not a trial: a job that has grown shrinks only for others.
//   - What was learned is lost when the daemon restarts.
//   - Jobs take turns on a set of GPUs, not on a server, because resuming on other
//     GPUs of the same server costs a restart here. With three jobs on two sets, one
//     of the jobs runs all the time. New jobs go where the height is lowest.
//   - Slices are aligned over the cluster. In the paper every server has its own
//     clock, and how gangs of several servers take turns is left open.
//   - Sharing on a server of another affinity is a last resort that the paper
//     does not have: there the job stays in the queue. Rule (3) spreads a job
//     over servers before it shares; the paper does not say which comes first.
//   - Jobs that are not preemptible neither take turns nor move.
//   - A packed job whose partner ends keeps its half until it is moved: the other
//     half can only be used by packing again. Widening it would cost a restart and
//     gain nothing: no executor limits the speed of a job that holds half a GPU.
//   - Packing is for jobs of the same number of GPUs, on all of them.
//   - Defragmentation assumes that "the loss is negligible", but moves only to
//     servers of the same GPU type, and only if it empties a server.
//   - A tenant's limit counts the GPUs on which it has residents, so that jobs of a
//     tenant at its limit can still take turns on its GPUs, and no turn exceeds the
//     limit. Two packed jobs of a tenant count their GPUs twice.
package gandiva
