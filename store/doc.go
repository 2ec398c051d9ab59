// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package store is the durable, append-only journal of the daemon: records with
// gapless sequence numbers from 1, and snapshots that replace all records up to one
// of them. Payloads are opaque bytes, so it imports none of Fairway's packages; it is
// the only package that touches the journal's files.
//
// # Files
//
// A journal is a folder:
//
//	journal.db                        the hot file, a bbolt database
//	journal.pid                       the lock (flock) and the process that holds it
//	archive/<first>-<last>.seg.gz     records a snapshot stands for, compressed
//	journal-damaged-<time>.db         a hot file that was found damaged, untouched
//	corrupt-<time>.bin                intact frames of it that could not be used
//	journal-v<n>-<time>.db            the hot file as it was before a migration
//
// # What is promised
//
// A record is on disk (fsync) when Append returns without an error, and is then
// read back in order, exactly once. The records of one Append are applied all or
// none. An Append that returns an error was not applied, with one exception: if
// the error is ErrBroken, or the process dies during the call, the records may
// be found after the next Open; they are then all there.
//
// # Damage
//
// Every value is framed (magic, checksum, sequence number, term, records left of
// its Append, length), so that it can be found again without the database around
// it. Open checks the pages of the hot file with plain reads before bbolt maps it
// into memory, because bbolt trusts its pages and may panic or fault on bad ones,
// and then the checksum of every frame. If anything is wrong, the raw file is
// scanned for frames, the longest run without a gap is written to a new file, and
// the damaged file is kept. Nothing is ever deleted but what a snapshot stands
// for and the configured retention of the archive gives up.
//
// The term of a frame grows with each transaction that was tried. It tells the
// frame that was committed from one that a failed transaction left in a free
// page under the same sequence number.
package store
