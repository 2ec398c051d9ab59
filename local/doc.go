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
// # How a gang changes in place
//
// An attempt whose agents are able to can get other GPUs without a restart. The daemon
// writes resize.json; the supervisor starts the new ranks, tells all ranks their places
// in the next generation of the gang when these are ready, and writes resized.json when
// all of them train and those that leave are gone. Until then the attempt holds the GPUs
// of both sides. The supervisor also replaces a rank that was killed, so that the others
// keep their state. Whatever goes wrong before the ranks were told leaves the gang as it
// was, and the daemon stops it to start it anew.
//
// # Warm starts
//
// A standby is a supervisor that has no attempt yet, with an interpreter that has imported
// torch. It gets the lock and the folder of an attempt from the daemon, and from then on is
// its supervisor like any other. It ends when the daemon does before that. A fork of the
// interpreter runs nothing before the supervisor has taken it for its child.
//
// # Suspending
//
// A suspended attempt keeps its supervisor, its lock and its processes: these are off
// their GPUs and frozen (daemon/suspend). suspend.json is there from the beginning of the
// suspension until the attempt has gone on, and every step can be repeated, so a daemon
// that restarts in between completes what was begun.
//
// # Folders
//
//	jobs/<job>/epoch         of the journal that the job belongs to
//	jobs/<job>/checkpoint/   the job's own, kept from attempt to attempt
//	jobs/<job>/work/         where it runs unless it names a folder
//	jobs/<job>/<number>/     one attempt: records, lock, rank-N.log
//	secrets/<reference>.json  values of secret variables of jobs that have not ended
//	set-aside/<time>/<job>/  what belongs to no job of the journal; never read or removed
//	/dev/shm/fairway-<hash>/<job>~<hash>/  a copy of the job's newest checkpoint, in memory
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
