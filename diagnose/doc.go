// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose finds out why an attempt of a job failed, whether a retry is
// worth its GPUs, which nodes to quarantine, and which ranks are slow. It is a set of
// pure functions and state machines over sched; the daemon and the simulator both use
// it.
//
// # Classification
//
// A Table is a list of reasons, each with the signatures that give it away in
// the tail of a log, and with exit codes, signals and host events. Builtin
// returns the one that is part of the program (signatures.json); users put
// their own before it (Table.With). Table.Classify returns one Finding: the
// root cause, by these rules, in order:
//
//   - what the host reports (out-of-memory killer, lost node, preemption) comes
//     before what the log says;
//   - a cause comes before a symptom (a collective that timed out, a reset
//     connection), a symptom before an echo (core dumped, child failed);
//   - of two of the same kind, the earlier wins: by the time stamps of the lines
//     where logs have them, else by line. The launcher's word on which rank
//     failed first comes before time stamps;
//   - a warning comes last, what the program has visibly survived (it trained on
//     afterwards) and what it logged as information do not count.
//
// Of a Python traceback only the exception at its end is looked at, never the
// source lines of its frames; in a chain of exceptions each is looked at, and
// the first wins by the rules above.
//
// Time is bounded for any input: only the last TailBytes and MaxLines of a log
// are looked at and the first MaxLineBytes of a line; a search for all literal
// texts at once (Aho and Corasick, 1975) goes over the text once, and the regular
// expressions, which are of linear time, see only lines with a literal of theirs.
//
// # Retry and quarantine
//
// Decide is a pure function from the failures of a job so far to what to do
// next. Quarantine is a state machine: events in, changes out, no clock. Pace finds
// ranks that are slower than their peers, RateOf how often nodes fail.
//
// The rules follow section 4 of "Analysis of Large-Scale Multi-Tenant GPU
// Clusters for DNN Training Workloads" (ATC 2019), whose table of failures
// every reason names its row of; numbers that the paper does not give are ours
// and stand in docs/failures.md.
package diagnose
