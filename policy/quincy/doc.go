// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package quincy schedules by a minimum-cost flow: "Quincy: Fair Scheduling for
// Distributed Computing Clusters" (Isard et al., SOSP'09). Every reason to run a
// job here, there or not now has a price, and each decision is the cheapest one
// for all jobs together.
//
// # The flow
//
// One unit of flow is one GPU. All prices are for one GPU, in seconds: those of
// waiting, as all others are weighed against it.
//
//	source -> job, as many units as its gang has GPUs
//	job -> each node it runs on       free
//	job -> anywhere                   free; for one that runs, the knob move
//	anywhere -> rack (of one type)    the knob type for every better type that
//	                                  the job names; those it cannot use have no arc
//	rack -> node -> sink              as many units as the node has GPUs
//	job -> waits, of its tenant       its delay
//	waits -> sink
//
// The delay of a waiting job is the knob idle plus the time it has waited for
// its present start, so that it grows until somebody gives way. That of a
// running job is idle and the knob preempt, plus the time it has run, up to
// preempt again: what stopping it would waste. The arcs from waits to the sink hold
// tenants to their limits (what is above must wait, whatever it costs) and favour
// those who wait below their quota (the knob quota, for each GPU of it).
//
// # Gangs
//
// The paper's tasks are single. Here a job is one node of the flow with the
// capacity of its gang, which the flow may split: a part runs, a part waits. The
// answer is rounded job by job: where most of its units go, there goes the job
// (where it runs, else elsewhere, else nowhere, when there are as many). Then
// real GPUs are looked for: jobs that stay, first; those that start, the largest
// delay first; those that move, last, and only if their old GPUs were really
// needed; whoever was left out last, on what remains.
//
// The flow does not see that a gang needs its GPUs near to each other. A gang
// that it chose, or that waits longer than those who run would mind, and that
// finds no place, is given one by enumeration: for every node (for larger gangs,
// every rack, or the cluster) the cheapest jobs that would have to stop are
// added up, and if the best of these sets costs less than the gang's delay, they
// stop. At most a few gangs in each decision are helped like this.
//
// Waiting is also weighed against locality. A job that loses speed when it is
// spread (Spec.Consolidate) takes more nodes of one rack than it needs only when
// its delay has reached the knob rack, and nodes of several racks when it has
// reached cross. Others take what there is.
//
// # Promises
//
// No GPU idles that a waiting job could use, except one that waits for a better
// place. Delays grow without bound, and what stopping costs does not; so every
// job that an empty cluster could host starts at some time, and then runs for at
// least about preempt.
//
// # Deviations
//
//   - The paper's prices are bytes to be moved over rack and core switches. A
//     training job reads its data from elsewhere; its state, which a restart
//     costs, and its GPU type take their place.
//   - Arcs from a job to nodes that it prefers are those to where it runs.
//   - The solver is written here (flow.go): successive shortest paths with
//     potentials, all paths of one length at a time. The paper updates a flow
//     from one decision to the next; here each starts anew.
//   - At most window waiting jobs, those with the largest delay, are part of the
//     flow; the others get what is left over.
//   - An elastic job runs at the size it asks for.
package quincy
