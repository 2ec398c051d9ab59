// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package gavel is the scheduler of "Heterogeneity-Aware Cluster Scheduling
// Policies for Deep Learning Workloads" (Narayanan et al., OSDI'20). One job may be
// six times as fast on one type of GPU as on another, and the next one hardly
// faster. A linear program computes for what share of its time each job should run
// on each type, and a mechanism in rounds enforces that.
//
// # The linear program
//
// X[m][t] is the share of job m's time on type t: never negative, at most 1 in
// sum, and the GPUs of all jobs together no more than there are of a type. The
// throughput of a job is the sum of its speeds weighted by X. The goals:
//
//   - max-min: the least throughput is made largest, each against that of a job
//     that divides its time among types by their numbers of GPUs, times the GPUs
//     it holds, over its tenant's weight;
//   - finish-time (variant ftf): the largest rho is made least: a job's total time
//     over its time with an equal part of every type;
//   - makespan: the time at which the last job ends is made least;
//   - cost: the work per money is made largest. With slo, a job must end within so
//     many times its estimate;
//   - shortest (variant sjf): the number of jobs that end is made largest; each
//     second on a type counts as the part of the remaining work it does. Short jobs
//     go first, and of two alike the one that gains more;
//   - max-sum-throughput (variant throughput): the number of steps a second of all
//     jobs together is made largest, as in the Sia artifact's simulator (throughput.go).
//   - fifo: the sum of throughputs, each over the job's best and times the number of
//     jobs that are not ahead of it, is made largest;
//   - hierarchical: max-min between tenants by weight, whatever the number of their
//     jobs; what a tenant gets, its jobs share equally (within=fair), or the first
//     ones have all of it that they can use (within=in-order).
//
// Max-min, finish-time, makespan and hierarchical look for the highest level at which
// what every job needs for it can be had, by bisection to a thousandth; then the jobs
// that cost the others nothing are raised further (water-filling). The others maximise a
// sum. Each step is solved by column generation (Dantzig and Wolfe): at given prices of GPU
// time each job has a cheapest choice of at most two types, and a master program
// with a row for each type, solved by the simplex method, sets the prices. Jobs
// that are alike are one row. It takes 10 to 20 ms for 1,000 jobs of different
// speeds on three types.
//
// # The mechanism
//
// Time is cut into rounds of 6 minutes. At the start of a round, jobs bid for types
// with priority X[m][t] over the time that m has had on t; a job that was never
// there goes first. Bids are granted in order as long as there are GPUs of the
// type; a job has one type at a time, and its gang never mixes types. Jobs that
// keep their type keep their GPUs, the others are placed, the largest first. GPUs
// that are left over go to jobs that were not chosen, on the type that is best for
// them. During a round no job is stopped, and free GPUs are allocated at once. The
// time had on each type is kept in Job.Note, in 62 bits.
//
// # Sharing
//
// With the knob sharing (variant packing; off by default) two jobs may be on the
// same GPUs. A pair is looked at if both may share (Spec.Shareable), have the same
// number of GPUs and fit on one node, if the memory of both fits a GPU of the type, and
// if both together do at least sharing times the work of one: 1/slowdown of each, in
// sum. Slowdowns are those measured (Report.Beside), and else those that the
// interference model (package interfere) predicts, if the utilisation and memory of
// both are known.
//
// Time of a pair on a type is one more variable of the linear program. It counts as
// time of both, takes the GPUs of one, and gives each its speed over its slowdown.
// Jobs are dealt into blocks of four, light with heavy, those that share now in the
// same one; any two of a block may be a pair, so a job has up to three partners. A
// block takes the place of a row in column generation: its cheapest times are a
// small linear program, which starts with every job alone. Blocks are made of the
// 1,024 jobs that have had the least; the others may be fitted in by the mechanism.
// With 1,000 jobs of different speeds and utilisations that all share, on three
// types, a decision takes 60 to 130 ms, with 10,000 it takes 50 to 170 ms more than
// without sharing.
//
// All goals but allox work with pairs: each depends only on the throughputs of jobs,
// or a sum over them. A deadline (slo) counts the throughput in a pair.
//
// In a round, pairs bid like jobs, with the mean of the priorities that both have by
// their time in pairs, which is counted separately (Note.Level). A job that
// may share holds half of each GPU from its start, with or without a partner, so
// that one can join without a restart. Jobs that share and are both to be alone
// stay together if that slows neither by more than a tenth. After GPUs, seats that
// are left over go to jobs that wait: beside jobs that were not chosen themselves,
// or that lose no more than a tenth. The slowdown of a pair counts as at least 5 %,
// so no job shares while GPUs are idle; for jobs that share already it counts 3 %
// less, so that they are not separated for nothing.
//
// # What it knows
//
// Speeds come from agents (Report.StepTimes): the time of a step on one GPU of each
// type, from a trial or borrowed from other models, and the step times at its size
// on types where it has run. Where only the trial is known, the factor between size
// and trial comes from the other types. A job without a report is equally fast on
// every type. Remaining work is the user's estimate, for the first of the cluster's
// types that the job accepts; a job without one is assumed to be half done.
//
// # Deviations
//
//   - The paper counts received time linearly. Here, turns grow: received time
//     counts in powers of turns, and a running job bids with stick times its
//     priority. With 6-minute rounds and restarts of minutes, jobs would otherwise
//     spend much of their time restarting: in the simulator, 46 to 59 % longer
//     average JCT with gangs of up to 16 GPUs, 11 to 17 % with gangs of up to 8.
//     stick=1:turns=1 is the paper's rule; the variant makespan has turns=1.
//   - A mixture of columns is divided among jobs of the same speeds and size: each
//     gets one corner whole, in numbers given by the weights, so that few jobs move
//     between types. The sum is the same except for one job of each kind.
//   - Under shortest, fifo and allox, bids are in order of gain for each GPU (allox: the
//     shortest first), not by received time.
//   - The sum of fifo counts a gang by its GPUs, so that it is not overtaken by small
//     jobs. Under hierarchical, all tenants have the same rule within.
//   - AlloX matches jobs of one GPU, leaves running ones alone, and takes only a
//     fraction of the jobs, those that have waited longest. Here a gang counts as one
//     job that takes as many times longer, a running job counts with 1/stick of its
//     time where it is, and the shortest jobs take part, at most 1,024.
//   - The paper's cost goal divides total throughput by total cost; here each job's
//     work is divided by the price, which leaves no job out while GPUs are free.
//   - Speeds are rounded to two digits. The program looks at 8 types; others are
//     used only for what is left over.
//   - A round begins at multiples of its length, not when the last one was planned.
//     The whole rest of a round is charged when it begins.
//   - Unknown speeds are extrapolated from trials, and unknown throughputs of pairs
//     predicted from the utilisation of both, not by matrix completion.
//   - The paper's program has a variable for every two jobs. Here each job has few
//     partners, which change as jobs come and go.
//   - Elastic jobs run at the size they asked for. Quotas of tenants, pinned jobs,
//     CPUs, memory and locality are respected; the paper has none of these.
package gavel
