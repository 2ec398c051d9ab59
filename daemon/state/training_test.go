// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// script is a training whose agent follows a script.
type script struct {
	id    sched.JobID
	loss  func(step float64) float64
	speed func(gpuType string, gpus int) float64 // steps per second
	stop  goodput.Stop
	steps float64 // done
}

const scriptBatch = 64

// train lets a job train for a time and report at the end of it.
func (d *desk) train(s *script, took time.Duration) {
	d.t.Helper()
	j := d.job(s.id)
	gpuType := d.mem.gpuType(j.Status.Placement)
	gpus := j.Status.Placement.GPUs()
	rate := s.speed(gpuType, gpus)
	s.steps += rate * took.Seconds()
	loss := s.loss(s.steps)
	d.report(s.id, j.Status.Starts, api.AgentReport{
		Done: s.steps * scriptBatch, Work: 1e9, Rate: rate * scriptBatch, Can: new(sched.Resizes),
		Training: &api.Training{
			Limits: goodput.Limits{Initial: scriptBatch, Max: scriptBatch, LocalMin: 1, LocalMax: scriptBatch}, Fixed: scriptBatch, Stop: s.stop,
			Samples: []goodput.Sample{{Nodes: len(j.Status.Placement), GPUs: gpus, Local: (scriptBatch + gpus - 1) / gpus, Step: 1 / rate}},
		},
		Point: &api.Point{Loss: &loss},
	})
}

// run decides by a policy and lets what was stopped leave.
func (d *desk) run(p sched.Policy) {
	d.t.Helper()
	d.decide(p)
	var gone []api.Exit
	for _, x := range d.mem.jobs {
		for _, n := range x.Open {
			if x.Job.Phase != sched.Running || n != x.Job.Starts {
				e := exitOf(x.Job.ID, n)
				e.Yielded = true
				gone = append(gone, e)
			}
		}
	}
	for _, e := range gone {
		d.exited(e)
	}
}

func elastic(name string, most int) api.Submission {
	s := submission(name, 1)
	s.MinGPUs, s.MaxGPUs = 1, most
	return s
}

func (d *desk) gpusOf(id sched.JobID) int { return d.job(id).Status.Placement.GPUs() }

func built(t *testing.T, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().NewLive(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func perGPU(_ string, gpus int) float64 { return 10 * float64(gpus) }

// TestLossesDecide: under slaq the job whose loss falls faster gets more GPUs, under
// optimus the one that is further from its convergence, on what their agents report; a
// restarted daemon decides the same.
func TestLossesDecide(t *testing.T) {
	falling := func(half float64) func(float64) float64 {
		return func(step float64) float64 { return 0.1 + 2/(1+step/half) }
	}
	rule := goodput.Stop{Fall: 1e-4, Epochs: 3, Epoch: 1000}
	crowded := func(_ string, gpus int) float64 { return []float64{10, 18, 12, 8}[gpus-1] } // steps per second
	for _, tc := range []struct {
		spec       string
		fast, slow script
		want       [2]int // GPUs
	}{
		// One falls for as long as anybody looks, the other has fallen.
		{"slaq:epoch=2m:restart=1s", script{loss: falling(1e5), speed: perGPU}, script{loss: falling(10)}, [2]int{3, 1}},
		{"optimus:original", script{loss: falling(1e5), speed: perGPU, stop: rule}, script{loss: falling(10), stop: rule}, [2]int{3, 1}},
		// It gets no third GPU once one has slowed it down.
		{"optimus:original", script{loss: falling(1e5), speed: crowded, stop: rule}, script{loss: falling(10), stop: rule}, [2]int{2, 2}},
	} {
		d := open(t)
		p := built(t, tc.spec)
		slow, fast := tc.slow, tc.fast
		slow.id, fast.id = d.submit(ann, elastic("slow", 4)), d.submit(ann, elastic("fast", 4))
		slow.speed = perGPU
		for range 12 {
			d.run(p)
			for range 4 {
				d.clock.add(30 * time.Second)
				d.train(&slow, 30*time.Second)
				d.train(&fast, 30*time.Second)
			}
		}
		if got := [2]int{d.gpusOf(fast.id), d.gpusOf(slow.id)}; got != tc.want {
			t.Errorf("%s: the job whose loss falls and the other have %v GPUs; want %v", tc.spec, got, tc.want)
		}
		d.wantDurable()
		if err := d.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := reopen(t, d.tape.copyTape(), d.clock)
		want, got := d.job(fast.id).Status.Perf, after.job(fast.id).Status.Perf
		if diff := cmp.Diff(want, got); diff != "" || len(got.Losses) < 16 || len(got.StepTimes) < 2 {
			t.Errorf("%s: %d losses and %d step times after a restart; (-before +after):\n%s", tc.spec, len(got.Losses), len(got.StepTimes), diff)
		}
		after.run(built(t, tc.spec))
		if got := [2]int{after.gpusOf(fast.id), after.gpusOf(slow.id)}; got != tc.want {
			t.Errorf("%s: after a restart the job whose loss falls and the other have %v GPUs; want %v", tc.spec, got, tc.want)
		}
	}
}

// TestTypesDecide: gavel and sia put the job that gains from the better type there, once
// both types were measured.
func TestTypesDecide(t *testing.T) {
	for _, spec := range []string{"gavel", "sia"} {
		d := open(t, noMachine)
		d.setNodes(sched.Node{Name: "new", GPUs: 1, Type: "a100"}, sched.Node{Name: "old", GPUs: 1, Type: "t4"})
		picky := script{id: d.submit(ann, submission("picky", 1)), loss: func(float64) float64 { return 1 }, speed: func(gpuType string, _ int) float64 {
			if gpuType == "a100" {
				return 50
			}
			return 5
		}}
		even := script{id: d.submit(ann, submission("even", 1)), loss: picky.loss, speed: func(string, int) float64 { return 10 }}
		better, worse := sched.Placement{onNode(0, 1)}, sched.Placement{onNode(1, 1)}
		for _, w := range []wants{{picky.id: better, even.id: worse}, {picky.id: worse, even.id: better}} {
			d.run(wants{})
			d.run(w)
			for range 200 {
				d.clock.add(3 * time.Minute)
				d.train(&picky, time.Minute)
				d.train(&even, time.Minute)
			}
		}
		p := built(t, spec)
		for range 3 { // one to plan, one to stop, one to start
			d.run(p)
			d.clock.add(6 * time.Minute)
		}
		if got := d.job(picky.id).Status.Placement; !got.Equal(better) {
			t.Errorf("%s: the job that is ten times as fast on the a100 is at %v; want %v", spec, got, better)
		}
		d.wantDurable()
	}
}

// TestBorrowedTimes: of a GPU type that a job has not run on, past jobs say how its
// steps compare.
func TestBorrowedTimes(t *testing.T) {
	pool := experience.New()
	profiles := map[string]*goodput.Profile{"a100": {}, "t4": {}}
	for gpuType, step := range map[string]float64{"a100": 1, "t4": 4} {
		if err := profiles[gpuType].Add(goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.Learn(experience.Key{Model: "another"}, experience.Outcome{Profiles: profiles, Work: 1}); err != nil {
		t.Fatal(err)
	}
	d := open(t, noMachine, func(c *Config) { c.Pool = pool })
	d.setNodes(sched.Node{Name: "new", GPUs: 1, Type: "a100"}, sched.Node{Name: "old", GPUs: 1, Type: "t4"})
	s := script{id: d.submit(ann, submission("x", 1)), loss: func(float64) float64 { return 1 }, speed: perGPU}
	d.run(wants{s.id: {onNode(0, 1)}})
	d.train(&s, time.Minute)
	want := []goodput.StepTime{
		{Type: "a100", Nodes: 1, GPUs: 1, Batch: scriptBatch, Time: 0.1},
		{Type: "t4", Nodes: 1, GPUs: 1, Batch: scriptBatch, Time: 0.4, Borrowed: true},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, d.job(s.id).Status.Perf.StepTimes, near); diff != "" {
		t.Errorf("step times (-want +got):\n%s", diff)
	}
}

// TestWatchedJob: a script that only says how far it is, and its loss, has losses and
// speeds too.
func TestWatchedJob(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 2))
	d.run(wants{id: on(0, 1)})
	for i := range 5 {
		d.clock.add(10 * time.Second)
		loss := 1 / float64(i+1)
		d.report(id, 1, api.AgentReport{Done: float64(20 * (i + 1)), Rate: 2, Work: 1000, Point: &api.Point{Loss: &loss}})
	}
	perf := d.job(id).Status.Perf
	if perf == nil || perf.Runs() || len(perf.Losses) != 5 || perf.Losses[4] != (goodput.LossPoint{Step: 100, Loss: 0.2}) || perf.Stop.Steps != 1000 {
		t.Errorf("report %+v; want five losses, the last 0.2 after 100 of 1000 units of work", perf)
	}
	want := []goodput.StepTime{{Type: "h200", Nodes: 1, GPUs: 2, Batch: 1, Time: 0.5}}
	if !slices.Equal(perf.StepTimes, want) {
		t.Errorf("step times %+v; want %+v", perf.StepTimes, want)
	}
	d.wantDurable()
}

// TestJournalOfLosses: the journal alone says what policies saw, and losses add to it
// what the comment of tx.perf says.
func TestJournalOfLosses(t *testing.T) {
	const reports = 2000
	d := open(t)
	s := script{id: d.submit(ann, elastic("x", 4)), loss: func(step float64) float64 { return math.Pi / (1 + step/77) }, speed: perGPU}
	d.run(wants{s.id: on(0)})
	for range reports {
		d.clock.add(30 * time.Second)
		d.train(&s, 30*time.Second)
	}
	cluster, err := sched.NewCluster(nil)
	if err != nil {
		t.Fatal(err)
	}
	st, bytes := sched.NewState(cluster), 0
	for _, payload := range d.tape.records {
		var r api.Record
		if err := json.Unmarshal(payload, &r); err != nil {
			t.Fatal(err)
		}
		if r.Event == nil {
			continue
		}
		if err := st.Apply(*r.Event); err != nil {
			t.Fatal(err)
		}
		if r.Event.Perf != nil {
			text, _ := json.Marshal([]any{r.Event.Perf.Losses, r.Event.Perf.StepTimes})
			bytes += len(text) - len("[null,null]")
		}
	}
	most := 25_000 + 18_000*math.Log2(reports/32)
	if t.Logf("%d reports: %d bytes", reports, bytes); float64(bytes) > most || bytes < 10_000 {
		t.Errorf("%d reports add %d bytes to the journal; want 10,000 to %.0f", reports, bytes, most)
	}
	j, _ := st.Job(s.id)
	if diff := cmp.Diff(d.job(s.id).Status.Perf, j.Perf); diff != "" || len(j.Perf.Losses) < 16 {
		t.Errorf("%d losses by the journal (-state +journal):\n%s", len(j.Perf.Losses), diff)
	}
}
