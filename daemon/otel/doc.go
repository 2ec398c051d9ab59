// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package otel sends one trace for each job to a collector of OpenTelemetry when the job
// ends: its wait, its attempts, and when it was submitted, decided on, started, took its
// first step and ended. It speaks OTLP over HTTP in JSON, of which traces need little.
//
// A trace is made of what the state knows of the job, so that it is whole after a restart
// of the daemon too. Traces are not records: what the collector does not take within some
// tries, or what ends while the daemon is away, is not sent later.
package otel
