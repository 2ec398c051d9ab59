// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package quincy schedules by a minimum-cost flow: "Quincy: Fair Scheduling for
// Distributed Computing Clusters" (Isard et al., SOSP'09). Every reason to run a
// job here, there or not now has a cost, and each decision minimises the cost of all
// jobs together.
//
// # The flow
//
// One unit of flow is one GPU. All costs are per GPU, in seconds of waiting.
//
//	job, as many units as its gang has GPUs
//	job -> each node it runs on       free
//	job -> anywhere                   free; for one that runs, the knob move
//	anywhere -> rack (of one type)    the knob type for every better type that
//	                                  the job names; those it cannot use have no arc
//	rack -> node -> sink              as many units as the node has GPUs
//	job -> waits, of its tenant       its delay
//	waits -> sink
//
// The delay of a waiting job is the knob idle plus the time it has waited for its
// next start, so that it grows until another job gives way. That of a running job is
// idle and the knob preempt, plus the time it has run, up to preempt again: what
// stopping it would waste. The arcs from waits to the sink keep tenants within their
// limits (demand above a limit must wait at any cost) and favour tenants that wait
// below their quota (the knob quota, for each GPU of it).
//
// No price depends on the rack or the node, so those that are equivalent for all jobs
// are one pool of GPUs; and jobs that could be exchanged, but for their delays, are
// one group, of which each is an arc. A cluster of 10,000 jobs has some hundred nodes
// and about 10,000 arcs.
//
// # Gangs
//
// The paper's tasks are single. Here a job is one node of the flow with the
// capacity of its gang, which the flow may split: a part runs, a part waits. The
// answer is rounded job by job: the job goes where most of its units go (on a tie,
// where it runs, else elsewhere, else nowhere). Then jobs are placed on real GPUs, in
// this order: those that stay; those that start, the largest delay first; those that
// move, only if their old GPUs are needed; and on what remains, those that were left
// out.
//
// The flow ignores that a gang needs its GPUs close together. A gang that was chosen,
// or whose delay exceeds the cost of stopping others, and that does not fit, gets a
// placement by enumeration: for every node (for larger gangs, every rack, or the
// cluster) the costs of the cheapest jobs that would have to stop are added up, and
// if the best of these sets costs less than the gang's delay, they stop. Each
// decision does this for at most a few gangs.
//
// Waiting is also weighed against locality. A job that loses speed when it is
// spread (Spec.Consolidate) takes more nodes of one rack than it needs only when
// its delay has reached the knob rack, and nodes of several racks when it has
// reached cross. Other jobs take any GPUs.
//
// # Promises
//
// No GPU idles that a waiting job could use, except a job that waits for a better
// placement. Delays grow without bound and the cost of stopping does not, so every
// job that an empty cluster could host eventually starts, and then runs for at least
// about preempt.
//
// # Deviations
//
//   - The paper's costs are bytes moved over rack and core switches. A training job
//     reads its data from elsewhere; the cost of a restart and its GPU type take
//     their place.
//   - The only nodes that a job prefers are those it runs on.
//   - The solver is our own (flow.go): the network simplex method. The paper updates
//     the flow from one decision to the next; here each decision starts from the flow
//     in which running jobs stay and the others wait, and changes what pays. Between
//     flows of the same cost, running jobs stay.
//   - At most window waiting jobs, those with the largest delay, are part of the
//     flow; the others get what is left over.
//   - An elastic job runs at the size it asks for.
package quincy
