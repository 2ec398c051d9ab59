// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package optimus gives each further GPU to the job whose remaining time it
// shortens most: the scheduler of Optimus (Peng et al., EuroSys'18).
//
// # The rule
//
// Every job first gets its smallest size, one GPU for most, in order of
// submission while GPUs last. Then each further GPU goes to the job with the largest
// gain
//
//	(t(n) - t(n+1)) * steps left
//
// where t(n) is the time of a training step on n GPUs at the job's own batch
// size, until no GPU is left or no gain is positive. A job whose number of GPUs
// is unchanged stays where it is. The others are placed, the smallest first,
// each on the node with the most free GPUs, then on the next such node. The cost of
// a restart is ignored: a job restarts for every new number of GPUs.
//
// Where step times are convex in n the result has the least possible sum of
// remaining times.
//
// # Form = oracle
//
// This is the form for all-reduce jobs that Pollux (Qiao et al., OSDI'21)
// compares itself with: t and the steps left are what the job's agent reports
// (goodput.Report.Steps and Left), in its simulator the truth. Progress since
// the last report is not counted. Pollux' simulator counts whole epochs only,
// which helps: the finer the count, the more often a GPU goes back and forth between
// two jobs with nearly equal gains, at the cost of two restarts. At least one step is
// always left, so that a job near its end keeps its GPUs if no other job wants them.
//
// No job gets more GPUs than its agent asks for now (Report.MostGPUs). An agent that
// knows the truth asks for as many as the job's batch can be split over, as in the
// simulator of Pollux. An agent that learns asks for at most twice the most that the
// job has had, so that unknown speeds are approached in steps.
//
// # Form = original
//
// This form uses no predictions of agents. It fits the models of the Optimus paper
// to what agents have measured: to the training losses (goodput.Report.Losses), which
// give the steps left until the job has converged by its user's rule (Stop), and to
// the times of the steps it has run (StepTimes), which give t. A training never goes on
// beyond its last step, if that is known (Stop.Steps); without a rule it ends there. Report.Steps and Left
// are not read. From the paper: the terms of the speed model and of the loss curve,
// with coefficients that are not negative, found by non-negative least squares
// (Lawson and Hanson); convergence, when the loss has fallen by less than a
// threshold in each of several epochs; the gain, damped by 0.95 for a young
// job, whose models are uncertain. Not from the paper:
//
//   - The paper tries a new job at a few sizes on a sample of its data before it
//     starts. Here it learns by running, with optimistic assumptions until then: a
//     job without step times gets its smallest size; one that has run at one size is
//     assumed to scale perfectly, one that has run at two sizes to exchange gradients
//     in constant time (FitSpeed). Its agent's limit (Report.MostGPUs, twice the most
//     it has run on) makes it run at the sizes that the fit needs.
//   - The speed model knows numbers of GPUs and not of nodes: step times on one
//     node and on several are fitted together.
//   - A job with fewer than three losses is assumed to converge as soon as its rule
//     allows, after Stop.Epochs epochs. One that runs past its predicted end has
//     one step left.
//   - Losses are fitted over steps at the job's batch size. At a large batch size a
//     step achieves more as training goes on, which the curve ignores: for the models
//     of the zoo it predicts up to four times the steps that are left.
//   - Young is a job that has run for less than the knob young; the paper sets
//     no figure.
//   - The paper's jobs have workers and parameter servers, chosen one by one by
//     gain for each unit of the dominant resource. An all-reduce job has as
//     many servers as workers, both on the same GPUs: w = p turns
//     t0*M/w + t1 + t2*w/p + t3*w + t4*p into c0/w + c1 + c2*w, and a GPU is
//     the same share for every job. Asynchronous training is left out.
//   - The paper spreads a job evenly over the fewest servers that hold it. Here
//     it is on the fewest nodes too, but fills all except the last.
//
// # Deviations
//
// In both forms:
//
//   - A decision is made whenever the driver asks for one, and with the knob every
//     also that long after the last. The paper decides every 10 minutes, as does the
//     variant original, and the simulator of Pollux every minute, even if nothing
//     happened. Fits change with every loss: where jobs save their work only every 5
//     minutes ("fairway sim --checkpoint 5m"), with every = 1m some are resized before
//     they have saved anything and never end.
//   - A rigid job, and one that is not preemptible (it could not be resized
//     later), gets its requested size in the first round, or nothing. One that
//     is not preemptible and runs stays as it is.
//   - A job without reported step times gets its smallest size.
//   - A job with a list of useful sizes, or with tasks of several GPUs, grows
//     from size to size, by gain for each GPU.
//   - GPU types are separate pools: a running job stays in the pool it is in, a
//     waiting one joins the first type it accepts that has room. Step times are
//     taken to be those of that type.
//   - Limits of tenants hold: a job whose tenant has used up its limit stops
//     growing.
//   - Where a share finds no place (host CPUs or memory, locality, GPUs of
//     cordoned nodes), the job is placed at the next smaller size that does;
//     one that arrives at the size it has stays where it is. The shares are
//     then worked out once more with those sizes as limits, so that others get
//     the GPUs. In the end whatever is still free is offered, at the smallest
//     size and in order of submission, to the jobs that have nothing. No job is
//     moved to make room, so a job that insists on locality can wait for long
//     while small jobs come and go.
package optimus
