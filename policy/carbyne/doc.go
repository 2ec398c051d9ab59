// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package carbyne is altruistic scheduling on top of dominant resource fairness:
// "Altruistic Scheduling in Multi-Resource Clusters" (Grandl et al., OSDI'16).
// A job that can give up a part of its fair share now, and still end no later
// than it would have with all of it, does so; what all of them give up goes to
// the jobs that end soonest.
//
// # The promise
//
// When a job arrives it is promised an end, the one its fair share would bring:
// with F the GPUs that max-min fairness by weight gives its party (tenant, user
// or app), whose jobs are served in order of submission,
//
//	end = now + max(r, (sum of r*g over the party's jobs up to this one) / F)
//
// where r is the time a job still needs on the g GPUs it asks for
// (Job.Remaining). It is worked out once, as soon as it can be, and kept in
// Job.Note.Count, in seconds since submission.
//
// # Who needs what
//
// The cluster is filled by DRF as in policy/drf. Of the jobs that it reaches,
//
//   - a rigid gang needs all of its GPUs now, or none: none as long as it could
//     still start one lease from now (two, if it runs: a shorter pause is not
//     worth a restart) and keep its promise, with a margin on top of r;
//   - an elastic job needs the smallest size that keeps its promise, where
//     r*g/n is the time at size n (in truth small sizes do better, since few
//     jobs scale perfectly), but at least its smallest;
//   - a job without an estimate, or with one of those in front of it in its
//     party, cannot say, and needs all of its share.
//
// # Leftovers
//
// What is not needed goes, with what DRF could not use, to the jobs with the
// least remaining time, those that gave it included: one after the other until
// the first that does not fit. The rest is packed: the jobs with the largest dot
// product of their demand and of what is left of GPUs, CPUs and memory, each as
// a part of the cluster, come first.
//
// # Promises
//
// No GPU idles that a waiting job could use. A job at the end of its patience
// (its promise minus what it still needs) is served in the order of DRF, before
// all leftovers; the first of those whom DRF keeps waiting breaks all leases when
// it has waited for one (place.Lease).
//
// # Deviations
//
//   - The paper's jobs are graphs of tasks and give up what their critical path
//     does not need. A training job has no such graph: its slack is in time, for
//     a gang that its fair share would serve late anyway, and in GPUs, for an
//     elastic one.
//   - The fair end is worked out for GPUs alone, not for the dominant resource;
//     where CPUs or memory are scarcer it is too early, and jobs are less
//     altruistic than they could be.
//   - The end that was promised is neither put off when others arrive nor brought
//     forward when others leave.
//   - The scores of packing are worked out once in each decision.
//   - Everything that policy/drf says about whole jobs, leases and places holds
//     here too. A job that was started or resized stays as it is for a lease.
package carbyne
