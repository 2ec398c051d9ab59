// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package local is the executor for one machine: it finds the GPUs, starts and
// stops processes as executor.Port says, keeps their output and measures their use.
// It alone touches processes, control groups, GPUs and MPS. It decides nothing about
// which job runs where.
//
// # Who does what
//
// Every attempt runs under a supervisor of its own (ShimMain), a small process
// that outlives the daemon. The supervisor owns the ranks: it starts them, keeps
// their output, passes on the request to stop, kills what is left when the
// deadline is over, and writes how the attempt ended. The daemon's part
// (Machine) only compares what should run with what does.
//
// # Why nothing runs twice
//
// The folder of an attempt holds a lock file. The daemon takes the lock before
// it starts the supervisor and hands it over already locked, so that from then
// on the lock is held for exactly as long as a supervisor exists. A daemon that
// comes back after a crash looks at the lock: held means that the attempt runs
// and is adopted; free means that no supervisor exists or ever will. Then the
// files say how far it came:
//
//   - exit.json: it ended, and how;
//   - shim.json without exit.json: the supervisor was killed; what is left of
//     the attempt is killed, and the attempt is lost;
//   - attempt.json alone: it never started.
//
// # Folders
//
//	jobs/<job>/checkpoint/   the job's own, kept from attempt to attempt
//	jobs/<job>/work/         where it runs unless it names a folder
//	jobs/<job>/<number>/     one attempt: records, lock, rank-N.log
//	mps/<uid>/               pipes and logs of a user's MPS, for jobs that share a GPU
//
// The first two belong to the user the job runs as. The folder of an attempt
// belongs to the daemon, because the daemon reads and writes there with its own
// rights and must not be led elsewhere by a link.
package local
