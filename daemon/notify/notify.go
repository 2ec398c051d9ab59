// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package notify tells people what happens to jobs: by webhooks, by Slack and what reads
// the same, and by mail.
//
// It reads the records that are durable already, beside the scheduler: a target that
// hangs or refuses delays nothing but its own notices. What is to be delivered, and how
// far it has read, is kept in a file: after a crash it goes on from there. So every notice
// arrives at least once, unless its target refuses it for a day or falls far behind.
package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// How long a target may refuse a notice, and how many may wait for one.
const (
	giveUp      = 24 * time.Hour
	mostPending = 1000
	firstRetry  = time.Second
	lastRetry   = 5 * time.Minute
	saveEvery   = time.Minute
)

// State is where notices come from. Package state implements it.
type State interface {
	// Notices returns what happened after a record, the last record there is, and a channel
	// that is closed when there is more.
	Notices(after uint64) (list []api.Notice, last uint64, more <-chan struct{})
}

// Options is what a notifier needs.
type Options struct {
	Config
	State State
	// Load returns what Save stored last; nil: nothing yet.
	Load func() ([]byte, error)
	Save func([]byte) error
	Now  func() time.Time
	Log  *slog.Logger
	// Retry is the wait after the first failure; 0: a second. It doubles with each.
	Retry time.Duration
}

// message is a notice on its way to a target.
type message struct {
	ID     string     `json:"id"`
	Target string     `json:"target"`
	Notice api.Notice `json:"notice"`
	Since  time.Time  `json:"since"` // when it was to be sent first
}

// kept is what survives a crash.
type kept struct {
	Seq     uint64     `json:"seq"` // of the last record that was looked at
	Pending []*message `json:"pending"`
}

// Notifier delivers notices. Make one with New.
type Notifier struct {
	Options
	senders map[string]sender
	wake    map[string]chan struct{}
	tallies map[string]*tally

	mu   sync.Mutex
	kept kept
}

// tally is how a target takes its notices. Its lock is not the notifier's, which is
// held while a file is written: who asks must not wait for the disk.
type tally struct {
	mu sync.Mutex
	api.Delivery
}

// New makes a notifier.
func New(o Options) *Notifier {
	n := &Notifier{Options: o, senders: map[string]sender{}, wake: map[string]chan struct{}{}, tallies: map[string]*tally{}}
	for _, t := range o.Targets {
		send, err := newSender(t, o.Sendmail, o.Now)
		if err != nil { // its files were there when the configuration was read
			o.Log.Error("a target of notices cannot be used", "target", t.Name, "err", err)
			send = func(context.Context, *message) error { return err }
		}
		n.senders[t.Name], n.wake[t.Name], n.tallies[t.Name] = send, make(chan struct{}, 1), &tally{Delivery: api.Delivery{Target: t.Name}}
	}
	return n
}

// Deliveries returns how the targets have taken their notices since the daemon started.
func (n *Notifier) Deliveries() []api.Delivery {
	var out []api.Delivery
	for _, t := range n.Targets {
		x := n.tallies[t.Name]
		x.mu.Lock()
		out = append(out, x.Delivery)
		x.mu.Unlock()
	}
	return out
}

// tried counts a delivery.
func (t *tally) tried(err error) {
	const most = 300
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Error = ""; err != nil {
		t.Failed++
		t.Error = fmt.Sprintf("%.*s", most, err)
	}
}

// lost counts a notice that is not delivered any more.
func (t *tally) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Lost++
}

// Run delivers notices until the context ends. It is called once.
func (n *Notifier) Run(ctx context.Context) error {
	n.load()
	var group sync.WaitGroup
	for _, t := range n.Targets {
		group.Go(func() { n.deliver(ctx, t.Name) })
	}
	n.read(ctx)
	group.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.save()
	return nil
}

// load reads what an earlier daemon left. Without that, the past is past.
func (n *Notifier) load() {
	_, last, _ := n.State.Notices(^uint64(0))
	n.kept.Seq = last
	text, err := n.Load()
	if err == nil && text == nil {
		n.save()
		return
	}
	if err == nil {
		err = json.Unmarshal(text, &n.kept)
	}
	if err != nil {
		n.Log.Error("pending notices cannot be read and are lost", "err", err)
		n.kept = kept{Seq: last}
	}
	n.kept.Seq = min(n.kept.Seq, last) // the journal may be another one
	n.kept.Pending = slices.DeleteFunc(n.kept.Pending, func(m *message) bool { return m == nil || n.senders[m.Target] == nil })
}

// read turns what happens into messages.
func (n *Notifier) read(ctx context.Context) {
	saved := n.Now()
	for {
		n.mu.Lock()
		list, last, more := n.State.Notices(n.kept.Seq)
		added := n.add(list)
		n.kept.Seq = last
		if added || n.Now().Sub(saved) > saveEvery {
			n.save()
			saved = n.Now()
		}
		n.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-more:
		}
	}
}

// add makes messages of notices.
func (n *Notifier) add(list []api.Notice) (added bool) {
	for _, notice := range list {
		for _, t := range n.Targets {
			if !t.wants(&notice) {
				continue
			}
			n.makeRoom(t.Name)
			n.kept.Pending = append(n.kept.Pending, &message{ID: fmt.Sprintf("%d-%s", notice.Seq, t.Name), Target: t.Name, Notice: notice, Since: n.Now()})
			added = true
			select {
			case n.wake[t.Name] <- struct{}{}:
			default:
			}
		}
	}
	return added
}

// makeRoom drops the oldest message of a target that has too many.
func (n *Notifier) makeRoom(target string) {
	count, first := 0, -1
	for i, m := range n.kept.Pending {
		if m.Target == target {
			if count++; first < 0 {
				first = i
			}
		}
	}
	if count >= mostPending {
		n.Log.Warn("a notice was dropped: too many wait for its target", "target", target, "job", n.kept.Pending[first].Notice.Job)
		n.tallies[target].lost()
		n.kept.Pending = slices.Delete(n.kept.Pending, first, first+1)
	}
}

// save writes down what is pending. If that fails, only a crash would lose it.
func (n *Notifier) save() {
	text, err := json.Marshal(n.kept)
	if err == nil {
		err = n.Save(text)
	}
	if err != nil {
		n.Log.Warn("save pending notices", "err", err)
	}
}

// next returns the oldest message for a target; nil: there is none.
func (n *Notifier) next(target string) *message {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.kept.Pending, func(m *message) bool { return m.Target == target }); i >= 0 {
		return n.kept.Pending[i]
	}
	return nil
}

// done forgets a message.
func (n *Notifier) done(m *message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept.Pending = slices.DeleteFunc(n.kept.Pending, func(o *message) bool { return o == m })
	n.save()
}

// deliver sends the messages of one target, in order, until the context ends.
func (n *Notifier) deliver(ctx context.Context, target string) {
	gap := n.firstGap()
	for ctx.Err() == nil {
		m := n.next(target)
		if m == nil {
			select {
			case <-ctx.Done():
			case <-n.wake[target]:
			}
			continue
		}
		err := n.send(ctx, m)
		if ctx.Err() != nil {
			return // it is sent again after the restart
		}
		n.tallies[target].tried(err)
		switch {
		case err == nil:
			n.done(m)
			gap = n.firstGap()
			continue
		case n.Now().Sub(m.Since) > giveUp:
			n.Log.Error("a notice could not be delivered and was given up", "target", target, "job", m.Notice.Job, "event", m.Notice.Event, "err", err)
			n.tallies[target].lost()
			n.done(m)
			continue
		}
		n.Log.Warn("deliver a notice", "target", target, "job", m.Notice.Job, "event", m.Notice.Event, "again_in", gap, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(gap):
		}
		gap = min(2*gap, lastRetry)
	}
}

func (n *Notifier) firstGap() time.Duration {
	if n.Retry > 0 {
		return n.Retry
	}
	return firstRetry
}

func (n *Notifier) send(ctx context.Context, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return n.senders[m.Target](ctx, m)
}
