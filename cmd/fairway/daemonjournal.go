// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/local"
	"github.com/fairway-gpu/fairway/store"
)

// loss is what is wrong with the journal as it was found.
type loss struct {
	text  string   // empty: nothing
	found [][]byte // records that are intact behind a gap
}

// openJournal opens the journal and says what it has lost.
func (d *localDaemon) openJournal() (lost loss, err error) {
	dir := filepath.Join(d.config.Data, "journal")
	var r store.Recovery
	d.store, r, err = store.Open(store.Config{Dir: dir, Log: d.log, ArchiveBytes: int64(d.config.Keep.Journal)})
	switch {
	case err != nil:
		return lost, err
	case r.MissingFrom != 0:
		return lost, fmt.Errorf("the journal in %s is missing records %d to %d, so the state cannot be rebuilt; restore the folder from a backup, or move it away to start with an empty journal", dir, r.MissingFrom, r.MissingTo)
	}
	for _, path := range store.Unused(dir) { // of this damage, or of one that was not dealt with
		found, err := store.ReadUnused(path)
		if err != nil {
			d.log.Error("read intact records behind the damage", "err", err)
		}
		lost.found = append(lost.found, found...)
	}
	if r.Reason == "" {
		return lost, nil
	}
	d.log.Error("the journal is damaged; all records before the damage were recovered", "reason", r.Reason, "records", r.Records,
		"from", r.From, "dropped", r.Dropped, "damaged file", r.SavedTo, "intact records", r.Unused)
	lost.text = fmt.Sprintf("the file is damaged from record %d on (%s)", r.From, r.Reason)
	if r.SavedTo != "" {
		lost.text += "; it is kept as " + r.SavedTo
	}
	return lost, nil
}

// settled notes that the state has brought back what was found behind damage.
func (d *localDaemon) settled() error {
	for _, path := range store.Unused(filepath.Join(d.config.Data, "journal")) {
		if err := store.MarkUsed(path); err != nil {
			return err
		}
	}
	return nil
}

// markPath is the file that says how far the journal has come. It lies outside the
// journal's folder, so that it stays when someone moves the journal away.
func (d *localDaemon) markPath() string { return filepath.Join(d.config.Data, "journal.mark") }

// markSize is the length of the file: it is overwritten in place, in one write.
const markSize = 240

// readMark returns how far the journal had come. If that is lost too, at least no new job
// gets the number of one whose folder is still there.
func (d *localDaemon) readMark() (m state.Mark) {
	b, err := os.ReadFile(d.markPath())
	if err == nil {
		if err = json.Unmarshal(b, &m); err == nil {
			return m
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("cannot tell how far the journal had come", "err", err)
	}
	m = state.Mark{}
	jobs, err := local.JobsIn(d.config.machinePath())
	if err != nil {
		d.log.Warn("cannot tell which jobs have folders", "err", err)
	}
	for _, id := range jobs {
		m.Jobs = max(m.Jobs, state.JobNumber(id))
	}
	return m
}

// syncMark makes the mark durable, from time to time.
func (d *localDaemon) syncMark() {
	f, err := os.Open(d.markPath())
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		d.log.Warn("cannot make durable how far the journal has come", "err", err)
	}
}

// writeMark does not wait for the disk: a mark that a power failure takes back is
// only less strict.
func (d *localDaemon) writeMark(m state.Mark) {
	b, err := json.Marshal(m)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(d.markPath(), os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
			_, err = f.WriteAt(fmt.Appendf(nil, "%-*s\n", markSize-1, b), 0)
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		d.log.Warn("cannot write how far the journal has come", "err", err)
	}
}

// journal is the store as the state sees it, with a clock on it.
type journal struct {
	*store.Store
	daemon *localDaemon
}

// Append implements state.Journal.
func (j journal) Append(ctx context.Context, payloads ...[]byte) (uint64, error) {
	begin := time.Now()
	first, err := j.Store.Append(ctx, payloads...)
	j.daemon.metrics.ObserveAppend(time.Since(begin), err)
	if errors.Is(err, store.ErrBroken) {
		select {
		case j.daemon.broken <- err:
		default:
		}
	}
	return first, err
}

// ReadHot implements state.Journal. After damage the last snapshot may be the one
// before, and then a part of what follows it lies in the archive.
func (j journal) ReadHot(from uint64, fn func(seq uint64, payload []byte) error) error {
	return j.Store.Read(from, fn)
}
