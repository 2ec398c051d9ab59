// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/sim/replay"
	"github.com/fairway-gpu/fairway/store"
)

func newJournalRestore() *cobra.Command {
	var data string
	var again bool
	c := &cobra.Command{
		Use:   "restore [--data DIR] FILE",
		Short: "Make a full export the daemon's journal",
		Long: `Make a full export the daemon's journal. The daemon must be stopped.

Jobs of the export come back. What happened after it is lost, except for attempts
whose folders are still there: those are taken over, so no job runs twice. A journal
that holds records is replaced only with --replace, and kept under another name.`,
		Example: `  fairway journal restore journal.jsonl
  fairway journal restore --data /var/lib/fairway --replace journal.jsonl`,
		Args: exactly(1, "fairway journal restore journal.jsonl"),
		RunE: func(c *cobra.Command, args []string) error {
			return restoreJournal(c, args[0], filepath.Join(data, "journal"), again)
		},
	}
	c.Flags().StringVar(&data, "data", defaultDataDir(), "data `folder` of the daemon")
	c.Flags().BoolVar(&again, "replace", false, "replace a journal that holds records; it is kept under another name")
	return c
}

func restoreJournal(c *cobra.Command, path, dir string, replace bool) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("restore journal: %w", err)
	}
	defer file.Close()
	if err := makeRoom(c, dir, replace); err != nil {
		return err
	}
	e := &exported{lines: bufio.NewReaderSize(file, 1<<20)}
	backup, err := e.begin()
	if err == nil {
		_, err = store.Restore(store.Config{Dir: dir}, backup)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s, _, err := store.Open(store.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	// What came after the export is lost: a new epoch keeps it apart.
	note, err := json.Marshal(api.Record{
		Seq: s.Last() + 1, At: time.Now().UTC(), Actor: "restore", Text: "restored from " + filepath.Base(path), Epoch: state.NewEpoch(0),
	})
	if err != nil {
		return err
	}
	if _, err := s.Append(context.Background(), note); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "restored %d records to %s; start the daemon\n", e.read, dir)
	return nil
}

// makeRoom moves a journal away that is there. An empty one is in nobody's way.
func makeRoom(c *cobra.Command, dir string, replace bool) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, _, err := store.Open(store.Config{Dir: dir}) // fails while a daemon runs
	if err != nil {
		return err
	}
	records := s.Last()
	if err := s.Close(); err != nil {
		return err
	}
	if records > 0 && !replace {
		return fmt.Errorf("restore journal: %s holds %d records; pass --replace to keep it under another name and restore", dir, records)
	}
	kept := dir + "-replaced-" + time.Now().UTC().Format("20060102T150405Z")
	if err := os.Rename(dir, kept); err != nil {
		return fmt.Errorf("restore journal: %w", err)
	}
	if records > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "the journal that was here is now %s\n", kept)
	}
	return nil
}

// exported reads an export line by line.
type exported struct {
	lines *bufio.Reader
	line  int
	next  uint64 // the record that must come next
	read  int
	held  []byte // a line that was read ahead
}

// begin reads the snapshot, if there is one.
func (e *exported) begin() (store.Backup, error) {
	e.next = 1
	b := store.Backup{Next: e.payload}
	text, err := e.text()
	if errors.Is(err, io.EOF) {
		return b, errors.New("it holds no records")
	}
	if err != nil || !bytes.HasPrefix(text, []byte(`{"snapshot":`)) {
		e.held = text
		return b, err
	}
	var s daemon.ExportedSnapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return b, fmt.Errorf("line %d: %w", e.line, err)
	}
	b.Snapshot, b.UpTo, e.next = s.Snapshot, s.UpTo, s.UpTo+1
	return b, nil
}

// text returns the next line that is not empty.
func (e *exported) text() ([]byte, error) {
	if e.held != nil {
		text := e.held
		e.held = nil
		return text, nil
	}
	for {
		text, err := e.lines.ReadBytes('\n')
		e.line++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// payload returns the next record that the snapshot does not hold.
func (e *exported) payload() ([]byte, error) {
	for {
		text, err := e.text()
		if err != nil {
			return nil, err
		}
		r, err := replay.Decode(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", e.line, err)
		case r.Seq < e.next && e.read == 0:
			continue // the snapshot holds it
		case r.Seq != e.next:
			return nil, fmt.Errorf("line %d: record %d; want %d", e.line, r.Seq, e.next)
		case r.Task != nil && len(r.Task.Command) == 0, r.Token != nil && len(r.Token.Hash) == 0:
			return nil, fmt.Errorf("line %d: the commands and token hashes are left out; want an export made with --full", e.line)
		}
		e.next++
		e.read++
		return text, nil
	}
}
