// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/replay"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

func simulate(t *testing.T, p *replay.Past, spec string) *sim.Result {
	t.Helper()
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AddModels(z); err != nil {
		t.Fatal(err)
	}
	pol, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := sim.Run(sim.Config{
		Cluster: p.Cluster, Policy: pol, Name: spec, Zoo: z, Retry: 5 * time.Second,
		CoAdapt: true, Agent: 30 * time.Second, Interference: sim.PerModel,
	}, &p.Workload)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestRoundTrip: what a daemon did, simulated under the same policy, takes about
// as long as it took.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy string
		agents bool
		within float64
	}{
		{"fifo", false, 0.05},
		{"las", false, 0.05},
		{"srtf", false, 0.05},
		{"pollux", true, 0.25},
	} {
		t.Run(tc.policy, func(t *testing.T) {
			t.Parallel()
			records := newDaemon(t, tc.policy, queue(7, 24, tc.agents)).run(2*time.Hour, nil)
			p, err := replay.NewPast(records, replay.Options{Name: "journal"})
			if err != nil {
				t.Fatal(err)
			}
			got := simulate(t, p, tc.policy)
			if p.Was.Finished != 24 || got.Finished != 24 || got.Failures != p.Was.Failures {
				t.Errorf("%d jobs finished, %d in the replay, with %d and %d failures; want 24 and the same", p.Was.Finished, got.Finished, p.Was.Failures, got.Failures)
			}
			if off := got.AvgJCT/p.Was.AvgJCT - 1; math.Abs(off) > tc.within {
				t.Errorf("average JCT is %.0f s, in the replay %.0f s; want within %.0f %%\nnotes: %v", p.Was.AvgJCT, got.AvgJCT, 100*tc.within, p.Notes)
			}
			t.Logf("JCT %.0f was %.0f, wait %.0f was %.0f, makespan %.0f was %.0f, restarts %d was %d", got.AvgJCT, p.Was.AvgJCT,
				got.AvgWait, p.Was.AvgWait, got.Makespan, p.Was.Makespan, got.Restarts, p.Was.Restarts)
		})
	}
}

// diary makes the records of a journal by hand.
type diary struct {
	t       *testing.T
	records []api.Record
}

func (d *diary) at(seconds float64, r api.Record) {
	r.Seq, r.At = uint64(len(d.records)+1), dawn.Add(time.Duration(seconds*1e9))
	if r.Event != nil {
		r.Event.At = r.At
	}
	d.records = append(d.records, r)
}

func (d *diary) event(seconds float64, e sched.Event) { d.at(seconds, api.Record{Event: &e}) }

func (d *diary) submit(seconds float64, s sched.Spec) {
	d.event(seconds, sched.Event{Kind: sched.JobSubmitted, Spec: &s})
}

func on(gpus ...int) sched.Placement {
	var set sched.GPUSet
	for _, g := range gpus {
		set |= 1 << g
	}
	return sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: set}}
}

func (d *diary) past(o replay.Options) *replay.Past {
	d.t.Helper()
	p, err := replay.NewPast(d.records, o)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func newDiary(t *testing.T) *diary {
	d := &diary{t: t}
	d.event(0, sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "box", GPUs: 4, Type: "T4"}})
	return d
}

// TestLengths: the truth about a job follows from what happened to it.
func TestLengths(t *testing.T) {
	type truth struct {
		RunTime  float64
		Outcome  sched.Phase
		Failures []float64
		Note     string
	}
	spec := sched.Spec{ID: "a", GPUs: 2}
	for _, tc := range []struct {
		name string
		tell func(d *diary)
		want truth
	}{
		{"finished", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(110, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
		}, truth{RunTime: 100}},
		{"preempted and cancelled", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(40, sched.Event{Kind: sched.JobStopped, Job: "a"})
			d.event(60, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(2, 3)})
			d.event(80, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Cancelled})
		}, truth{RunTime: 50, Outcome: sched.Cancelled}},
		{"on half its GPUs", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0)})
			d.event(110, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
		}, truth{RunTime: 50}},
		{"a failure loses what no checkpoint holds", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(40, sched.Event{Kind: sched.JobCheckpoint, Job: "a", Done: 30})
			d.event(60, sched.Event{Kind: sched.JobFailed, Job: "a", Until: dawn, Text: "oops"})
			d.event(70, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(90, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
		}, truth{RunTime: 5, Failures: []float64{20}}}, // and 62 s that the simulator adds for the restart, as far as that goes
		{"failed for good", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(50, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Failed, Text: "no such file"})
		}, truth{RunTime: 41.4, Outcome: sched.Failed, Failures: []float64{40}}},
		{"a stop that lost work", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(30, sched.Event{Kind: sched.JobStopped, Job: "a"})
			d.at(31, api.Record{Actor: "machine", Event: &sched.Event{Kind: sched.JobReported, Job: "a"}})
			d.event(40, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(70, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
		}, truth{RunTime: 30, Note: "lost work when it was stopped"}},
		{"still running, a quarter done", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.at(50, api.Record{Event: &sched.Event{Kind: sched.JobReported, Job: "a", Done: 25, Rate: 1}, Point: &api.Point{Work: 100}})
		}, truth{RunTime: 160, Note: "its length follows from the work it reported"}},
		{"still running, nothing known", func(d *diary) {
			d.event(10, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
			d.event(50, sched.Event{Kind: sched.JobCheckpoint, Job: "a"})
		}, truth{RunTime: 40, Note: "ends it where the journal ends"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDiary(t)
			d.submit(0, spec)
			tc.tell(d)
			p := d.past(replay.Options{})
			w := p.Workload.Work[0]
			got := truth{RunTime: w.RunTime.D().Seconds(), Outcome: w.Outcome}
			for _, f := range w.Failures {
				got.Failures = append(got.Failures, f.After.D().Seconds())
			}
			if tc.want.Note != "" && slices.ContainsFunc(p.Notes, func(n replay.Note) bool { return strings.Contains(n.String(), tc.want.Note) }) {
				got.Note = tc.want.Note
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\nnotes: %v", diff, p.Notes)
			}
		})
	}
}

// TestLeftOut: jobs about which nothing is known are named, not invented.
func TestLeftOut(t *testing.T) {
	d := newDiary(t)
	d.event(0, sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "blue", Quota: 2}})
	d.submit(1, sched.Spec{ID: "cancelled", GPUs: 1})
	d.submit(2, sched.Spec{ID: "unknown", GPUs: 1})
	d.submit(3, sched.Spec{ID: "waiting", GPUs: 4, Estimate: sched.Duration(time.Hour)})
	d.event(4, sched.Event{Kind: sched.JobEnded, Job: "cancelled", Phase: sched.Cancelled})
	d.event(5, sched.Event{Kind: sched.JobStopped, Job: "before"})
	p := d.past(replay.Options{Name: "x"})
	if n := len(p.Workload.Work); n != 1 || p.Workload.Work[0].ID != "waiting" || p.Workload.Work[0].RunTime.D() != time.Hour {
		t.Errorf("the workload is %+v; want the job that waits", p.Workload.Work)
	}
	var text []string
	for _, n := range p.Notes {
		text = append(text, n.String())
	}
	for _, want := range []string{"cancelled: was cancelled before it ran", "unknown: has not run", "waiting: has not ended", "before: job submitted before the journal begins"} {
		if !slices.ContainsFunc(text, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("notes are %q; want one with %q", text, want)
		}
	}
	if diff := cmp.Diff([]sched.Tenant{{ID: "blue", Quota: 2}}, p.Workload.Tenants); diff != "" {
		t.Error(diff)
	}
}

// TestModel: a job whose agent has reported its model trains by it: on one GPU more
// than half as fast as on two, and as long as it took where it ran.
func TestModel(t *testing.T) {
	d := newDiary(t)
	perf := &goodput.Report{
		Params: map[string]goodput.Params{"T4": {AlphaGrad: 0.02, BetaGrad: 0.001, AlphaLocal: 0.05, BetaLocal: 0.01, AlphaNode: 0.1, BetaNode: 0.01, Gamma: 1.5}},
		Noise:  300, Limits: goodput.Limits{Initial: 64, Max: 1024, LocalMin: 8, LocalMax: 256}, Fixed: 64, MostGPUs: 4,
	}
	d.submit(0, sched.Spec{ID: "a", GPUs: 2})
	d.event(0, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
	d.event(100, sched.Event{Kind: sched.JobReported, Job: "a", Perf: perf})
	d.event(300, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
	p := d.past(replay.Options{})
	if w := p.Workload.Work[0]; w.RunTime != 0 || w.BatchSize != 64 || len(p.Models) != 1 {
		t.Fatalf("the job is %+v with %d models; want one that trains a model", w, len(p.Models))
	}
	if got := simulate(t, p, "fifo"); math.Abs(got.AvgJCT-300) > 62 { // it may begin with a launch
		t.Errorf("on two GPUs it takes %.0f s; want about 300", got.AvgJCT)
	}
	two := simulate(t, p, "fifo").AvgJCT
	p.Workload.Work[0].GPUs = 1
	if one := simulate(t, p, "fifo").AvgJCT; one/two > 1.9 || one < two {
		t.Errorf("it takes %.0f s on one GPU and %.0f s on two; want less than twice as long, by its model", one, two)
	}
	// On GPUs that its agent has never seen, only its length is known.
	other, err := sim.ParseCluster("2x4", "a100")
	if err != nil {
		t.Fatal(err)
	}
	if w := d.past(replay.Options{Cluster: other}).Workload.Work[0]; w.RunTime.D() != 300*time.Second {
		t.Errorf("on unknown GPUs the run time is %s; want 300s", w.RunTime)
	}
}

// TestAbility: a replay treats a job as what it turned out to be.
func TestAbility(t *testing.T) {
	for _, c := range []struct {
		can       sched.Ability
		protected bool
		most      int
	}{{sched.Unproven, true, 4}, {sched.Saves, false, 0}, {sched.Resizes, false, 4}} {
		d := newDiary(t)
		d.submit(0, sched.Spec{ID: "a", GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Protected: true})
		d.event(0, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)})
		d.event(100, sched.Event{Kind: sched.JobReported, Job: "a", Can: c.can})
		d.event(300, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
		if w := d.past(replay.Options{}).Workload.Work[0]; w.Protected != c.protected || w.MaxGPUs != c.most {
			t.Errorf("a job that is %s: protected %t, up to %d GPUs; want %t, %d", c.can, w.Protected, w.MaxGPUs, c.protected, c.most)
		}
	}
}

// TestRestart: what a restart cost is measured.
func TestRestart(t *testing.T) {
	d := newDiary(t)
	d.submit(0, sched.Spec{ID: "a", GPUs: 1})
	d.event(0, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0)})
	d.event(100, sched.Event{Kind: sched.JobStopped, Job: "a"})
	d.at(103, api.Record{Exit: &api.Exit{AttemptID: api.AttemptID{Job: "a", Number: 1}, At: dawn.Add(103 * time.Second), Yielded: true}})
	d.event(110, sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0)})
	d.event(130, sched.Event{Kind: sched.JobReported, Job: "a", Done: 26, Rate: 2}) // 7 s before it trained
	d.event(200, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
	p := d.past(replay.Options{})
	if len(p.Models) != 1 || p.Models[0].Restart.D() != 10*time.Second || p.Workload.Work[0].Model != p.Models[0].Name {
		t.Errorf("models are %+v; want one with restarts of 10s, named by the job", p.Models)
	}
	if w := p.Was; w.Restarts != 1 || w.Preempted != 1 || w.AvgJCT != 200 || w.AvgWait != 0 || w.Makespan != 200 || w.GPUSeconds != 190 {
		t.Errorf("as it was: %+v; want one restart, 200 s, and 190 GPU-seconds", w.Summary)
	}
}

// TestSummaryOfThePast: what was is summed up by every figure that a simulation has.
func TestSummaryOfThePast(t *testing.T) {
	d := newDiary(t)
	for i, wait := range []float64{0, 10, 20, 30} {
		id := sched.JobID(rune('a' + i))
		d.submit(100*float64(i), sched.Spec{ID: id, GPUs: 2})
		d.event(100*float64(i)+wait, sched.Event{Kind: sched.JobStarted, Job: id, Placement: on(0, 1)})
		d.event(100*float64(i)+50, sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Finished})
	}
	got := d.past(replay.Options{}).Was.Summary
	want := sim.Summary{
		Policy: replay.Recorded, Jobs: 4, Finished: 4, Delays: []sim.Delay{},
		AvgJCT: 50, P50JCT: 50, P90JCT: 50, P99JCT: 50, AvgWait: 15, P50Wait: 15, P90Wait: 27, P99Wait: 29.7,
		Makespan: 350, GPUSeconds: 280, Allocation: 280.0 / (4 * 350),
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// TestRead: an error names the line.
func TestRead(t *testing.T) {
	good := `{"seq":1,"at":"2026-03-01T08:00:00Z","event":{"at":"2026-03-01T08:00:00Z","kind":"node-joined","node":{"name":"box","gpus":4}}}`
	for _, tc := range []struct{ text, want string }{
		{good + "\n\n" + strings.Replace(good, `"seq":1`, `"seq":2`, 1) + "\n", ""},
		{good + "\n" + good, "line 2: seq = 1 after 1"},
		{good + "\n{", "line 2: column 1"},
		{`{"seq":"x"}`, "line 1: column 10: seq is a string"},
		{`{"at":"2026-03-01T08:00:00Z"}`, "line 1: seq = 0"},
		{`{"seq":3}`, "record 3: no time"},
		{strings.Repeat(" ", 600) + good, "more than 500 bytes"},
	} {
		got, err := replay.Read(strings.NewReader(tc.text), 500)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40q: error is %v; want %q", tc.text, err, tc.want)
		}
		if err == nil && len(got) != 2 {
			t.Errorf("%d records; want 2", len(got))
		}
	}
}

// FuzzJournal: no journal, however strange, may crash a replay.
func FuzzJournal(f *testing.F) {
	d := &diary{}
	d.event(0, sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "box", GPUs: 4}})
	d.submit(1, sched.Spec{ID: "a", GPUs: 2})
	d.at(2, api.Record{Event: &sched.Event{Kind: sched.JobStarted, Job: "a", Placement: on(0, 1)}, Decision: 1, Basis: &api.Basis{Policy: "fifo", Now: dawn, Seen: 2}})
	d.event(9, sched.Event{Kind: sched.JobEnded, Job: "a", Phase: sched.Finished})
	var text strings.Builder
	for i := range d.records {
		line, err := json.Marshal(&d.records[i])
		if err != nil {
			f.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	f.Add(text.String())
	f.Add(strings.ReplaceAll(text.String(), `"node":0`, `"node":-7`))
	f.Add(strings.ReplaceAll(text.String(), `"gpus":2`, `"gpus":1000000`))
	f.Add(strings.ReplaceAll(text.String(), `"seen":2`, `"seen":99`))
	f.Fuzz(func(t *testing.T, text string) {
		records, err := replay.Read(strings.NewReader(text), 1<<16)
		if err != nil {
			return
		}
		if p, err := replay.NewPast(records, replay.Options{}); err == nil {
			if err := p.AddModels(&zoo.Zoo{}); err != nil {
				t.Error(err)
			}
		}
		_, _ = replay.Verify(records, replay.VerifyOptions{Build: policy.Builtin().New, First: "fifo"})
	})
}
