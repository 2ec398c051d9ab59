// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package themis shares GPUs between apps by auction, as Themis (Mahajan et al.,
// NSDI 2020) does, so that no app ends later than it would alone on its share of
// the cluster. An app is one job, or the many jobs of a search.
//
// # A round
//
// GPUs are granted in leases; Job.Note.Since is the start of one. Whenever GPUs
// are free, or the lease of some has ended, and somebody waits,
//
//   - every app's finish-time fairness is worked out: rho, the time from its start
//     to its end here by that of an app alone (idealOf). The part 1-f of the apps
//     that are worst off, and that have a use for GPUs, bid;
//   - each has a table of what rho would be with GPUs of the offer on top of what
//     it holds (package auction, Table), at most Config.Rows rows; or it brings its
//     own (sched.App.Bid), which counts as it is, except that no app is taken to be
//     worse off than the progress of its jobs shows (Config.Audit). One that makes no
//     sense costs the app its turn and nobody else anything;
//   - the auction decides (auction.Run): the largest product of 1/rho, and hidden
//     payments. Winners that hold those GPUs already go on undisturbed;
//   - what is left goes to apps that did not bid: first each goes on with what it
//     has, then gangs are dealt at random to those that are near (PlaceLeftovers).
//     What none of these can use goes to the bidders;
//   - what is free even then goes to whoever can run on it, the worst-off first.
//
// Randomness depends on Config.Seed and on the time of the snapshot, on nothing
// else.
//
// # What an app knows
//
// The work left is that of its jobs' estimates; a job without one is taken to be
// in the middle of its life. The work of jobs that have ended is remembered in the
// notes of those that have not: Note.Count is the work of the whole app in
// GPU-seconds, Note.Level the most GPUs it could ever use. How much a model loses
// by spreading is learned from the rates that running jobs report (learn), and
// before that follows Spec.Consolidate.
//
// An app's jobs are independent trials, and it ends with the last of them. Its
// time with some GPUs is therefore the largest of: work by speed, the longest job,
// and jobs that have to follow each other on one place (span). Within an app, GPUs
// go to the jobs with most time left, in whole gangs; an elastic job takes what its
// node has of the grant. At the end of a lease a job makes way for another of its
// app if the app would otherwise end later (heir).
//
// # Deviations
//
//   - The paper's T_id is the time on all GPUs times the number of apps
//     (ideal=paper). An app that can use only a few GPUs could then take many times
//     as long as on its share before anybody thought it wronged. By default T_id is
//     the time on C/N GPUs (ideal=share), which is what the sharing incentive
//     promises and what is measured (package fairness).
//   - The number of apps N is the mean so far, continued at the present number for
//     as long as the app still needs. The mean so far alone misjudges young apps.
//   - The paper keeps the present GPUs to the end of the app in T_sh. Bids do so
//     too. Who is worst off is decided by a forecast with the present GPUs for one
//     lease and the share from then on: otherwise a large app that is a few GPUs
//     short looks worse off than a short job that waits with nothing.
//   - An app with nothing waits for a lease and has its share then, but no better
//     than with half a gang to the end, so that some GPUs are never worse than none.
//   - The paper offers every expired lease (offer=all). By default bidders bid for
//     what they need to end in time, rho = 1, or for what nobody holds; only as many
//     expired leases are offered as that takes, of apps that stay better off than
//     the worst-off bidder without them, where it hurts least. The others are
//     renewed. This saves most restarts. Bidders are not told how the offer came
//     about.
//   - A gang that fits on a node is not spread over several if that slows it by more
//     than Config.Slowdown; then a GPU may idle. With a large value nothing idles
//     that a job which need not be consolidated could use.
//   - A win of a gang on one node is served by another node of the same GPU type
//     where that stops nobody.
//   - The worst-off app breaks all leases when it has had nothing for two of them, or
//     a large gang would wait for ever.
//   - At most 256 apps bid and 512 share in the leftovers.
//   - Decisions about ends of leases are rounded up to tenths of a lease. A lease
//     that is renewed in place ends after half a lease to a whole one, so that some
//     lease always ends soon.
//   - At the end of its lease, a job that is slowed by being spread moves to a node
//     that has room, if it gains more by that than the restart costs.
//   - GPU types are all taken to be as fast as each other. Quotas, priorities inside
//     an app, and jobs that are not preemptible are respected; the paper knows none.
package themis
