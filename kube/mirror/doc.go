// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirror stands between the objects that people write in Kubernetes and the
// book, which is the truth: training jobs, apps with a search and labelled batch
// Jobs become jobs of the book, tenants and the scheduling policy its
// configuration, and what becomes of them is written back as one status.
//
// Everything is level-triggered. A key of the queue names an object; looking at it
// compares the object with the book and does what is missing, whatever happened
// before. Submitting is idempotent by the object's UID, so it does not matter where
// an operator was killed. No finalizers: a job whose object is gone, or is another
// one of the same name, is found by its origin and cancelled.
//
// Status is written only when it differs, at most once a second for an object, and
// words that change all the time (why it waits, until when, goodput) at most every
// ten seconds, so that a long queue does not turn into a stream of writes.
package mirror
