// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// FuzzReload: a journal with any records is read or refused, and so are records that
// were found behind damage; whatever is accepted can be read again.
func FuzzReload(f *testing.F) {
	d := open(f)
	first := d.submit(ann, submission("x", 1))
	d.decide(wants{first: on(0)})
	d.report(first, 1, api.AgentReport{Done: 1, Rate: 2, Work: 100})
	second := d.submit(bob, submission("y", 1))
	d.command(second, api.Pause)
	d.exited(exitOf(first, 1))
	journal := bytes.Join(d.tape.records, []byte("\n"))
	f.Add(journal, []byte{})
	f.Add(d.tape.records[0], journal)
	f.Add(bytes.ReplaceAll(journal, []byte(`"starts":1`), []byte(`"starts":-1`)), bytes.ReplaceAll(journal, []byte("x-1"), []byte("x--1")))
	f.Add(bytes.ReplaceAll(journal, []byte(`"node":0`), []byte(`"node":99`)), []byte(`{"event":{"kind":"job-submitted"}}`))
	f.Add([]byte{}, []byte(`{"event":{"kind":"job-submitted"}}`))
	f.Add([]byte{}, []byte(`{"epoch":{"id":"1"},"policy":"none"}`))
	f.Fuzz(func(t *testing.T, journal, found []byte) {
		j := newTape()
		for line := range bytes.Lines(journal) {
			j.records = append(j.records, bytes.TrimSpace(line))
		}
		cfg := config(j, &clock{now: time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)})
		for line := range bytes.Lines(found) {
			cfg.Found = append(cfg.Found, bytes.TrimSpace(line))
		}
		b, err := Open(t.Context(), cfg)
		if err != nil {
			return
		}
		b.Close()
		again, err := Open(t.Context(), config(j, &clock{now: time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)}))
		if err != nil {
			t.Fatalf("what was accepted cannot be read again: %v", err)
		}
		again.Close()
	})
}
