// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
)

func estimated(name string, gpus int, d time.Duration) api.Submission {
	s := submission(name, gpus)
	s.Estimate = sched.Duration(d)
	return s
}

// TestExpectedStart: a job that waits for others is told when it will start, with a
// range; both follow the policy's order and the estimates.
func TestExpectedStart(t *testing.T) {
	d := open(t, under("fifo"))
	d.submit(admin, estimated("holder", 4, time.Hour))
	d.asNamed()
	first := d.submit(admin, estimated("first", 4, 2*time.Hour))
	second := d.submit(admin, estimated("second", 4, time.Hour))
	d.asNamed()
	now := d.clock.Now()
	a, b := d.explain(admin, first).Job.Reason, d.explain(admin, second).Job.Reason
	for _, r := range []*api.Reason{a, b} {
		if r.Unknown != "" || !now.Before(r.Earliest) || !r.Earliest.Before(r.Until) || !r.Until.Before(r.Latest) {
			t.Fatalf("it starts at %s (%s to %s), %q; want a range around it", r.Until, r.Earliest, r.Latest, r.Unknown)
		}
	}
	if wait := a.Until.Sub(now); wait < 30*time.Minute || wait > 2*time.Hour {
		t.Errorf("the first starts in %s; want about an hour", wait)
	}
	if more := b.Until.Sub(a.Until); more < 40*time.Minute || more > 2*time.Hour {
		t.Errorf("the second starts %s after the first; want about half of two hours: users estimate too much", more)
	}
	if !strings.Contains(a.Rough, "not known well enough") {
		t.Errorf("the first is rough, because %q; want that too little is known from an estimate alone", a.Rough)
	}
	if j, _ := d.Job(admin, first); !j.Reason.Latest.Equal(a.Latest) {
		t.Errorf("the job says %s, explain %s", j.Reason.Latest, a.Latest)
	}
}

// TestExpectedStartUnknown: where nothing can be known, explain says why.
func TestExpectedStartUnknown(t *testing.T) {
	d := open(t, under("fifo"))
	d.submit(admin, submission("holder", 4))
	d.asNamed()
	id := d.submit(admin, submission("x", 4))
	d.asNamed()
	if r := d.explain(admin, id).Job.Reason; !r.Until.IsZero() || !strings.Contains(r.Unknown, "no estimate") {
		t.Errorf("it starts at %s, unknown: %q; want no time, and the reason", r.Until, r.Unknown)
	}
}

// TestExpectedStartFromHistory: jobs without an estimate are expected to run as long as
// similar ones did.
func TestExpectedStartFromHistory(t *testing.T) {
	d := open(t, under("fifo"))
	for range 20 {
		id := d.submit(ann, submission("past", 4))
		d.asNamed()
		d.clock.add(3 * time.Hour)
		d.exited(exitOf(id, 1))
	}
	d.submit(ann, submission("holder", 4))
	d.asNamed()
	d.clock.add(time.Hour)
	id := d.submit(ann, submission("x", 4))
	d.asNamed()
	r := d.explain(ann, id).Job.Reason
	if wait := r.Until.Sub(d.clock.Now()); wait < 90*time.Minute || wait > 3*time.Hour {
		t.Errorf("it starts in %s, %q; want about 2h: jobs like the one that runs took 3h", wait, r.Unknown)
	}
	if r.Rough != "" {
		t.Errorf("it is rough, because %s; want an expected start, as all jobs before took 3h", r.Rough)
	}
}

// TestRunTimeFromSimilar: an expectation that comes from similar jobs is marked as such.
func TestRunTimeFromSimilar(t *testing.T) {
	d := open(t, under("fifo"))
	for range 12 {
		id := d.submit(ann, submission("past", 4))
		d.asNamed()
		d.clock.add(3 * time.Hour)
		d.exited(exitOf(id, 1))
	}
	preview := func(who api.Identity, s api.Submission) *api.RunTime {
		t.Helper()
		p, err := d.Preview(t.Context(), who, s)
		if err != nil {
			t.Fatal(err)
		}
		return p.RunTime
	}
	id := d.submit(ann, submission("x", 4))
	for _, c := range []struct {
		name string
		got  *api.RunTime
		want string
	}{
		{"explain", d.explain(ann, id).RunTime, "about 3h00m, estimated from 12 jobs like it"},
		{"dry run", preview(ann, submission("y", 4)), "about 3h00m, estimated from 12 jobs like it"},
		{"a stranger's dry run", preview(admin, submission("z", 4)), "about 3h00m, estimated from all 12 jobs that have ended: none of them is like it"},
	} {
		if c.got == nil || c.got.Text() != c.want {
			t.Errorf("%s: %+v; want %q", c.name, c.got, c.want)
		}
	}
	if r := preview(ann, estimated("e", 4, time.Hour)); r == nil || r.Basis != "estimate" || r.Jobs != 12 {
		t.Errorf("with an estimate: %+v; want one that is based on it and on 12 jobs", r)
	}
}

// TestForecastsAreCorrected: the daemon compares its forecasts with what came, also if
// nobody asks for them, and corrects the next ones; under another policy it starts again.
func TestForecastsAreCorrected(t *testing.T) {
	d := open(t, under("fifo"))
	for range 100 {
		holder := d.submit(ann, estimated("holder", 4, time.Hour))
		d.asNamed()
		id := d.submit(ann, estimated("x", 4, time.Minute))
		d.asNamed()
		d.Foresee()
		d.clock.add(time.Hour)
		d.exited(exitOf(holder, 1))
		d.asNamed()
		d.clock.add(time.Minute)
		d.exited(exitOf(id, 1))
	}
	corrects := func() bool {
		now := d.clock.Now()
		asked := forecast.Asked{Range: forecast.Range{Early: now.Add(time.Minute), Middle: now.Add(time.Hour), Late: now.Add(100 * time.Hour)}, At: now}
		return d.foresight.played.told(asked).Late.Sub(asked.Late).Abs() > time.Minute
	}
	if n := len(d.foresight.played.asked); n > 1 || !corrects() {
		t.Errorf("%d forecasts are open, later ones are corrected: %t; want at most one, and that they are", n, corrects())
	}
	if _, err := d.SetPolicy(t.Context(), admin, "las", false); err != nil {
		t.Fatal(err)
	}
	d.submit(ann, estimated("a", 4, time.Hour))
	d.asNamed()
	d.explain(ann, d.submit(ann, estimated("b", 4, time.Hour)))
	if corrects() {
		t.Error("the ledger of another policy is used")
	}
}

// TestRoughStart: in a long queue the start is estimated, and is said to be rough.
func TestRoughStart(t *testing.T) {
	d := open(t, under("fifo"))
	for range forecastJobs {
		d.submit(admin, estimated("x", 4, time.Hour))
	}
	d.asNamed()
	p, err := d.Preview(t.Context(), admin, estimated("new", 4, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	r := p.Size.Reason
	if wait := r.Until.Sub(p.Now); r.Rough == "" || wait < 80*time.Hour || wait > 300*time.Hour || !r.Earliest.Before(r.Until) || !r.Until.Before(r.Latest) {
		t.Errorf("behind %d jobs of an hour: %+v, in %s; want a rough start after some of 200 hours", forecastJobs, r, wait)
	}
}

// TestSharedPresent: in a long queue the jobs are looked at once for many estimates; a job that
// came since then has none until that is long enough ago.
func TestSharedPresent(t *testing.T) {
	c := &clock{now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
	looks := 0
	d := reopen(t, newTape(), c, func(cfg *Config) {
		cfg.Policies["counted"] = policy.Of(policy.About{Name: "counted"}, struct{}{}, func(struct{}) (sched.Policy, error) {
			looks++
			c.add(10 * time.Millisecond)
			return policy.Builtin().New("fifo")
		})
		cfg.Standard = "counted"
	})
	var ids []sched.JobID
	for range forecastJobs + 1 {
		ids = append(ids, d.submit(admin, estimated("x", 4, time.Hour)))
	}
	d.asNamed()
	starts := func(id sched.JobID) bool {
		j, err := d.Job(admin, id)
		if err != nil {
			t.Fatal(err)
		}
		return j.Reason != nil && !j.Reason.Until.IsZero()
	}
	if !starts(ids[100]) {
		t.Fatal("a job of the queue has no estimate")
	}
	before := looks
	if !starts(ids[101]) || looks != before {
		t.Errorf("the next one: %d more looks at all jobs; want an estimate without one", looks-before)
	}
	late := d.submit(admin, estimated("late", 4, time.Hour))
	d.asNamed()
	if starts(late) {
		t.Error("a job has an estimate of before it came")
	}
	c.add(time.Second)
	if !starts(late) {
		t.Error("a second later it has none")
	}
}

// sluggish is a policy that takes its time.
type sluggish struct {
	sched.Policy
	*clock
}

func (s sluggish) Schedule(snap *sched.Snapshot) sched.Plan {
	s.add(20 * time.Millisecond)
	return s.Policy.Schedule(snap)
}

// TestSlowPolicy: where a policy takes too long to be played forward, explain says so, and
// estimates the start without it.
func TestSlowPolicy(t *testing.T) {
	c := &clock{now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
	d := reopen(t, newTape(), c, func(cfg *Config) {
		cfg.Policies["sluggish"] = policy.Of(policy.About{Name: "sluggish"}, struct{}{}, func(struct{}) (sched.Policy, error) {
			p, err := policy.Builtin().New("fifo")
			return sluggish{p, c}, err
		})
		cfg.Standard = "sluggish"
	})
	d.submit(admin, estimated("holder", 4, 2*time.Hour))
	d.asNamed()
	id := d.submit(admin, estimated("x", 4, time.Hour))
	d.asNamed()
	before := c.Now()
	r := d.explain(admin, id).Job.Reason
	if wait := r.Until.Sub(before); !strings.Contains(r.Rough, "takes longer than 300ms") || wait < 15*time.Minute || wait > 4*time.Hour {
		t.Errorf("it starts in %s, rough: %q, unknown: %q; want about an hour, and that the policy is too slow", wait, r.Rough, r.Unknown)
	}
	spent := c.Now().Sub(before)
	second := d.submit(admin, estimated("y", 4, time.Hour))
	d.asNamed()
	before = c.Now()
	if r := d.explain(admin, second).Job.Reason; r.Rough == "" || r.Until.IsZero() || c.Now().Sub(before) >= spent {
		t.Errorf("the next: %+v, after %s; want a rough start, sooner than the %s of the first", r, c.Now().Sub(before), spent)
	}
	third := d.submit(admin, estimated("z", 4, time.Hour))
	d.asNamed()
	c.add(time.Minute)
	d.Foresee()
	if _, ok := d.foresight.coarse.asked[third]; !ok || len(d.foresight.played.asked) > 0 {
		t.Errorf("%d and %d forecasts with and without the policy are open; want all without, that of a job nobody asked for among them", len(d.foresight.played.asked), len(d.foresight.coarse.asked))
	}
}

// TestStartAgain: a job that was stopped and waits again is no outcome of a forecast.
func TestStartAgain(t *testing.T) {
	d := open(t, under("fifo"))
	now := d.clock.Now()
	id := d.submit(admin, estimated("x", 4, time.Hour))
	d.asNamed()
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	r := record{asked: map[sched.JobID]forecast.Asked{id: {At: at(1), Range: forecast.Range{Early: at(50), Middle: at(60), Late: at(70)}}}}
	if r.settle(d.mem); len(r.asked) > 0 || r.ledger != (forecast.Ledger{}) {
		t.Errorf("%d forecasts are open, and the ledger is %+v; want none, and nothing learned", len(r.asked), r.ledger)
	}
}

func TestPreview(t *testing.T) {
	d := open(t, under("las"))
	preview := func(s api.Submission) api.Preview {
		t.Helper()
		before := d.mem.Seq
		p, err := d.Preview(t.Context(), ann, s)
		if err != nil {
			t.Fatal(err)
		}
		if d.mem.Seq != before || d.mem.state.Jobs() > 3 {
			t.Fatal("a preview has changed the state")
		}
		return p
	}
	if p := preview(submission("x", 4)); !p.Size.Starts || p.Size.GPUs != 4 || len(p.Size.Victims) != 0 {
		t.Errorf("on an idle machine: %+v; want that it starts now", p.Size)
	}
	old := estimated("old", 3, 10*time.Hour)
	old.Preemptible = ptr(true)
	id := d.submit(ann, old)
	d.asNamed()
	d.clock.add(5 * time.Minute) // within its lease
	p := preview(submission("x", 4))
	if p.Size.Starts || p.Size.Reason == nil || len(p.Sooner) == 0 || !p.Sooner[len(p.Sooner)-1].Starts || p.Sooner[len(p.Sooner)-1].GPUs != 1 {
		t.Errorf("beside a lease: %+v, sooner %+v; want that it waits, and that 1 GPU starts now", p.Size, p.Sooner)
	}
	d.clock.add(time.Hour)
	p = preview(submission("x", 4))
	if !p.Size.Starts || len(p.Size.Victims) != 1 || p.Size.Victims[0].Job != id || p.Size.Victims[0].LostS != 3*65*60 {
		t.Errorf("after its lease: %+v; want that %s makes room and loses 11,700 GPU-seconds", p.Size, id)
	}
	if p := preview(submission("x", 5)); p.Size.Starts || p.Size.Reason.Code != "impossible" {
		t.Errorf("5 of 4 GPUs: %+v; want never", p.Size)
	}
	if _, err := d.Preview(t.Context(), eve, submission("x", 1)); api.CodeOf(err) != api.Denied {
		t.Errorf("a viewer's preview: %v; want denied", err)
	}
}

func ptr[T any](v T) *T { return &v }

// BenchmarkPreview is a dry run on a cluster of 1,024 GPUs with 10,000 jobs.
func BenchmarkPreview(b *testing.B) {
	for _, spec := range []string{"fifo", "fifo:backfill", "las", "tiresias", "srtf", "gavel", "shockwave", "sia", "pollux", "themis", "fairway"} {
		b.Run(spec, func(b *testing.B) {
			d := open(b, under(spec), func(c *Config) { c.Now, c.Node = time.Now, sched.Node{} })
			var nodes []sched.Node
			for i := range 128 {
				nodes = append(nodes, sched.Node{Name: fmt.Sprintf("n%d", i), GPUs: 8, Type: "h200"})
			}
			if err := d.SetNodes(b.Context(), nodes); err != nil {
				b.Fatal(err)
			}
			for i := range 10 {
				list := make([]api.Submission, 1000)
				for k := range list {
					list[k] = estimated("x", 1<<(k%4), time.Duration(1+(i+k)%20)*time.Hour)
				}
				if _, err := d.Submit(b.Context(), admin, list); err != nil {
					b.Fatal(err)
				}
			}
			d.asNamed()
			for b.Loop() {
				if _, err := d.Preview(b.Context(), admin, estimated("new", 8, time.Hour)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
