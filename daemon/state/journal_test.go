// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// hold makes the next Appends of the tape wait for release.
func (j *tape) hold() (entered <-chan struct{}, release func(error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	enter, leave := make(chan struct{}), make(chan struct{})
	j.enter, j.leave = enter, leave
	return enter, func(err error) {
		j.mu.Lock()
		j.enter, j.leave, j.fail = nil, nil, err
		j.mu.Unlock()
		leave <- struct{}{}
	}
}

// TestOrdersAreDurable: nothing is acted on or acknowledged before the journal
// has it.
func TestOrdersAreDurable(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 1))
	<-d.Ordered()
	entered, release := d.tape.hold()
	decision := d.decision(wants{id: on(0)})
	done := make(chan error, 1)
	go func() { done <- d.Apply(context.Background(), decision) }()
	<-entered
	d.wantRunning(map[string]string{})
	select {
	case err := <-done:
		t.Errorf("Apply returned %v before the journal had it", err)
	case <-d.Ordered():
		t.Error("Ordered yields before the journal has the order")
	default:
	}
	page, _ := d.Records(admin, api.RecordFilter{Kind: "job-started"})
	if len(page.Records) != 0 {
		t.Errorf("the feed shows %v before the journal has it", page.Records)
	}
	release(nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-d.Ordered()
	d.wantRunning(map[string]string{"x-1.1": "0"})
}

// TestReadsAreDurable: nobody sees a change before the journal has it, and nobody
// ever sees one that the journal refuses.
func TestReadsAreDurable(t *testing.T) {
	for name, fails := range map[string]error{"written": nil, "refused": errDisk} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			id := d.submit(ann, submission("x", 1))
			d.decide(wants{id: on(0)})
			entered, release := d.tape.hold()
			cancelled := make(chan error, 1)
			go func() { _, err := d.Command(context.Background(), ann, id, api.Cancel); cancelled <- err }()
			<-entered
			ended := func(yes bool) string {
				if yes {
					return api.Cancelled
				}
				return api.Starting
			}
			readers := []func() string{
				func() string { j, _ := d.Job(ann, id); return j.State },
				func() string { p, _ := d.List(ann, api.JobFilter{}); return p.Jobs[0].State },
				func() string { e, _ := d.Explain(ann, id); return e.Job.State },
				func() string { a, _ := d.Apps(ann); return ended(a[0].Killed == 1) },
				func() string { n, _ := d.Nodes(ann); return ended(len(n[0].Slots[0].Jobs) == 0) },
				func() string { l, _ := d.Tenants(ann); return ended(l[0].Running == 0) },
			}
			seen := make(chan string, len(readers))
			for _, read := range readers {
				go func() { seen <- read() }()
			}
			select {
			case state := <-seen:
				t.Errorf("a reader sees %s before the journal has it", state)
				seen <- state
			case <-time.After(50 * time.Millisecond):
			}
			release(fails)
			want := api.Cancelled
			if err := <-cancelled; err != nil {
				want = api.Starting
			}
			for range readers {
				if state := <-seen; state != want {
					t.Errorf("a reader sees %s; want %s", state, want)
				}
			}
		})
	}
}

// TestJournalFails: every change fails with an error, leaves things as they are,
// and works again when the journal does.
func TestJournalFails(t *testing.T) {
	d := open(t)
	x, y := d.submit(ann, submission("x", 1)), d.submit(ann, submission("y", 1))
	d.decide(wants{x: on(0)})
	before := d.dump()
	ctx := context.Background()
	changes := map[string]func() error{
		"Submit":  func() error { _, err := d.Submit(ctx, ann, []api.Submission{submission("z", 1)}); return err },
		"Command": func() error { _, err := d.Command(ctx, ann, x, api.Cancel); return err },
		"Exited":  func() error { return d.Exited(ctx, exitOf(x, 1)) },
		"Apply":   func() error { return d.Apply(ctx, d.decision(wants{y: on(0)})) },
		"Report": func() error {
			_, err := d.Report(ctx, d.secret(x, 1), api.AgentReport{Done: 9, Checkpoint: true})
			return err
		},
		"SetPolicy": func() error { _, err := d.SetPolicy(ctx, admin, "las", false); return err },
		"SetNode":   func() error { _, err := d.SetNode(ctx, admin, "box", sched.Cordoned); return err },
		"SetTenant": func() error { _, err := d.SetTenant(ctx, admin, sched.Tenant{ID: "blue", Quota: 1}); return err },
		"CreateToken": func() error {
			_, _, err := d.CreateToken(ctx, admin, api.Token{User: "u", Role: api.User})
			return err
		},
	}
	d.tape.setFail(errDisk)
	for name, change := range changes {
		err := change()
		wantCode(t, name, err, api.Unavailable)
		if !errors.Is(err, errDisk) {
			t.Errorf("%s: error %v hides its cause", name, err)
		}
		if diff := difference(before, d.dump()); diff != "" {
			t.Fatalf("%s failed, but (-before +after):\n%s", name, diff)
		}
		if _, spec := d.InForce(); spec != "fifo" {
			t.Errorf("%s failed, but the policy is %s", name, spec)
		}
	}
	if o, _ := d.Overview(admin); o.Problem == "" {
		t.Error("the overview does not say that the journal fails")
	}
	d.tape.setFail(nil)
	for _, name := range []string{"Report", "SetTenant", "SetPolicy", "CreateToken", "Submit", "Exited"} {
		if err := changes[name](); err != nil {
			t.Errorf("%s after the disk was freed: %v", name, err)
		}
	}
	if o, _ := d.Overview(admin); o.Problem != "" {
		t.Errorf("the overview still says %q", o.Problem)
	}
	d.wantState(x, api.Finished)
	d.wantDurable()
}

// TestDecisionOnWhatNeverWas: a decision made while an exit was being written,
// on a snapshot without the job, must not give its GPUs away when the write
// fails.
func TestDecisionOnWhatNeverWas(t *testing.T) {
	d := open(t)
	x, y := d.submit(ann, submission("x", 1)), d.submit(ann, submission("y", 1))
	d.decide(wants{x: on(0)})
	entered, release := d.tape.hold()
	exited := make(chan error, 1)
	go func() { exited <- d.Exited(context.Background(), exitOf(x, 1)) }()
	<-entered
	decision := d.decision(wants{y: on(0)}) // x has ended, as far as the memory goes
	release(errDisk)
	wantCode(t, "Exited", <-exited, api.Unavailable)
	d.tape.setFail(nil)
	if err := d.Apply(t.Context(), decision); err != nil {
		t.Fatal(err)
	}
	d.wantRunning(map[string]string{"x-1.1": "0"})
	d.wantDurable()
}

// TestStaleDecisions: what no longer makes sense is left out, the rest is done.
func TestStaleDecisions(t *testing.T) {
	tests := []struct {
		name   string
		plan   wants
		change func(*desk)
		want   map[string]string
	}{
		{"nothing changed", wants{"b-2": on(0), "c-3": on(2)}, func(*desk) {}, map[string]string{"b-2.1": "0", "c-3.1": "2"}},
		{"the victim finished", wants{"b-2": on(0), "c-3": on(2)}, func(d *desk) { d.exited(exitOf("a-1", 1)) }, map[string]string{"b-2.1": "0", "c-3.1": "2"}},
		{"the taker was cancelled", wants{"b-2": on(0), "c-3": on(2)}, func(d *desk) { d.command("b-2", api.Cancel) }, map[string]string{"c-3.1": "2"}},
		{"the taker was paused", wants{"b-2": on(0), "c-3": on(2)}, func(d *desk) { d.command("b-2", api.Pause) }, map[string]string{"c-3.1": "2"}},
		{"the node was cordoned", wants{"a-1": on(0), "b-2": on(1)}, func(d *desk) {
			if _, err := d.SetNode(d.t.Context(), admin, "box", sched.Cordoned); err != nil {
				d.t.Fatal(err)
			}
		}, map[string]string{"a-1.1": "0"}},
		{"the node was cordoned: a job that was to move stays", wants{"a-1": on(3)}, func(d *desk) {
			if _, err := d.SetNode(d.t.Context(), admin, "box", sched.Cordoned); err != nil {
				d.t.Fatal(err)
			}
		}, map[string]string{"a-1.1": "0"}},
		{"the job was moved by another decision", wants{"a-1": on(3)}, func(d *desk) { d.decide(wants{"a-1": on(1)}) }, map[string]string{"a-1.2": "1"}},
		{"the GPU was given away by another decision", wants{"a-1": on(0), "b-2": on(1)}, func(d *desk) { d.decide(wants{"a-1": on(0), "c-3": on(1)}) }, map[string]string{"a-1.1": "0", "c-3.1": "1"}},
		{"paused and resumed", wants{"a-1": on(3)}, func(d *desk) { d.command("a-1", api.Pause); d.command("a-1", api.Resume) }, map[string]string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t)
			for _, name := range []string{"a", "b", "c"} {
				d.submit(ann, submission(name, 1))
			}
			d.decide(wants{"a-1": on(0)})
			d.clock.add(time.Second)
			decision := d.decision(test.plan)
			d.clock.add(time.Second)
			test.change(d)
			for range 2 { // the same again changes nothing
				if err := d.Apply(t.Context(), decision); err != nil {
					t.Fatal(err)
				}
				d.wantRunning(test.want)
			}
			d.wantDurable()
		})
	}
}

// TestSnapshotStays: a snapshot does not change while the world goes on.
func TestSnapshotStays(t *testing.T) {
	d := open(t)
	x := d.submit(ann, submission("x", 1))
	d.submit(ann, submission("y", 1))
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v %+v %v", *s.Jobs[0], *s.Jobs[1], len(s.Jobs))
	d.clock.add(time.Second)
	d.decide(wants{x: on(0)})
	d.report(x, 1, api.AgentReport{Done: 4, Rate: 1})
	d.command("y-2", api.Cancel)
	if got := fmt.Sprintf("%+v %+v %v", *s.Jobs[0], *s.Jobs[1], len(s.Jobs)); got != before {
		t.Errorf("the snapshot has changed from\n%s to\n%s", before, got)
	}
}

// TestCompactWhileWriting: a snapshot never holds what the journal refused.
func TestCompactWhileWriting(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	entered, release := d.tape.hold()
	submitted, compacted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := d.Submit(context.Background(), ann, []api.Submission{submission("ghost", 1)})
		submitted <- err
	}()
	<-entered
	go func() { compacted <- d.Compact(context.Background()) }()
	time.Sleep(5 * time.Millisecond) // let it look at the memory, if it does that
	release(errDisk)
	wantCode(t, "Submit", <-submitted, api.Unavailable)
	d.tape.setFail(nil)
	<-compacted // whether it worked or was refused
	d.submit(ann, submission("real", 1))
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, _ := reopen(t, d.tape.copyTape(), d.clock).List(admin, api.JobFilter{Search: "ghost"})
	if page.Total != 0 {
		t.Error("a job that was refused is in the snapshot")
	}
	d.wantDurable()
}

func TestCompactsByItself(t *testing.T) {
	d := open(t, func(c *Config) { c.CompactEvery = 10 })
	for range 35 {
		d.submit(ann, submission("x", 1))
	}
	d.Close()
	if _, upTo, ok := d.tape.Snapshot(); !ok || upTo < 10 {
		t.Errorf("snapshot up to %d, %t; want one", upTo, ok)
	}
	d.wantDurable()
}

func TestForgetsOldJobs(t *testing.T) {
	d := open(t, func(c *Config) { c.Keep = 10 })
	open1 := d.submit(ann, submission("held", 1))
	d.decide(wants{open1: on(0)})
	d.command(open1, api.Cancel) // its processes are not known to be gone
	s := submission("x", 1)
	s.Key = "first"
	first := d.submit(ann, s)
	d.command(first, api.Cancel)
	for range 300 {
		d.command(d.submit(ann, submission("x", 1)), api.Cancel)
	}
	if _, err := d.Job(admin, open1); err != nil {
		t.Errorf("the job with an open attempt is forgotten: %v", err)
	}
	if _, err := d.Job(admin, first); err == nil {
		t.Error("the oldest ended job is still there")
	}
	o, _ := d.Overview(admin)
	if o.Cancelled != 302 {
		t.Errorf("%d killed; want 302, also those forgotten", o.Cancelled)
	}
}

func TestMachineChanges(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("a", 1))
	d.submit(ann, submission("b", 1))
	d.decide(wants{"a-1": on(0), "b-2": on(3)})
	named := func(name string, gpus int) func(*Config) {
		return func(c *Config) { c.Node.Name, c.Node.GPUs = name, gpus }
	}
	// A GPU less: the job on it waits, the other runs on.
	small := reopen(t, d.tape.copyTape(), d.clock, named("box", 2))
	small.wantRunning(map[string]string{"a-1.1": "0"})
	small.wantState("b-2", api.Stopping)
	// Another name: nothing of the old machine runs.
	renamed := reopen(t, d.tape.copyTape(), d.clock, named("crate", 4))
	renamed.wantRunning(map[string]string{})
	if nodes, _ := renamed.Nodes(admin); len(nodes) != 1 || nodes[0].Name != "crate" {
		t.Errorf("nodes %+v; want crate alone", nodes)
	}
	// And back.
	back := reopen(t, renamed.tape.copyTape(), d.clock, named("box", 4))
	nodes, _ := back.Nodes(admin)
	if len(nodes) != 1 || nodes[0].Name != "box" || nodes[0].State != sched.Ready {
		t.Errorf("nodes %+v; want box alone, ready", nodes)
	}
	p, _ := back.InForce()
	back.decide(p)
	back.wantRunning(map[string]string{"a-1.2": "0", "b-2.2": "1"})
	// A cordon stays over a restart.
	if _, err := back.SetNode(t.Context(), admin, "box", sched.Cordoned); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, back.tape.copyTape(), d.clock, named("box", 4))
	if nodes, _ := again.Nodes(admin); nodes[0].State != sched.Cordoned {
		t.Errorf("node %+v after a restart; want cordoned", nodes[0])
	}
}

// TestClockBackwards: records never go back in time, and nothing breaks.
func TestClockBackwards(t *testing.T) {
	d := open(t)
	x := d.submit(ann, submission("x", 1))
	d.decide(wants{x: on(0)})
	d.clock.add(-time.Hour)
	d.report(x, 1, api.AgentReport{Done: 5, Rate: 1, Checkpoint: true})
	d.submit(ann, submission("y", 1))
	d.decide(wants{x: on(0), "y-2": on(1)})
	e := exitOf(x, 1)
	e.At = d.clock.Now().Add(3 * time.Hour) // the executor's clock is no better
	d.exited(e)
	d.wantState(x, api.Finished)
	if got := d.job(x).Status; got.Ran < 0 || got.Waited < 0 || got.GPUSeconds < 0 {
		t.Errorf("status %+v has negative times", got)
	}
	page, _ := d.Records(admin, api.RecordFilter{})
	for i := 1; i < len(page.Records); i++ {
		if page.Records[i].At.Before(page.Records[i-1].At) {
			t.Errorf("record %d at %s is before the one before it", page.Records[i].Seq, page.Records[i].At)
		}
	}
	d.wantDurable()
	again := reopen(t, d.tape.copyTape(), d.clock)
	again.wantState("y-2", api.Starting)
	// Time goes on: a back-off of seconds must not take until the clock has caught up.
	for _, d := range []*desk{d, again} {
		before, _ := d.Overview(admin)
		d.clock.add(10 * time.Second)
		if after, _ := d.Overview(admin); after.Now.Sub(before.Now) != 10*time.Second {
			t.Errorf("10 s after %s it is %s", before.Now, after.Now)
		}
	}
}

func TestClose(t *testing.T) {
	d := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	watching := make(chan error, 1)
	go func() { watching <- d.Watch(ctx, admin, api.RecordFilter{}, func(api.Record) error { return nil }) }()
	d.Close()
	d.Close()
	wantCode(t, "Watch", <-watching, api.Unavailable)
	_, err := d.Submit(ctx, ann, []api.Submission{submission("x", 1)})
	wantCode(t, "Submit", err, api.Unavailable)
}

// TestCloseTellsTheTruth: who asked before the end learns how it went.
func TestCloseTellsTheTruth(t *testing.T) {
	for range 50 {
		d := open(t)
		entered, release := d.tape.hold()
		done := make(chan error, 1)
		go func() {
			_, err := d.Command(context.Background(), admin, "none", api.Cancel)
			if api.CodeOf(err) == api.Unknown {
				err = nil
			}
			done <- err
		}()
		first := make(chan error, 1)
		go func() {
			_, err := d.Submit(context.Background(), ann, []api.Submission{submission("x", 1)})
			first <- err
		}()
		<-entered
		closed := make(chan struct{})
		go func() { d.Close(); close(closed) }()
		release(nil)
		<-closed
		if err := <-first; err != nil {
			t.Fatalf("a job that the journal has was refused: %v", err)
		}
		<-done
	}
}

// TestTwoReaders is for the race detector: to look changes nothing.
func TestTwoReaders(t *testing.T) {
	d := open(t)
	x := d.submit(ann, submission("x", 1))
	d.decide(wants{x: on(0)})
	for i := range 20 {
		d.clock.add(time.Second)
		d.report(x, 1, api.AgentReport{Done: float64(i)})
		begin := make(chan struct{})
		var readers sync.WaitGroup
		for _, look := range []func(){func() { d.Overview(admin) }, func() { d.Tenants(admin) }, func() { d.Explain(admin, x) }} {
			readers.Go(func() { <-begin; look() })
		}
		close(begin)
		readers.Wait()
	}
}

// TestManyAtOnce is for the race detector: everybody asks while things change.
func TestManyAtOnce(t *testing.T) {
	d := open(t, func(c *Config) { c.CompactEvery = 20 })
	x := d.submit(ann, submission("x", 1))
	d.decide(wants{x: on(0)})
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				d.Overview(admin)
				d.Tenants(admin)
				d.Nodes(ann)
				d.Explain(admin, x)
				page, _ := d.List(admin, api.JobFilter{})
				decoded(t, page)
				d.Attempts()
				d.takeSample()
				d.Records(ann, api.RecordFilter{})
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := range 40 {
				d.clock.add(time.Millisecond)
				switch w {
				case 0:
					jobs, err := d.Submit(ctx, ann, []api.Submission{submission("y", 1)})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := d.Command(ctx, ann, jobs[0].ID, api.Cancel); err != nil {
						t.Error(err)
					}
				case 1:
					d.report(x, 1, api.AgentReport{Done: float64(i), Training: training(sampleOf(i % 3)), Point: &api.Point{}})
				case 2:
					d.decide(wants{x: on(0)})
				}
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	d.Close()
	d.wantDurable()
}

// TestGather: changes that come together share one write, also where the first would have
// been written before the others came.
func TestGather(t *testing.T) {
	d := open(t, func(c *Config) { c.Gather = 300 * time.Millisecond })
	entered, release := d.tape.hold()
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			d.submit(admin, submission("job", 1))
		})
	}
	<-entered
	d.mu.Lock()
	if n := len(d.mem.jobs); n != 3 {
		t.Errorf("the first write has %d jobs; want all 3", n)
	}
	d.mu.Unlock()
	release(nil)
	all.Wait()
}
