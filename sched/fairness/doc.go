// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairness defines finish-time fairness:
//
//	rho = T_shared / T_independent
//
// T_shared is the life of an app, from its first submission to the end of its last
// job. T_independent is the time that the app would take alone on its share of the
// cluster: C/N GPUs, where N is the number of active apps averaged over its life.
// rho <= 1 means that sharing cost the app nothing.
//
// This is the only place that computes it. The simulator, the daemon and the
// policies fill in what they know of an App; they differ in how they know it:
//
//	                simulator              daemon, policies
//	T_shared        measured, at the end   elapsed, and what is expected to be left
//	N               measured, at the end   so far, and as now for what is left
//	time of a job   its true speed         what it reports, else its estimate
//	curve           its true speed         the model that its agent fitted
//
// What nobody knows is not guessed: an app with a job of unknown length has no rho,
// and the functions return 0.
package fairness
