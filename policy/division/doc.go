// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package division divides the GPUs of a cluster among jobs, such that the sum of what
// they cost is small. An Objective says what a number of GPUs of a type costs a job;
// jobs may have any size in their range on any nodes that they accept, within the limits
// of tenants and nodes. Policies that weigh all jobs against each other at once (pollux,
// fairway) differ in their objective and share the rest.
//
// # The fast search
//
// The value of an allocation depends on the number and type of its GPUs and on
// whether they span nodes or racks, not on which nodes these are. A job therefore
// has few options, and the problem is to choose one for each job such that all
// fit on the nodes. The search has three parts.
//
// A market puts prices on pieces of nodes, as Lagrange multipliers: one for each
// number of GPUs on one node. Every job takes the option with the least cost and
// price; prices move until demand matches what nodes can be cut into. Unlike a price
// for each GPU, a price for each size accounts for leftovers: 3 of a node's 4 GPUs
// leave one that may be of no use. The dual value of the market is an upper bound on
// every allocation.
//
// A choice is then placed: first jobs that keep their GPUs, then those on one node,
// best fit, then those on several, large before small. A job that does not fit gets
// its next best option, or displaces the job that loses least.
//
// Local search improves the true fitness: it divides two nodes at a time among their
// jobs and some that wait, exactly, by dynamic programming. When no pair gains, it
// perturbs the layout at random and starts again. Unchanged pairs are not divided
// twice. Finally, jobs that lost their GPUs on several nodes get them back where that
// is better.
//
// The search ends when it reaches the bound or has used its budget, which is a
// number of steps, not a time: the same snapshot gives the same plan. On the
// rounds recorded from the authors' simulator it ends within 0.4 % of the bound
// and is never behind the genetic search.
//
// # The genetic search
//
// It searches as the Pollux paper does: matrices of jobs
// by nodes, with a population of 100 for 100 generations, binary tournaments,
// one-point crossover between jobs, the three mutations and the order of repair
// of the authors' code. More than about 50,000 entries of such a matrix get a
// smaller effort, and above 32 million nothing is searched: jobs keep what they
// have, and idle GPUs go to those that wait.
package division
