// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package place finds GPUs for jobs. It is a library of pure functions over a
// Free view: what nobody holds in a cluster, with an undo log, so that a policy
// can try a placement and take it back without copying the cluster.
//
//	f := place.NewFree(s.Cluster)
//	m := f.Mark()
//	p, ok := f.Within(job, 16, sched.SameRack)
//	if !ok {
//		f.Rollback(m)
//	}
//
// The strategies differ in which GPUs they take first:
//
//   - Within: as near to each other as a level asks, on the fewest nodes, best
//     fit last (consolidated, rack-local);
//   - MostFree: always from the node with the most free GPUs;
//   - Fragments: from the node with the fewest free GPUs, so that whole nodes
//     stay whole;
//
// On top of them stand Skew (Tiresias' rule), Ladder (Philly's relaxation of
// locality with waiting; Patience makes it follow the run time of a job) and
// Queue, which turns an order of jobs into a plan. Forecast looks ahead: when and
// where a job could start if the running ones end as expected.
//
// SharedView is a second view, of who sits on which GPU, for policies that let jobs
// share them: Find takes the cheapest GPUs by a judge that knows what jobs do to
// each other, Reserve keeps some free of newcomers, Seating makes a plan of both.
//
// A gang never mixes GPU types: its slowest GPU would hold the others back.
//
// # Cost
//
// Nodes are kept in buckets by their number of free GPUs, as bit sets. To find
// the best-fitting node costs one scan of N/64 words for each bucket that is
// not empty, whatever the number of jobs; a placement over k nodes costs k of
// these.
package place
