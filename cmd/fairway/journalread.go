// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/replay"
	"github.com/fairway-gpu/fairway/store"
)

// The files of a journal, as package store names them.
const (
	journalHot     = "journal.db"
	journalLock    = "journal.pid"
	journalArchive = "archive"
)

// pastJournal is a journal as it was read.
type pastJournal struct {
	records  []api.Record
	snapshot *daemon.ExportedSnapshot // without which the records mean nothing; nil: none is needed
}

// readJournal reads the journal of a data folder, or an exported one.
func readJournal(c *cobra.Command, path string) ([]api.Record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if info.IsDir() {
		past, err := readJournalFolder(c, path)
		return past.records, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close()
	records, err := replay.Read(f, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return records, nil
}

// journalFolder finds the journal in a data folder.
func journalFolder(dir string) (string, error) {
	for _, d := range []string{dir, filepath.Join(dir, "journal")} {
		if _, err := os.Stat(hotFile(d)); err == nil {
			return d, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read journal: %w; run as the user of the daemon", err)
		}
	}
	return "", fmt.Errorf("read journal: no %s in %s or its journal folder", journalHot, dir)
}

// hotFile returns the hot file of a journal. If it was removed or replaced while a
// daemon has it open, it is the one that the daemon has.
func hotFile(dir string) string {
	path := filepath.Join(dir, journalHot)
	pid, err := os.ReadFile(filepath.Join(dir, journalLock))
	if err != nil {
		return path
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return path
	}
	held, _ := filepath.Glob(filepath.Join("/proc", strings.TrimSpace(string(pid)), "fd", "*"))
	for _, fd := range held {
		if to, err := os.Readlink(fd); err == nil && to == filepath.Join(real, journalHot)+" (deleted)" {
			return fd
		}
	}
	return path
}

// readJournalFolder reads a copy of the journal, so that a daemon that runs is
// not disturbed. A copy that was taken while the daemon wrote may be torn; the
// store sees that, and the next one is likely whole: a write takes a moment.
func readJournalFolder(c *cobra.Command, dir string) (pastJournal, error) {
	const tries = 6
	dir, err := journalFolder(dir)
	if err != nil {
		return pastJournal{}, err
	}
	for try := 1; ; try++ {
		past, torn, err := readJournalCopy(dir)
		switch {
		case err == nil && torn == "":
			return past, nil
		case try < tries:
			time.Sleep(time.Duration(try) * 50 * time.Millisecond)
		case err != nil:
			return past, fmt.Errorf("read a copy of the journal %s: %w", dir, err)
		default:
			fmt.Fprintf(c.ErrOrStderr(), "the journal is damaged, or the daemon kept writing to it: %s; read %d records\n", torn, len(past.records))
			return past, nil
		}
	}
}

// readJournalCopy copies a journal and reads the copy. torn says what is wrong
// with it; empty: nothing.
func readJournalCopy(dir string) (past pastJournal, torn string, err error) {
	tmp, err := os.MkdirTemp("", "fairway-journal-")
	if err != nil {
		return past, "", err
	}
	defer os.RemoveAll(tmp)
	if err := copyJournal(dir, tmp); err != nil {
		return past, "", err
	}
	s, recovery, err := store.Open(store.Config{Dir: tmp})
	if err != nil {
		return past, "", err
	}
	defer s.Close()
	if payload, upTo, ok := s.Snapshot(); ok && s.Oldest() > 1 {
		past.snapshot = &daemon.ExportedSnapshot{Snapshot: payload, UpTo: upTo}
	}
	err = s.Read(s.Oldest(), func(seq uint64, payload []byte) error {
		r, err := replay.Decode(payload)
		if err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		r.Seq = seq
		past.records = append(past.records, r)
		return nil
	})
	return past, recovery.Reason, err
}

// copyJournal copies the hot file first: records move from it to the archive,
// never back, so none is missed.
func copyJournal(from, to string) error {
	if err := copyTo(hotFile(from), filepath.Join(to, journalHot)); err != nil {
		return err
	}
	segments, err := os.ReadDir(filepath.Join(from, journalArchive))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(to, journalArchive), 0o700); err != nil {
		return err
	}
	for _, s := range segments {
		if !s.Type().IsRegular() {
			continue
		}
		err := copyTo(filepath.Join(from, journalArchive, s.Name()), filepath.Join(to, journalArchive, s.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the oldest may be deleted meanwhile
			return err
		}
	}
	return nil
}

func copyTo(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// How the daemon differs from the simulator's defaults.
const (
	daemonInterval = 0 // it decides when something happens
	daemonRetry    = 5 * time.Second
)

// replay makes the workload of a journal and fits the simulation to it.
func (f *simFlags) replay(c *cobra.Command, cfg *sim.Config) (*replay.Past, error) {
	changed := c.Flags().Changed
	if changed("workload") || changed("profiles") {
		return nil, usagef("--journal cannot be combined with --workload or --profiles")
	}
	records, err := readJournal(c, f.journal)
	if err != nil {
		return nil, err
	}
	var cluster *sched.Cluster
	if changed("cluster") || changed("cluster-file") {
		cluster = cfg.Cluster
	}
	past, err := replay.NewPast(records, replay.Options{Name: filepath.Base(f.journal), Cluster: cluster})
	if err != nil {
		return nil, err
	}
	cfg.Cluster = past.Cluster
	if !changed("interval") {
		cfg.Interval = daemonInterval
	}
	if !changed("retry") {
		cfg.Retry = daemonRetry
	}
	if err := past.AddModels(cfg.Zoo); err != nil {
		return nil, err
	}
	w := c.ErrOrStderr()
	fmt.Fprintf(w, "%s: %d records, %d jobs\n", f.journal, len(records), len(past.Workload.Work))
	for _, n := range past.Notes {
		fmt.Fprintf(w, "  %s\n", n)
	}
	return past, nil
}
