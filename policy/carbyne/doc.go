// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package carbyne schedules altruistically on top of dominant resource fairness:
// "Altruistic Scheduling in Multi-Resource Clusters" (Grandl et al., OSDI'16).
// A job gives up the part of its fair share that it does not need now to end as
// early as it would with all of it. These leftovers go to the jobs that end soonest.
//
// # The promise
//
// A job that arrives is promised the end that its fair share would bring. F is the
// number of GPUs that weighted max-min fairness gives its party (tenant, user or
// app); the jobs of a party are served in order of submission:
//
//	end = now + max(r, (sum of r*g over the party's jobs up to this one) / F)
//
// where r is the time a job still needs on the g GPUs it asks for (Job.Remaining).
// The end is computed once, as early as possible, and kept in Job.Note.Count, in
// seconds since submission.
//
// # What a job needs
//
// The cluster is filled by DRF as in policy/drf. Of the jobs that get GPUs,
//
//   - a rigid gang needs all of its GPUs now, or none. It needs none as long as it
//     could start one lease from now (two if it runs, because a shorter pause is not
//     worth a restart) and keep its promise, with a margin on top of r;
//   - an elastic job needs the smallest of its sizes that keeps its promise, where
//     r*g/n is the time at size n (small sizes do better in practice, since few jobs
//     scale perfectly);
//   - a job without an estimate, or behind such a job in its party, needs all of its
//     share.
//
// # Leftovers
//
// What jobs give up, and what DRF could not use, goes to the jobs with the least
// remaining time (including those that gave it up), one after the other until the
// first that does not fit. The rest is packed: jobs go in order of the dot product of
// their demand and the free GPUs, CPUs and memory, each as a part of the cluster.
//
// # Promises
//
// No GPU idles that a waiting job could use. A job that must start now to keep its
// promise is served in the order of DRF, before all leftovers. The first job that
// DRF keeps waiting breaks all leases when it has waited for one (place.Lease).
//
// # Deviations
//
//   - The paper's jobs are graphs of tasks and give up what their critical path
//     does not need. A training job has no such graph: its slack is in time, for
//     a gang that its fair share would serve late anyway, and in GPUs, for an
//     elastic one.
//   - The promised end considers GPUs alone, not the dominant resource. Where CPUs or
//     memory are scarcer it is too early, and jobs give up less than they could.
//   - The promised end does not change when other jobs arrive or leave.
//   - Packing scores are computed once per decision.
//   - Whole jobs, leases and placement are as in policy/drf. A job that was started
//     or resized stays unchanged for a lease.
package carbyne
