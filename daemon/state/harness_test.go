// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// tape is a journal in memory. It can fail, and it can make Append wait.
type tape struct {
	mu      sync.Mutex
	first   uint64 // of records
	records [][]byte
	snap    []byte
	upTo    uint64
	fail    error
	enter   chan struct{} // if not nil: told when an Append begins
	leave   chan struct{} // if not nil: waited for before it goes on
}

func newTape() *tape { return &tape{first: 1} }

var errDisk = errors.New("no space left on device")

func (j *tape) last() uint64 { return j.first + uint64(len(j.records)) - 1 }

func (j *tape) Append(_ context.Context, payloads ...[]byte) (uint64, error) {
	j.mu.Lock()
	enter, leave := j.enter, j.leave
	j.mu.Unlock()
	if enter != nil {
		enter <- struct{}{}
		<-leave
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return 0, j.fail
	}
	first := j.last() + 1
	for _, p := range payloads {
		j.records = append(j.records, bytes.Clone(p))
	}
	return first, nil
}

func (j *tape) Snapshot() ([]byte, uint64, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.snap), j.upTo, j.snap != nil
}

func (j *tape) ReadHot(from uint64, fn func(uint64, []byte) error) error {
	j.mu.Lock()
	first, records := j.first, j.records[:len(j.records):len(j.records)]
	j.mu.Unlock()
	for i, p := range records {
		if seq := first + uint64(i); seq >= from {
			if err := fn(seq, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *tape) Compact(snapshot []byte, upTo uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if upTo < j.upTo || upTo > j.last() {
		return fmt.Errorf("compact up to %d; want %d to %d", upTo, j.upTo, j.last())
	}
	if upTo >= j.first {
		j.records = j.records[upTo-j.first+1:]
		j.first = upTo + 1
	}
	j.snap, j.upTo = bytes.Clone(snapshot), upTo
	return nil
}

func (j *tape) setFail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail = err
}

// copyTape is what a crash would leave at this moment.
func (j *tape) copyTape() *tape {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &tape{first: j.first, records: append([][]byte(nil), j.records...), snap: bytes.Clone(j.snap), upTo: j.upTo}
}

// clock is a time that only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// desk is a state store with what a test needs around it.
type desk struct {
	*Store
	t     testing.TB
	tape  *tape
	clock *clock
}

var (
	admin = api.Identity{User: "root", Tenant: DefaultTenant, Role: api.Admin}
	ann   = api.Identity{User: "ann", Tenant: "blue", Role: api.User, Owner: api.Owner{Name: "ann", UID: 1001, GID: 1001}}
	bob   = api.Identity{User: "bob", Tenant: "red", Role: api.User}
	eve   = api.Identity{User: "eve", Tenant: "blue", Role: api.Viewer}
)

func config(j Journal, c *clock) Config {
	return Config{
		Journal: j, Node: sched.Node{Name: "box", GPUs: 4, Type: "h200"}, FixedNodes: true,
		Policies: policy.Builtin(), Standard: "fifo", Key: bytes.Repeat([]byte("k"), 32), Now: c.Now,
		Log: slog.New(slog.DiscardHandler),
	}
}

func open(t testing.TB, edit ...func(*Config)) *desk {
	t.Helper()
	return reopen(t, newTape(), &clock{now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}, edit...)
}

func reopen(t testing.TB, j *tape, c *clock, edit ...func(*Config)) *desk {
	t.Helper()
	cfg := config(j, c)
	for _, e := range edit {
		e(&cfg)
	}
	b, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return &desk{Store: b, t: t, tape: j, clock: c}
}

// submission is a job that may be stopped at any time.
func submission(name string, gpus int) api.Submission {
	s := plain(name, gpus)
	s.Preemptible = new(true)
	return s
}

// plain is a job of which nothing is known.
func plain(name string, gpus int) api.Submission {
	return api.Submission{Spec: sched.Spec{GPUs: gpus}, Task: api.Task{Name: name, Command: []string{"python3", "train.py"}}}
}

func (d *desk) submit(who api.Identity, s api.Submission) sched.JobID {
	d.t.Helper()
	jobs, err := d.Submit(d.t.Context(), who, []api.Submission{s})
	if err != nil {
		d.t.Fatal(err)
	}
	return jobs[0].ID
}

func (d *desk) command(id sched.JobID, c api.Command) {
	d.t.Helper()
	if _, err := d.Command(d.t.Context(), admin, id, c); err != nil {
		d.t.Fatal(err)
	}
}

// decide takes a snapshot and returns what a policy decides on it.
func (d *desk) decision(p sched.Policy) loop.Decision {
	d.t.Helper()
	s, err := d.Snapshot(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		d.t.Fatal(err)
	}
	return loop.Decision{Policy: "test", Snapshot: s, Actions: actions, Plan: plan}
}

func (d *desk) decide(p sched.Policy) {
	d.t.Helper()
	if err := d.Apply(d.t.Context(), d.decision(p)); err != nil {
		d.t.Fatal(err)
	}
}

// wants is a policy with a fixed plan.
type wants map[sched.JobID]sched.Placement

func (p wants) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		if at, ok := p[j.ID]; ok && (j.Phase == sched.Running || j.Ready(s.Now)) {
			plan.Want[i] = at
		} else {
			plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs}
		}
	}
	return plan
}

func on(gpus ...int) sched.Placement {
	var set sched.GPUSet
	for _, g := range gpus {
		set |= 1 << g
	}
	return sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: set}}
}

func (d *desk) exited(e api.Exit) {
	d.t.Helper()
	if err := d.Exited(d.t.Context(), e); err != nil {
		d.t.Fatal(err)
	}
}

func exitOf(id sched.JobID, number int) api.Exit {
	return api.Exit{AttemptID: api.AttemptID{Job: id, Number: number}}
}

func (d *desk) report(id sched.JobID, number int, r api.AgentReport) api.AgentAnswer {
	d.t.Helper()
	a, err := d.Report(d.t.Context(), d.secret(id, number), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// secret is that of the agent of an attempt.
func (d *desk) secret(id sched.JobID, number int) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	epoch := d.mem.epoch()
	if x := d.mem.jobs[id]; x != nil && x.StartEpoch != "" {
		epoch = x.StartEpoch
	}
	return secretOf(d.Key, api.AttemptID{Job: id, Number: number}, epoch)
}

func (d *desk) job(id sched.JobID) api.Job {
	d.t.Helper()
	j, err := d.Job(admin, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

// running returns the attempts that should run, with where.
func (d *desk) running() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	for _, a := range d.Attempts() {
		out[a.AttemptID.String()] = a.Placement[0].GPUs.String()
	}
	return out
}

func (d *desk) wantRunning(want map[string]string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.running()); diff != "" {
		d.t.Errorf("orders (-want +got):\n%s", diff)
	}
}

func (d *desk) wantState(id sched.JobID, want string) {
	d.t.Helper()
	if got := d.job(id).State; got != want {
		d.t.Errorf("job %s is %s; want %s", id, got, want)
	}
}

func wantCode(t testing.TB, what string, err error, want api.Code) {
	t.Helper()
	if err == nil || api.CodeOf(err) != want {
		t.Errorf("%s: error %v with code %s; want code %s", what, err, api.CodeOf(err), want)
	}
}

// dump is all that the state holds and shows, but for what no journal keeps.
func (d *desk) dump() map[string]any {
	d.t.Helper()
	d.mu.Lock()
	for _, x := range d.mem.jobs {
		x.reason = sched.Reason{}
	}
	clear(d.up)
	saved := d.mem.save()
	d.mu.Unlock()
	out := map[string]any{"saved": decoded(d.t, saved)}
	page, err := d.List(admin, api.JobFilter{Limit: api.MaxPage})
	if err != nil {
		d.t.Fatal(err)
	}
	out["jobs"] = decoded(d.t, page)
	for _, j := range page.Jobs[:min(len(page.Jobs), 15)] {
		e, err := d.Explain(admin, j.ID)
		if err != nil {
			d.t.Fatal(err)
		}
		out["explain "+string(j.ID)] = decoded(d.t, e)
	}
	tenants, _ := d.Tenants(admin)
	apps, _ := d.Apps(admin)
	nodes, _ := d.Nodes(admin)
	tokens, _ := d.Tokens(admin)
	for name, v := range map[string]any{"tenants": tenants, "apps": apps, "nodes": nodes, "tokens": tokens, "orders": d.Attempts()} {
		out[name] = decoded(d.t, v)
	}
	return out
}

// difference is cmp.Diff, but fast if there is none.
func difference(a, b map[string]any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b)
}

func decoded(t testing.TB, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return prune(out)
}

// prune drops null, empty lists and empty objects: a snapshot does not tell
// them from what is missing.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			switch e := prune(e).(type) {
			case nil:
				delete(v, k)
			case []any:
				if len(e) == 0 {
					delete(v, k)
				}
			case map[string]any:
				if len(e) == 0 {
					delete(v, k)
				}
			}
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

// wantDurable fails the test if a crash now would change anything.
func (d *desk) wantDurable() {
	d.t.Helper()
	after := reopen(d.t, d.tape.copyTape(), d.clock, func(c *Config) { c.Node = d.Node })
	defer after.Close()
	if diff := difference(d.dump(), after.dump()); diff != "" {
		d.t.Fatalf("after a crash (-before +after):\n%s", diff)
	}
}
