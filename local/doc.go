// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package local is the executor for one machine: it finds the GPUs, starts and
// stops processes as executor.Port says, keeps their output and measures their
// use. Only it touches processes, control groups, GPUs and MPS. It does not decide
// which job runs where.
//
// # Who does what
//
// Every attempt runs under its own supervisor (ShimMain), a small process that
// outlives the daemon. The supervisor owns the ranks: it starts them, keeps their
// output, passes on the request to stop, kills what is left at the deadline, and
// writes how the attempt ended. The daemon's part (Machine) only compares what
// should run with what does.
//
// # Why nothing runs twice
//
// The folder of an attempt holds a lock file. The daemon takes the lock before it
// starts the supervisor and hands it over locked, so the lock is held for exactly
// as long as a supervisor exists. A daemon that restarts after a crash looks at
// the lock: if it is held, the attempt runs and is adopted; if it is free, no
// supervisor exists or ever will. Then the files tell how far it came:
//
//   - exit.json: it ended, and how;
//   - shim.json without exit.json: the supervisor was killed; what is left of
//     the attempt is killed, and the attempt is lost;
//   - attempt.json alone: it never started.
//
// # Folders
//
//	jobs/<job>/epoch         of the journal that the job belongs to
//	jobs/<job>/checkpoint/   the job's own, kept from attempt to attempt
//	jobs/<job>/work/         where it runs unless it names a folder
//	jobs/<job>/<number>/     one attempt: records, lock, rank-N.log
//	set-aside/<time>/<job>/  what belongs to no job of the journal; never read or removed
//	mps/<uid>/               pipes and logs of a user's MPS, for jobs that share a GPU
//
// A job of another journal may have had the same name. So the folder of a job and
// the record of an attempt hold the journal's epoch, Open asks for each whether the
// journal knows it (Config.Claim), and sets the others aside.
//
// checkpoint and work belong to the user the job runs as. The folder of an attempt
// belongs to the daemon, because the daemon reads and writes there with its own
// rights and must not follow a link elsewhere.
package local
