// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package autoscale decides how many nodes a cluster in a cloud should have.
//
// # Utility
//
// The measure is the utility of a cluster: the sum of the speedups of its jobs,
// each against one GPU, by the number of GPUs that are paid for. A job that
// scales perfectly on every GPU there is gives 1; idle GPUs, and GPUs that add
// little to a job that has many, lower it. Speedups come from what the agents
// of the jobs report. A job about which nothing is known yet counts as one that
// scales perfectly, so a cluster without agents has as its utility the share of
// its GPUs that is held.
//
// # Rules
//
// Rule Utility is for clusters with many jobs: it keeps the mean utility of the
// last Window looks between Low and High. When the mean leaves that band, it
// looks for the number of nodes whose predicted utility is nearest to the
// middle of the band, by bisection, and starts a new window.
//
// Rule Goodput is for one large job (Pollux, section 5.4.1 of the paper): while
// the goodput of each of its GPUs is above U of what a single GPU gives, the
// cluster grows to the number of nodes on which it is predicted to be about L. It
// follows the job: late in training, when large batches lose less, more nodes
// are worth their price. The paper has U = 2/3 and L = 1/2. Our default, 0.55
// and 0.40, is more generous: by the models of the zoo it comes nearest to the
// trade that the paper reports, 25 % lower cost for 6 % more time than by
// throughput. By profiles measured for the paper it saves less and takes longer
// than that, as every band does (docs/reproduction/autoscale.md).
//
// Rule Throughput is the same with throughput in place of goodput, and stands
// for scaling that does not know about statistical efficiency (Or et al.,
// MLSys 2020): the speed of the hardware does not change during training, so it
// takes all its nodes at once. It decides about nodes only. The system of Or et
// al. lets the batch grow with the cluster as well; to compare with it, give the
// job the largest batch size and do not let it adapt.
//
// # Prediction
//
// What a cluster of another size would give is predicted from the reports alone
// (see forecast): every job takes the sizes at which GPUs help it most, on as
// few nodes as they fit on. The artifact of the Pollux paper runs the whole
// policy on an imagined cluster at every step of its bisection instead; that is
// nearer to what the policy will do, costs a decision for each step, and
// depends on the policy. Ours is an upper bound that falls with the number of
// nodes, as bisection needs, and costs the same for any policy.
//
// Beyond the paper: no node is bought that no job can use (agents bound how far
// a job may grow at once), a cluster is never smaller than what its widest job
// needs to start, and the rules for one job also give nodes back: when the
// goodput of a GPU falls below L*L/U, as far below L as U is above it.
//
// The nodes of the cluster are taken to be of one kind, as the nodes of one
// scaling group of a cloud are.
//
// The package is pure: it reads no clock and draws no random numbers.
package autoscale
