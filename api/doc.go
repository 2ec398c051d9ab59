// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package api holds the types that cross a process boundary: what users submit,
// what the journal records, what server and clients exchange, and the services
// behind them. Every room but the core may import it. It does no I/O.
//
//   - Task, Submission, Job, Record: what is submitted, shown and recorded.
//   - Attempt is one run of a job; Exit is how it ended.
//   - AgentReport is what a job's agent reports.
//   - Jobs, Feed, Cluster, Access, Agents, Logs: the services of the API.
//   - Error carries a code, the field at fault and a remedy.
package api
