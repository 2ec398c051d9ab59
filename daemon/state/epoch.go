// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// epoch is a stretch of the journal's life during which it lost nothing. A new
// journal begins one, and so does one that has lost records: from then on the
// names of lost jobs may be given again. Attempts, their folders and the secrets
// of their agents hold the epoch, so that nothing of a lost job passes for another's.
type epoch struct {
	ID   string `json:"id"`           // empty: version 0.1, which had none
	Seq  uint64 `json:"seq"`          // of its first record
	From int    `json:"from"`         // its jobs have numbers above this one
	To   int    `json:"to,omitempty"` // and up to this one, once it is over
}

// Mark is how far a journal has come. It is kept outside the journal and lags
// behind rather than ahead, so a journal that ends before it has lost records. With
// Jobs alone it only keeps numbers from being used again.
type Mark struct {
	Epoch  string   `json:"epoch"`
	Before []string `json:"before,omitempty"` // the epochs before it, at most markedEpochs, the oldest first
	Seq    uint64   `json:"seq"`
	Jobs   int      `json:"jobs"`
}

// markedEpochs is how many earlier epochs a mark names: more than a restore and a repair
// begin in a row.
const markedEpochs = 4

func (m *memory) mark() Mark {
	k := Mark{Epoch: m.epoch(), Seq: m.Seq, Jobs: m.Count}
	if n := len(m.Epochs); n > 1 {
		for _, e := range m.Epochs[max(0, n-1-markedEpochs) : n-1] {
			k.Before = append(k.Before, e.ID)
		}
	}
	return k
}

// epoch returns the current epoch.
func (m *memory) epoch() string {
	if n := len(m.Epochs); n > 0 {
		return m.Epochs[n-1].ID
	}
	return ""
}

func (m *memory) epochIndex(id string) int {
	return slices.IndexFunc(m.Epochs, func(e epoch) bool { return e.ID == id })
}

func (m *memory) beginEpoch(r *api.Record) {
	switch n := len(m.Epochs); {
	case n > 0:
		m.Epochs[n-1].To = m.Count
	case m.Count > 0:
		m.Epochs = append(m.Epochs, epoch{Seq: 1, To: m.Count})
	}
	m.Count = max(m.Count, r.Epoch.Jobs)
	m.Epochs = append(m.Epochs, epoch{ID: r.Epoch.ID, Seq: r.Seq, From: m.Count})
}

// behind says what the journal lacks that an earlier daemon has seen in it.
func (m *memory) behind(seen Mark) string {
	i := m.epochIndex(seen.Epoch)
	switch {
	case seen.Seq == 0:
		return ""
	case m.Seq == 0:
		return fmt.Sprintf("the journal is new, but the one before it had %d records, and job numbers up to %d", seen.Seq, seen.Jobs)
	case i < 0:
		return fmt.Sprintf("this is not the journal that was here: that one had %d records, and job numbers up to %d", seen.Seq, seen.Jobs)
	}
	last := m.Seq
	if i+1 < len(m.Epochs) {
		last = m.Epochs[i+1].Seq - 1
	}
	if seen.Seq <= last {
		return ""
	}
	return fmt.Sprintf("records %d to %d were missing at the start, which had been acknowledged", last+1, seen.Seq)
}

// lostEpochs returns the epochs of a mark that the journal has lost, with the records
// that began them: those after the last one that it has.
func (m *memory) lostEpochs(seen Mark) []string {
	all := append(slices.Clone(seen.Before), seen.Epoch)
	for i := len(all) - 1; i >= 0; i-- {
		if m.epochIndex(all[i]) >= 0 {
			return all[i+1:]
		}
	}
	return nil // it is another journal
}

// noteEpoch begins an epoch if the journal is new, older than epochs, or has lost
// records; before that, it brings back what was found behind the loss.
func (b *Store) noteEpoch(t *tx) error {
	t.actor = "machine"
	missing := t.mem.behind(b.Seen)
	// A write that was cut off damages the file, but loses nothing that was
	// acknowledged: the mark tells.
	lost := missing != "" || len(b.Found) > 0 || b.Lost != "" && b.Seen.Seq == 0
	text := missing
	if lost && b.Lost != "" {
		text = strings.TrimPrefix(text+"; "+b.Lost, "; ")
	}
	if len(b.Found) > 0 {
		text += "; " + t.salvage(b.Found).String()
	}
	// Without its epoch an attempt would be nobody's, and its job would start again.
	for _, id := range t.mem.lostEpochs(b.Seen) {
		if err := t.add(api.Record{Epoch: &api.Epoch{ID: id}, Text: "the journal has lost the beginning of this epoch"}); err != nil {
			return err
		}
	}
	r := api.Record{}
	if !t.mem.policyKept {
		r.Policy, r.Text = t.mem.Policy, "the policy of a new journal"
	}
	used := b.Seen.Seq == 0 && b.Seen.Jobs > t.mem.Count // by jobs that are not in the journal
	if lost || used || b.Lost != "" || len(t.mem.Epochs) == 0 {
		r.Epoch = NewEpoch(b.Seen.Jobs)
		r.Text = cmp.Or(r.Text, "a new epoch begins")
	}
	if r.Epoch != nil || r.Policy != "" {
		if err := t.add(r); err != nil {
			return err
		}
	}
	if !lost {
		return nil
	}
	b.Log.Error("the journal has lost records", "err", text)
	return t.add(api.Record{Damage: &api.Damage{At: t.now, Text: text}, Text: text})
}

// NewEpoch makes an epoch; its jobs have numbers above the one given.
func NewEpoch(jobs int) *api.Epoch {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return &api.Epoch{ID: hex.EncodeToString(id[:]), Jobs: jobs}
}

// JobNumber returns the number at the end of a job's name; 0 if it has none. The jobs
// of an array have that of the array.
func JobNumber(id sched.JobID) int {
	name, _, _ := strings.Cut(string(id), "_")
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return max(n, 0)
}

// owns reports whether an attempt of an epoch is one that the journal knows, or
// knew and has forgotten since. Number 0 stands for the job itself.
func (b *Store) owns(id api.AttemptID, epoch string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.mem.owns(id, epoch)
}

func (m *memory) owns(id api.AttemptID, epoch string) bool {
	i := m.epochIndex(epoch)
	if i < 0 {
		return false
	}
	x := m.jobs[id.Job]
	if x == nil {
		to := m.Epochs[i].To
		if i == len(m.Epochs)-1 {
			to = m.Count
		}
		n := JobNumber(id.Job)
		return m.Epochs[i].From < n && n <= to
	}
	switch {
	case i < m.epochIndex(x.Epoch):
		return false
	case id.Number > 0 && id.Number == x.Job.Starts:
		return epoch == x.StartEpoch
	}
	return id.Number < x.Job.Starts || id.Number == 0
}

// Claim reports whether an attempt that an executor found is the journal's. One of
// a known job that lies beyond its last start is taken over: the journal has lost
// the record. Number 0 asks about the job. Everything else must be set aside.
func (b *Store) Claim(ctx context.Context, a api.Attempt) (bool, error) {
	if b.owns(a.AttemptID, a.Epoch) {
		return true, nil
	}
	mine := false
	err := b.commit(ctx, func(t *tx) error {
		t.actor, t.decides = "machine", true
		var err error
		mine, err = t.claim(a)
		return err
	})
	return mine && err == nil, err
}

func (t *tx) claim(a api.Attempt) (bool, error) {
	m := t.mem
	x, i := m.jobs[a.Job], m.epochIndex(a.Epoch)
	if n := JobNumber(a.Job); x == nil && i == len(m.Epochs)-1 && n > m.Count {
		// The journal has lost the job without a trace: its number must not be used again.
		return false, t.add(api.Record{Epoch: NewEpoch(n), Text: fmt.Sprintf("a new epoch begins: %s is not in the journal", a.Job)})
	}
	switch {
	case x == nil || i < m.epochIndex(x.Epoch) || a.Number <= x.Job.Starts:
		return false, nil
	case x.Job.Phase.Ended():
		return true, nil // it has ended without the records of its attempts
	case len(a.Placement) == 0:
		return false, nil
	}
	for _, s := range a.Placement {
		if int(s.Node) >= len(m.state.Cluster().Nodes) {
			return false, nil
		}
	}
	if x.Hold {
		if err := t.submitHeld(x); err != nil { // that record is lost too
			return false, err
		}
	}
	why := fmt.Sprintf("attempt %d was found, of which the journal has no record", a.Number)
	if err := t.displace(a); err != nil {
		return false, err
	}
	for x.Job.Starts < a.Number {
		if x.Job.Phase == sched.Running {
			if err := t.event(sched.Event{Kind: sched.JobHeld, Job: a.Job, Until: t.now, Text: why}); err != nil {
				return false, err
			}
		}
		start := sched.Event{Kind: sched.JobStarted, Job: a.Job, Placement: a.Placement, Screening: a.Screening}
		if err := t.add(api.Record{Event: &start, Text: why, Epoch: &api.Epoch{ID: a.Epoch}, Plan: a.Plan}); err != nil {
			return false, err
		}
	}
	if a.Suspended {
		return true, t.event(sched.Event{Kind: sched.JobHeld, Job: a.Job, Until: t.now, Paused: x.Job.Paused, Suspend: true, Text: why + "; it is suspended"})
	}
	return true, nil
}
