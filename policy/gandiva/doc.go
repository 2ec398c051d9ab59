// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package gandiva is "Gandiva: Introspective Cluster Scheduling for Deep
// Learning" (OSDI'18): jobs start at once by sharing GPUs in turns, and the
// scheduler keeps improving what it did by packing, migrating and resizing.
// It has no notion of fairness between tenants.
//
// # Servers
//
// A job is resident on the GPUs it runs on or was suspended on. The load of a
// server is the number of GPUs its residents have, the height of a GPU the
// number of its residents. The affinity of a server is the size class (1, 2,
// 3-4, 5-8, ... GPUs) of the first resident it has had since it was empty: jobs
// of one size fit where others of that size have left.
//
// A job that arrives gets idle GPUs, which have no resident: (1) on the server of
// its affinity with the lowest load; else (2) on an empty server; else (3) on any
// one server, then on several. If there are none, elastic jobs shrink for it: to
// the size they asked for or, if that is not enough, to their smallest. Else (4) it
// shares GPUs in turns: on the server of its affinity with the lowest load, then on
// any, as long as no GPU gets more than max_height residents. Else it waits for a
// server; after patience it holds back all later jobs, and idle GPUs are kept for
// it.
//
// # Turns
//
// Time is cut into slices, the same for the whole cluster, so that the servers of a
// gang switch together. When a slice ends, waiting residents replace running ones,
// the longest wait first; a turn lasts from half a slice to one and a half. A
// suspended job resumes where it was, which is cheap (Plan.Suspend); when GPUs are
// idle elsewhere it moves there, so that it need not share. GPUs that a job needs
// and cannot have before the slice ends are claimed for it: no job that has waited
// less starts on them if its turn would end too late. For a job that has not run
// yet the wait for its turn begins when it finds GPUs to share (kept in
// Job.Note.Since while it is pending); which ones these are is decided anew each
// time.
//
// # Packing
//
// When residents wait, two jobs of the same number of GPUs may run at once on the
// same GPUs, each with half: both are shareable, their utilisation is known and
// adds up to at most max_packed_util, their memory fits as far as it is known, and
// both have run alone for a while (profile). The job with the lowest utilisation
// goes first, beside the running one with the lowest. The predicted speed of each
// is 1 - 0.335*max(0, u1+u2-0.9), a fit to 1,388 measured pairs; the sum must beat
// the speed 1 of taking turns by pack_margin. No other job may be resident on the
// GPUs. Two that slow each other down are separated when no job waits and GPUs are
// idle.
//
// # Migration
//
// Each decision moves at most some jobs (moves), each after it has run in one
// place for a while (settle): a job on more servers than it needs moves to idle
// GPUs on fewer; and servers of which three quarters are idle are emptied, the
// emptiest first, if all of their jobs find idle GPUs on servers that are no
// emptier.
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
// A GPU idles although a resident waits for it for less than half a slice, or as
// long as the rest of a gang's GPUs, its host's CPUs or memory, or its tenant's
// limit are not there. A GPU without residents idles only if no waiting job can use
// it, or if it is kept for a job whose patience is over.
//
// The policy asks to be woken at the end of the slice if a job waits for a turn,
// and when a job may grow; otherwise not at all.
//
// # Deviations
//
//   - The paper profiles mini-batch times before and after every decision and
//     undoes what does not pay. Here the declared utilisation replaces the profile,
//     and a formula replaces the trial: a pair is packed only if it should pay, and
//     stays packed.
//   - Turns go around for each set of GPUs, not for each server: to resume on
//     other GPUs of the same server costs a restart here. With three jobs on two
//     sets one of the jobs runs all the time. New jobs go where the height is
//     lowest.
//   - Slices are aligned over the cluster. In the paper every server has its own
//     clock, and how gangs of several servers take turns is left open.
//   - Sharing on a server of another affinity is a last resort that the paper
//     does not have: its job would stay in the queue. Rule (3) spreads a job
//     over servers before it shares; the paper does not say which comes first.
//   - Jobs that are not preemptible neither take turns nor move.
//   - A packed job whose partner ends keeps its half until it is moved: the other
//     half can only be used by packing again. Widening it would cost a restart and
//     gain nothing, since the half is only an accounting share, not a cap.
//   - Packing is for jobs of the same number of GPUs, on all of them.
//   - Defragmentation assumes that "the loss is negligible", but moves only to
//     servers of the same GPU type, and only if it empties a server.
//   - A tenant's limit counts the GPUs on which it has residents, so that a
//     tenant at its limit can share its own GPUs in turns, and turns never bring
//     it above the limit. Two packed jobs of a tenant hold their GPUs twice.
package gandiva
