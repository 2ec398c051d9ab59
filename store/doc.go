// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package store is the daemon's durable, append-only journal: records with gapless
// sequence numbers from 1, and snapshots that replace all records up to one of
// them. Payloads are opaque bytes, so it imports none of Fairway's packages. No
// other package touches the journal's files.
//
// # Files
//
// A journal is a folder:
//
//	journal.db                        the hot file, a bbolt database
//	journal.pid                       the lock (flock) and the process that holds it
//	archive/<first>-<last>.seg.gz     records that a snapshot replaced, compressed
//	journal-damaged-<time>.db         a damaged hot file, unchanged
//	intact-<time>.bin                 its intact frames behind a gap (see Unused)
//	journal-v<n>-<time>.db            the hot file before a migration
//
// The hot file must keep its name while it is open: before each write the store
// compares the file under the name with the one it has open, and refuses to write
// (ErrMoved) if they differ. It still reads what it has.
//
// # Guarantees
//
// A record is on disk (fsync) when Append returns without an error, and is then
// read back in order, exactly once. The records of one Append are applied all or
// none. An Append that returns an error was not applied, with one exception: if
// the error is ErrBroken, or the process dies during the call, the next Open may
// find the records; it then finds all of them.
//
// # Damage
//
// Every value is framed (magic, checksum, sequence number, term, records left of
// its Append, length), so that it can be found without the database around it.
// bbolt trusts its pages and may panic or fault on bad ones, so Open checks the
// pages of the hot file with plain reads before bbolt maps it, and then the
// checksum of every frame. If anything is wrong, Open scans the raw file for
// frames, writes the longest run without a gap to a new file, and keeps the
// damaged file and, apart, the intact frames behind the gap. Only records that a
// snapshot replaced, and archive segments beyond the configured retention, are ever
// deleted.
//
// The term of a frame grows with each attempted transaction. It distinguishes the
// committed frame from one that a failed transaction left in a free page under the
// same sequence number.
package store
