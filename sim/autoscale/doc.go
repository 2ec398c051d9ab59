// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package autoscale decides how many nodes a cluster in a cloud should have.
//
// # Utility
//
// The measure is the utility of a cluster: the sum of the speedups of its jobs, each
// relative to one GPU, divided by the number of GPUs paid for. A job that scales
// perfectly on every GPU gives 1; idle GPUs, and GPUs that add little to a large job,
// lower it. Speedups come from the reports of agents. A job without a report counts
// as one that scales perfectly, so the utility of a cluster without agents is the
// share of its GPUs that is held.
//
// # Rules
//
// Rule Utility is for clusters with many jobs: it keeps the mean utility of the last
// Window checks between Low and High. When the mean leaves that band, it finds by
// bisection the number of nodes whose predicted utility is nearest to the middle of
// the band, and starts a new window.
//
// Rule Goodput is for one large job (Pollux, section 5.4.1 of the paper): while the
// goodput of each of its GPUs is above U of that of a single GPU, the cluster grows
// to the number of nodes on which it is predicted to be about L. It follows the job:
// late in training, when large batches lose less, more nodes are worth their price.
// The paper has U = 2/3 and L = 1/2. Our default, 0.55 and 0.40, is more generous:
// with the models of the zoo it comes nearest to the trade-off that the paper
// reports, 25 % lower cost for 6 % more time than by throughput. With the profiles
// measured for the paper it saves less and takes longer than that, as every band does
// (docs/reproduction/autoscale.md).
//
// Rule Throughput is the same with throughput in place of goodput. It stands for
// scaling that ignores statistical efficiency (Or et al., MLSys 2020): the speed of
// the hardware does not change during training, so it takes all its nodes at once. It
// decides about nodes only. The system of Or et al. also lets the batch grow with the
// cluster; to compare with it, give the job the largest batch size and do not let it
// adapt.
//
// # Prediction
//
// The utility of a cluster of another size is predicted from the reports alone (see
// forecast): every job takes the sizes at which GPUs help it most, on as few nodes as
// possible. The artifact of the Pollux paper instead runs the whole policy on a
// hypothetical cluster at every step of its bisection; that is closer to what the
// policy will do, costs a decision for each step, and depends on the policy. Ours is
// an upper bound that falls with the number of nodes, as bisection needs, and costs
// the same for any policy.
//
// Beyond the paper: no node is ordered that no job can use (agents bound how far a
// job may grow at once), a cluster is never smaller than its widest job needs to
// start, and the rules for one job also release nodes: when the goodput of a GPU
// falls below L*L/U, as far below L as U is above it.
//
// All nodes are assumed to be of one kind, like the nodes of one scaling group in a
// cloud.
//
// The package is pure: it reads no clock and draws no random numbers.
package autoscale
