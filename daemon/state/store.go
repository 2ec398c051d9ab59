// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// Journal stores records. Package store implements it.
type Journal interface {
	// Append makes payloads durable, all or none, and returns the sequence number
	// of the first. Numbers have no gaps.
	Append(ctx context.Context, payloads ...[]byte) (first uint64, err error)
	// Snapshot returns the last snapshot and the number of the last record it
	// replaces; ok is false if there is none.
	Snapshot() (payload []byte, upTo uint64, ok bool)
	// ReadHot calls fn for every record from a number on that is not older than the
	// snapshot.
	ReadHot(from uint64, fn func(seq uint64, payload []byte) error) error
	// Compact stores a snapshot that replaces all records up to a number.
	Compact(snapshot []byte, upTo uint64) error
}

// Config is what a state store needs.
type Config struct {
	Journal Journal
	Node    sched.Node // the machine as it is now; no name: nodes come by SetNodes
	// FixedNodes says that no node joins or grows: a job that can never run on those
	// there are is refused.
	FixedNodes bool
	// Levels are the levels of the topology that jobs may name; nil: those that every
	// cluster has.
	Levels   []string
	Policies policy.Registry // that can be asked for
	Standard string          // the policy of a new journal
	Guard    guard.Config    // what reviews the policy's plans, for forecasts
	Key      []byte          // for the secrets of agents: 32 random bytes that stay the same
	Secrets  SecretKeeper    // of jobs; nil: none are kept
	Pool     *experience.Pool
	Now      func() time.Time
	// Elapsed is a clock that nobody sets; nil: that of Now, which has one if it is
	// time.Now.
	Elapsed func() time.Duration
	Log     *slog.Logger
	// Seen is how far the journal had come when an earlier daemon wrote it down, and
	// Mark writes it down: after each change, when it is durable. Mark may be nil.
	Seen Mark
	Mark func(Mark)
	// Lost says what is wrong with the journal as it was found; empty: nothing. Found
	// are the records that are intact behind a gap in it.
	Lost  string
	Found [][]byte
	// Gather is how long a change waits for others to share its write to the journal, where
	// a write costs more than this wait; 0: not at all.
	Gather time.Duration
	// Keep is the number of ended jobs that stay in memory; 0: 5,000.
	Keep int
	// CompactEvery is the number of records after which the journal is compacted;
	// 0: 20,000.
	CompactEvery int
	// MaxQueue bounds the jobs that are pending or running; 0: 100,000.
	MaxQueue int
	// MaxQueueBytes bounds the memory of these jobs, and that of the ended ones that
	// are kept; 0: 256 MiB.
	MaxQueueBytes int64
	// NoSuspend is why jobs cannot be suspended on the machine; empty: they can. NoSuspendOn
	// is why not on other nodes; may be nil.
	NoSuspend   string
	NoSuspendOn func(node string) string
	// Use returns the last measured use of the machine's GPUs; nil, or a nil entry:
	// not measured.
	Use func() []*api.GPUUse
	// Warm returns what waits on the node to start jobs quickly; nil: nothing does.
	Warm func() *api.Warm
	// Joined reports whether the processes of an attempt have found each other; ok is
	// false if that cannot be told. May be nil.
	Joined func(api.AttemptID) (joined, ok bool)
	// Paused returns why the executor starts nothing now; empty: it starts. May be
	// nil.
	Paused func() string
	// Lookup finds the operating-system user that a token's jobs run as; nil: a
	// token that names one is refused.
	Lookup func(name string) (api.Owner, error)
	// OwnersOnly refuses jobs of users without an operating-system user: under a
	// root daemon they would run as root.
	OwnersOnly bool
	// CheckSearch returns what is wrong with a search beyond its fields; nil: no
	// such check.
	CheckSearch func(api.SearchSpec) error
	// CheckBidder returns what is wrong with a bidder's address; nil: bidders are
	// not allowed.
	CheckBidder func(url string) error
	// CheckNotify returns what is wrong with a target that a job names; nil: nobody can be
	// notified.
	CheckNotify func(target string) error
	// Containers is what runs the jobs with an image on the machine; empty: nothing does, for
	// the reason NoContainers. Both are empty where a cluster runs them.
	Containers   string
	NoContainers string
	// DescribeLabel says for a person what a node must have to get a label; nil, or
	// an empty text: the label says it itself.
	DescribeLabel func(label string) string
	// Failures is the table that classifies failures; nil: every failure is retried
	// as often as its job allows.
	Failures *diagnose.Table
	// Screen is how long a new gang is screened, where the policy screens; 0: not at
	// all.
	Screen time.Duration
	// Recall teaches the pool at the start what the jobs of the journal measured, if
	// nothing else stores the pool.
	Recall bool
	// Price is what an hour of a GPU costs, for reports; zero: not set.
	Price api.Price
	// Learned is called after the pool has learned from a job; may be nil.
	Learned func()
}

// Store is the state of one machine or cluster. It is safe for concurrent use.
type Store struct {
	Config
	changes  chan change
	changed  chan struct{} // something a policy may care about
	ordered  chan struct{} // what should run has changed
	searched chan struct{} // an open search has changed
	closed   chan struct{}

	mu     sync.RWMutex
	mem    *memory
	policy sched.Policy // built from mem.Policy; used by the loop alone
	orders map[sched.JobID]*ordered
	up     map[api.AttemptID]bool // attempts whose processes are up, as the executor reports
	feed   feed
	past   history
	stats  stats
	seen   struct { // by the loop: its last snapshot, and the last record in it
		snapshot *sched.Snapshot
		seq      uint64
	}
	foresight foresight
	keeper    timekeeper

	sinceC int // records since the last compaction
	busyC  bool

	compaction sync.WaitGroup
}

// stats is what Overview shows besides the memory.
type stats struct {
	started time.Time
	lastMS  float64
	problem map[string]string // by the part that has it
}

// change is a request to change the state.
type change struct {
	do   func(*tx) error
	done chan error
}

// Open reads the journal and records the machine as it is now.
func Open(ctx context.Context, c Config) (*Store, error) {
	c.Keep = orDefault(c.Keep, 5_000)
	c.CompactEvery = orDefault(c.CompactEvery, 20_000)
	c.MaxQueue = orDefault(c.MaxQueue, 100_000)
	c.MaxQueueBytes = orDefault(c.MaxQueueBytes, 256<<20)
	if c.Pool == nil {
		c.Pool = experience.New()
	}
	if c.Elapsed == nil {
		began := c.Now()
		c.Elapsed = func() time.Duration { return c.Now().Sub(began) }
	}
	b := &Store{
		Config:   c,
		changes:  make(chan change, 1024),
		changed:  make(chan struct{}, 1),
		ordered:  make(chan struct{}, 1),
		searched: make(chan struct{}, 1),
		closed:   make(chan struct{}),
		up:       map[api.AttemptID]bool{},
		stats:    stats{started: c.Now().UTC(), problem: map[string]string{}},
	}
	if err := b.reload(); err != nil {
		return nil, err
	}
	if b.Recall {
		for _, x := range b.mem.Ended {
			b.learn(x)
		}
	}
	go b.committer()
	err := b.commit(ctx, b.noteEpoch)
	if err == nil {
		err = b.commit(ctx, b.noteMachine)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("record the machine: %w", err)
	}
	return b, nil
}

func orDefault[T int | int64](n, standard T) T {
	if n == 0 {
		return standard
	}
	return n
}

// Close ends the committer and waits for a running compaction. The caller closes
// the journal.
func (b *Store) Close() {
	select {
	case b.changes <- change{done: make(chan error, 1)}:
		<-b.closed
	case <-b.closed:
	}
	b.compaction.Wait()
}

// reload rebuilds the memory from the journal.
func (b *Store) reload() error {
	m := newMemory(b.Keep, b.MaxQueueBytes)
	var upTo uint64
	if payload, seq, ok := b.Journal.Snapshot(); ok {
		var err error
		if m, err = restore(payload, b.Keep, b.MaxQueueBytes); err != nil {
			return fmt.Errorf("read snapshot up to record %d: %w", seq, err)
		}
		upTo = seq
	}
	m.Seq = upTo
	var last []api.Record
	var sizes []int
	err := b.Journal.ReadHot(upTo+1, func(seq uint64, payload []byte) error {
		var r api.Record
		if err := json.Unmarshal(payload, &r); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		r.Seq = seq
		if err := m.apply(&r); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		last, sizes = append(last, r), append(sizes, len(payload))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if m.Policy == "" {
		m.Policy = b.Standard
	}
	p, err := b.buildPolicy(m.Policy)
	if err != nil {
		return fmt.Errorf("the journal names a policy that is not available: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mem, b.policy = m, p
	b.feed.restart(last, sizes, m.Seq)
	b.orders = m.attempts(b.Key)
	b.sinceC = len(last)
	signal(b.changed)
	signal(b.ordered)
	signal(b.searched)
	return nil
}

// tx is one change in progress.
type tx struct {
	store   *Store
	mem     *memory
	now     time.Time
	actor   string
	records []api.Record
	// decides is true if a policy may care about the change.
	decides bool
	like    func() *alike // the jobs that a new one may be like
}

// add applies a record to the memory and adds it to the batch.
func (t *tx) add(r api.Record) error {
	r.Seq, r.At = t.mem.Seq+1, t.now
	if r.Actor == "" {
		r.Actor = t.actor
	}
	if r.Event != nil && r.Event.At.IsZero() {
		r.Event.At = t.now
	}
	if err := t.mem.apply(&r); err != nil {
		return err
	}
	t.records = append(t.records, r)
	return nil
}

// event is add for a record that is only an event.
func (t *tx) event(e sched.Event) error { return t.add(api.Record{Event: &e, Text: e.Text}) }

// commit runs a change and returns when it is durable.
func (b *Store) commit(ctx context.Context, do func(*tx) error) error {
	c := change{do: do, done: make(chan error, 1)}
	select {
	case b.changes <- c:
	case <-ctx.Done():
		return api.Errorf(api.Unavailable, "the request was abandoned: %w", ctx.Err())
	case <-b.closed:
		return api.Errorf(api.Unavailable, "the daemon is stopping").Try("try again when it is back")
	}
	// The change is running: the caller must learn its result.
	select {
	case err := <-c.done:
		return err
	case <-b.closed:
		select {
		case err := <-c.done: // it was in the last batch
			return err
		default:
		}
		return api.Errorf(api.Unavailable, "the daemon is stopping").Try("try again when it is back")
	}
}

// maxBatch bounds the changes that share one sync to the disk.
const maxBatch = 512

// committer runs changes in order.
func (b *Store) committer() {
	for {
		batch := []change{<-b.changes}
		if b.Gather > 0 {
			time.Sleep(b.Gather)
		}
		for len(batch) < maxBatch {
			select {
			case c := <-b.changes:
				batch = append(batch, c)
				continue
			default:
			}
			break
		}
		for i, c := range batch {
			if c.do == nil { // Close
				b.commitBatch(batch[:i])
				close(b.closed)
				c.done <- nil
				return
			}
		}
		b.commitBatch(batch)
	}
}

func (b *Store) commitBatch(batch []change) {
	errs, records, decides, broken := b.applyBatch(batch)
	var err error
	var sizes []int
	if len(records) > 0 && broken == nil {
		sizes, err = b.write(records)
	}
	if err != nil || broken != nil {
		b.recover(cmp.Or(err, broken))
	} else if len(records) > 0 {
		b.publish(records, sizes, decides)
	}
	for i, c := range batch {
		switch {
		case broken != nil:
			c.done <- broken
		case errs[i] != nil:
			c.done <- errs[i]
		default:
			c.done <- err
		}
	}
	b.maybeCompact()
}

// applyBatch runs the changes against the memory. broken is true if a change
// failed after it added records: the memory is then invalid.
func (b *Store) applyBatch(batch []change) (errs []error, records []api.Record, decides bool, broken error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs = make([]error, len(batch))
	like := sync.OnceValue(b.mem.alike) // once for all that are submitted together
	for i, c := range batch {
		t := &tx{store: b, mem: b.mem, now: b.now(), like: like}
		if errs[i] = c.do(t); errs[i] == nil {
			errs[i] = t.release()
		}
		if errs[i] != nil && len(t.records) > 0 {
			return errs, nil, false, fmt.Errorf("a change was only partly applied: %w", errs[i])
		}
		records = append(records, t.records...)
		decides = decides || t.decides
	}
	return errs, records, decides, nil
}

// write makes records durable and returns how many bytes each has.
func (b *Store) write(records []api.Record) (sizes []int, err error) {
	payloads := make([][]byte, len(records))
	sizes = make([]int, len(records))
	for i := range records {
		p, err := json.Marshal(&records[i])
		if err != nil {
			return nil, api.Errorf(api.Internal, "encode record %d: %w", records[i].Seq, err)
		}
		payloads[i], sizes[i] = p, len(p)
	}
	first, err := b.Journal.Append(context.Background(), payloads...)
	if err != nil {
		return nil, api.Errorf(api.Unavailable, "cannot write the journal: %w", err).Try("nothing was changed; `fairway status` shows when it works again")
	}
	if first != records[0].Seq {
		return nil, api.Errorf(api.Internal, "the journal gave number %d to record %d", first, records[0].Seq)
	}
	return sizes, nil
}

// recover goes back to the state in the journal.
func (b *Store) recover(cause error) {
	b.Log.Error("commit to the journal", "err", cause)
	problem := cause
	if e, ok := cause.(*api.Error); ok && e.Err != nil {
		problem = e.Err // without the words for the caller
	}
	b.SetProblem("journal", problem.Error())
	for {
		err := b.reload()
		if err == nil {
			return
		}
		b.Log.Error("reload the journal", "err", err)
		time.Sleep(time.Second)
	}
}

// publish shows what is durable to all readers.
func (b *Store) publish(records []api.Record, sizes []int, decides bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.stats.problem, "journal")
	if b.Mark != nil {
		b.Mark(b.mem.mark())
	}
	b.feed.add(records, sizes)
	b.sinceC += len(records)
	reordered := false
	for i := range records {
		reordered = b.reorder(&records[i]) || reordered
	}
	if reordered {
		signal(b.ordered)
	}
	if decides {
		signal(b.changed)
	}
	if len(b.mem.Searches) > 0 {
		signal(b.searched)
	}
}

// SetProblem sets what keeps a part of the daemon from working; an empty text
// clears it.
func (b *Store) SetProblem(part, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text == "" {
		delete(b.stats.problem, part)
		return
	}
	b.stats.problem[part] = text
}

// signal makes sure that a channel of size one holds a value.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
