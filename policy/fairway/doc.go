// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairway is the policy that a cluster can be left on: the default of this
// project. It weighs all jobs against each other at once, whether they can be resized
// or not, and bounds what any of them can lose.
//
// # What GPUs are worth
//
// For parallel jobs whose speedup is concave, the shortest average completion time
// comes from giving every job a share that grows with its rank, where the job with the
// least work left ranks highest (heSRPT: Berg, Vesilo and Harchol-Balter, 2020). Here,
// with w = rank^1.25 and s the speed of a job on the GPUs it would get, relative to one
// GPU, the policy makes the sum of
//
//	w * s^0.5 * h / (h + restart)
//
// as large as it can (package division). The last factor is 1 for a job that keeps its
// GPUs, and for one of one size that waits: it has to load at some time, so that is a part of
// its work. A change pays off over h: until the job ends or, if that is sooner, until the
// next change, which is guessed from how often the job was changed before. What a
// restart costs is what the job reports, or what suspending it takes, else the knob
// restart. A running job that cannot be resized counts twice as much as a waiting one,
// and ranks as if it had a fifth of its work left: estimates are often wrong, and to be
// stopped costs it a restart later. A step of priority counts fourfold.
//
// The speed comes from the job's report of its goodput, which counts what its batch
// size achieves. A job without one is assumed to speed up in proportion. The work left
// of a job with one comes from what its agent has announced, as far as finished jobs kept to
// theirs and similar ones make it likely, or from the work of similar jobs, else from an estimate (of the user, or of similar jobs), else a job is taken
// to have as much left as it has had: see left.go.
//
// Of a job with execution plans, the speed is that of the best plan on the GPUs, and one GPU
// is a part of the fewest that a plan needs. Its first load is no change but a part of the
// work that GPUs do not shorten, and until it has run for five times as long as it loads, it
// counts a hundred times. While others wait it gets no more GPUs than it can make up for to
// them (spare.go).
//
// Decisions follow events. Where there are more than 256 jobs and none of them can be
// resized, the search would cost more than it gains: jobs then stand in line by the
// work they have left.
//
// Where there are more than whole jobs, a decision divides a part of the cluster again and
// leaves the others as they are (part.go): the waiting jobs that are worth most, the nodes
// with idle GPUs and those of jobs that are behind, and nodes that are drawn anew each time,
// so that many events reach all of them. If much is idle that jobs want, as after a start
// of the cluster, the whole is divided.
//
// # Fairness
//
// Rank starves long jobs while short ones keep coming. Four rules bound that; none of
// them needs to know lengths.
//
//   - Tenants: each may hold as many GPUs as max-min fairness gives it, its quota first
//     and then by weight, as long as others want the rest. Tenants below others divide
//     what their parent may hold in the same way (sched.Snapshot.Entitle). Jobs beyond
//     that run where nobody else has a use for the GPUs.
//   - Jobs that are behind: the finish-time fairness of a job is computed as if it had
//     its fair share from now on. If that exceeds bound and the job can be resized, its
//     share counts more than anything else, for the jobs that are furthest behind and
//     up to a quarter of the cluster. Where announced lengths have proved wrong, or there
//     are none, it is four fifths and, if no similar job has completed, what the job has
//     done so far decides as well (fairness.go). Jobs of one size would take turns instead,
//     and lose more by restarts than they gain.
//   - Apps of several jobs: each is given its share first, its longest jobs before the
//     others, unless it would end well before its time, and up to nine tenths of the
//     cluster for all of them. So is a job alone of one size that its share has room for,
//     against such apps but not against others like it (apps.go).
//   - Jobs that are due, because they have waited for as long as any may (wait): they go
//     before all others, in the order in which their waits began, and then keep their
//     GPUs for a turn, as many as they asked for or, of those with plans, as they use best;
//     a job that fails in its turn goes on with it. Those that have their turn hold at most
//     a quarter of the cluster; a larger job has its turn alone.
//
// # The longest wait
//
// Theorem. Let a job begin to wait at time t, and let n be the number of jobs that wait
// then. If no job is pinned, if the job, and each of the n, could start in an empty
// cluster, if no node is lost, and if neither its tenant's limit nor jobs of higher
// priority stand in the way, then the job starts no later than
//
//	t + wait + (n + 1) * turn
//
// plus the time that jobs take to stop. This holds for any lengths, and whatever is
// submitted after t.
//
// Proof. At t + wait the job is due. Jobs that are due are served in the order in which
// their waits began. A job that is submitted or stopped after t comes after ours, so at
// most the n jobs come before it. Let q be the first of the due jobs that has not
// started. The GPUs of all jobs but those that have their turn are taken from them for
// q, so it waits at most for the turns that have begun to end, and no turn begins
// before it starts, because nobody behind the first is served. So q starts after at
// most one turn. That holds for each of the n jobs, and then for ours: n + 1 turns.
// (Many turns run side by side, so this is far from tight for small jobs.)
//
// TestLongestWait holds the policy to it with adversarial streams, and explain shows the
// time to the user (Reason.Promised).
//
// # Sharing
//
// Jobs that allow it may sit beside others on a GPU, up to four, where the layer share
// expects every slowdown to stay below its bound. A job that has a seat keeps it until it
// ends, is stopped for one that is due, or measurements show that the pair does not work.
//
// # Limits
//
//   - Shares of tenants limit what they hold, so a tenant that comes back waits for
//     others to save their work. Tenants that nobody declared share nothing.
//   - On a type of GPU that a job has not run on, it is assumed to run as on the one it
//     knows, unless its report has borrowed a model for it.
//   - The bound on finish-time fairness is a goal, not a theorem.
//   - Pinned jobs end when they end: where there are any, nobody is promised a start, those
//     that started because they were due hold a quarter of the cluster at most, and nothing
//     is kept free for a large gang, unless the layer reserve is added.
//   - What a job announces whose agent does not run its training is in a unit of its own,
//     and not comparable between jobs: estimates of users and past jobs count instead.
package fairway
