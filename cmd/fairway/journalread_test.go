// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/store"
)

// TestReadJournalOfDaemon: the journal of a daemon that runs, writes and
// compacts can be read at any moment, whole up to that moment.
func TestReadJournalOfDaemon(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, _, err := store.Open(store.Config{Dir: filepath.Join(data, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(n int) error {
		for range n {
			p, err := json.Marshal(api.Record{At: time.Unix(1, 0), Actor: "test", Seq: s.Last() + 1})
			if err != nil {
				return err
			}
			if _, err := s.Append(context.Background(), p); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(50); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
			err := write(5)
			if err == nil && s.Last()%100 == 0 {
				err = s.Compact([]byte("{}"), s.Last()-10)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 10 {
		before := s.Last()
		records, err := readJournal(&cobra.Command{}, data)
		if err != nil {
			t.Fatal(err)
		}
		if uint64(len(records)) < before || records[0].Seq != 1 || records[len(records)-1].Seq != uint64(len(records)) {
			t.Errorf("%d records, from %d to %d; want all from 1 to %d or more", len(records), records[0].Seq, records[len(records)-1].Seq, before)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "journal", "journal.db")); err != nil {
		t.Error(err)
	}
}
