// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package themis shares GPUs between apps by auction, as Themis (Mahajan et al.,
// NSDI 2020) does, so that no app ends later than it would alone on its share of
// the cluster. An app is one job, or the many jobs of a search.
//
// # A round
//
// GPUs are granted in leases; Job.Note.Since is the start of one. A round runs when
// GPUs are free, or their lease has ended, and an app has a job that waits or an
// elastic job that could grow:
//
//   - every app's finish-time fairness is computed: rho, its time from start to end
//     here over its time alone (idealOf). The worst-off fraction 1-f of the apps
//     that can use GPUs bid;
//   - each has a table of what rho would be with GPUs of the offer on top of what
//     it holds (package auction, Table), at most Config.Rows rows; or it brings its
//     own (sched.App.Bid), which counts as it is, except that no app counts as
//     worse off than the progress of its jobs shows (Config.Audit). An invalid
//     table costs only its own app the turn;
//   - the auction decides (auction.Run): the largest product of 1/rho, and hidden
//     payments. Winners that already hold those GPUs keep running;
//   - what is left goes to apps that did not bid: first each continues with what it
//     has, then gangs go at random to nearby apps (PlaceLeftovers). What none of
//     these can use goes to the bidders;
//   - what is still free goes to any app that can use it, the worst-off first; and
//     then to elastic jobs that start or whose lease has ended (grow).
//
// Randomness depends only on Config.Seed and the time of the snapshot.
//
// # What an app knows
//
// The work left comes from its jobs' estimates; a job without one is assumed to be
// half done. The work of ended jobs is kept in the notes of the others: Note.Count
// is the work of the whole app in GPU-seconds, Note.Level the most GPUs it could
// ever use. How much spreading slows a model is learned from the rates that running
// jobs report (learn); before that it follows Spec.Consolidate.
//
// An app ends with the last of its jobs. Its time with some GPUs is therefore the
// largest of: work over speed, the longest job, and jobs that must run one after the
// other (span). A search that stops trials early says what is left of it, in stages
// (sched.App.Stages): these follow each other, and the slowest trial ends each, as in
// the paper's formula for successive halving (auction.Halving). Within an app, GPUs go
// to the jobs with most time left, in whole gangs. At the end of a lease a job makes
// way for another of its app if the app would otherwise end later (heir).
//
// # Deviations
//
// The variant paper undoes those that name a knob.
//
//   - The paper's T_id is the time on all GPUs times the number of apps
//     (ideal=paper). An app that can use only a few GPUs could then take many times
//     as long as on its share before it counts as treated unfairly. By default T_id
//     is the time on C/N GPUs (ideal=share), which the sharing incentive promises
//     and package fairness measures.
//   - The number of apps N is the mean so far (ideal=paper), continued at the present
//     number for as long as the app still needs. The mean so far alone misjudges young
//     apps.
//   - The paper keeps the present GPUs to the end of the app in T_sh (forecast=paper).
//     Bids do so too. The worst-off apps are chosen by a forecast with the present GPUs
//     for one lease and the fair share after it: otherwise a large app that is a few
//     GPUs short looks worse off than a short job that waits with nothing.
//   - An app without GPUs gets its share after one lease, but counts as half a gang
//     to the end at most, so that some GPUs are never worse than none.
//   - The paper offers every expired lease (offer=all). By default bidders bid for
//     what they need to end in time, rho = 1, or for idle GPUs; only as many
//     expired leases as that takes are offered, from apps that stay better off than
//     the worst-off bidder, where it hurts least. The others are renewed. This
//     saves most restarts. Bidders are not told how the offer came about.
//   - A gang that fits on a node is not spread over several if that slows it by
//     more than Config.Slowdown; then a GPU may idle. With a large value (slowdown=4)
//     no GPU idles that a job without consolidation could use.
//   - A win of a gang on one node is served by another node of the same GPU type if
//     that stops no job.
//   - An app that is worst off and has had nothing for two leases (patience=0: never)
//     may break the leases of apps that stay better off than it, if that makes room for
//     one of its gangs, and then bids alone. Leases that end one by one would never make
//     room for a large gang; and in an auction the product of 1/rho prefers newcomers to
//     it, because they gain more in proportion to the little time they have spent.
//   - No app counts as worse off than the progress of its jobs shows (audit=false: as
//     it says).
//   - Elastic jobs are not in the paper.
//   - At most 256 apps bid and 512 share in the leftovers.
//   - Decisions about ends of leases are rounded up to tenths of a lease. A lease
//     that is renewed in place ends after half a lease to a whole one, so that leases
//     keep ending.
//   - At the end of its lease, a job that is slowed by being spread moves to a node
//     that has room, if it gains more by that than the restart costs.
//   - All GPU types count as equally fast. Quotas, priorities inside an app, and
//     jobs that are not preemptible are respected; the paper has none of these.
package themis
