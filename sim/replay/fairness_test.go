// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"cmp"
	"log/slog"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// TestRhoOfDaemonAndSimulator: the simulator runs a workload; then a daemon lives
// through the same history. What it says of each app at its end is what the
// simulator measured.
func TestRhoOfDaemonAndSimulator(t *testing.T) {
	t.Parallel()
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sched.NewCluster([]sched.Node{box})
	if err != nil {
		t.Fatal(err)
	}
	fifo, err := policy.Builtin().New("fifo")
	if err != nil {
		t.Fatal(err)
	}
	job := func(id, app string, gpus int, after, runs time.Duration) sim.Work {
		return sim.Work{
			Spec:    sched.Spec{ID: sched.JobID(id), App: sched.AppID(app), GPUs: gpus, Submitted: dawn.Add(after)},
			RunTime: sched.Duration(runs),
		}
	}
	// It asks for more than its share, and twice the GPUs do not make it twice as
	// fast.
	wide := job("wide", "", 8, 0, 0)
	wide.Model, wide.BatchSize = "cifar10", 512
	work := []sim.Work{
		wide, job("first", "pair", 2, 10*time.Second, 20*time.Minute), job("small", "", 1, 20*time.Second, 5*time.Minute),
		job("second", "pair", 4, 30*time.Second, 10*time.Minute), job("large", "", 8, 40*time.Second, 10*time.Minute),
	}
	res, _, err := sim.Run(sim.Config{Cluster: cluster, Policy: fifo, Zoo: z}, &sim.Workload{Name: "jobHistory", Start: dawn, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	model, _ := z.Model("cifar10")
	got := live(t, work, res, model)
	for i := range res.Jobs {
		j := &res.Jobs[i]
		within := 1e-6
		if j.ID == "wide" {
			within = 0.01 // its agent has fitted a curve to what it measured
		}
		if rho, last := got[j.ID]; last && !(math.Abs(rho/j.Rho-1) <= within) {
			t.Errorf("%s: rho %g in the daemon, %g in the simulator", j.ID, rho, j.Rho)
		}
	}
	if len(got) != len(work)-1 {
		t.Errorf("the daemon saw the ends of %d apps; want %d", len(got), len(work)-1)
	}
	// The curve of the wide one matters: in proportion it would look less wronged.
	if wide := res.Jobs[0]; wide.Rho < 1.2*wide.PaperRho {
		t.Errorf("wide: rho %g by its curve, %g in proportion; want a difference that a test can see", wide.Rho, wide.PaperRho)
	}
}

var box = sched.Node{Name: "box", GPUs: 8, Type: "t4"}

// held is a policy that gives out what the simulator gave out.
type held map[sched.JobID]sched.Placement

func (p held) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		if plan.Want[i] = p[j.ID]; p[j.ID] == nil {
			plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs}
		}
	}
	return plan
}

// give adds a job on the first free GPUs.
func (p held) give(id sched.JobID, gpus int) {
	free := sched.FirstGPUs(box.GPUs)
	for _, at := range p {
		free &^= at[0].GPUs
	}
	var set sched.GPUSet
	for ; gpus > 0; gpus-- {
		set |= 1 << bits.TrailingZeros64(uint64(free&^set))
	}
	p[id] = sched.Placement{{Node: 0, GPUs: set, Milli: sched.WholeGPU}}
}

// live replays the simulation in a daemon, and returns the rho that it reports for
// the last job of every app when that ends.
func live(t *testing.T, work []sim.Work, res *sim.Result, model *zoo.Model) map[sched.JobID]float64 {
	t.Helper()
	now := dawn
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	book, err := state.Open(t.Context(), state.Config{
		Journal: &lines{}, Node: box, Policies: policy.Builtin(), Standard: "fifo", Key: make([]byte, 32),
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	must(err)
	t.Cleanup(book.Close)

	out, names, holds := map[sched.JobID]float64{}, map[sched.JobID]sched.JobID{}, held{}
	decide := func() {
		s, err := book.Snapshot(t.Context())
		must(err)
		actions, plan, err := sched.Decide(holds, s)
		must(err)
		must(book.Apply(t.Context(), loop.Decision{Policy: "test", Snapshot: s, Actions: actions, Plan: plan}))
	}
	type step struct {
		at float64
		do func()
	}
	var steps []step
	for i := range res.Jobs {
		j := &res.Jobs[i]
		took := j.End - j.Start
		steps = append(steps, step{j.Submit, func() {
			s := api.Submission{Task: api.Task{Name: string(j.ID), Command: []string{"true"}}}
			s.GPUs, s.App, s.Work = j.GPUs, work[i].App, took
			jobs, err := book.Submit(t.Context(), admin, []api.Submission{s})
			must(err)
			names[j.ID] = jobs[0].ID
		}}, step{j.Start, func() {
			holds.give(names[j.ID], j.GPUs)
			decide()
			for _, a := range book.Attempts() {
				if a.Job == names[j.ID] {
					_, err := book.Report(t.Context(), a.Token, api.AgentReport{Rate: 1, Training: training(j, model)})
					must(err)
				}
			}
		}}, step{j.End, func() {
			v, err := book.Job(admin, names[j.ID])
			must(err)
			last := !slices.ContainsFunc(res.Jobs, func(o sim.JobResult) bool { return o.App == j.App && o.End > j.End })
			if last {
				out[j.ID] = v.Rho
			}
			delete(holds, names[j.ID])
			must(book.Exited(t.Context(), api.Exit{AttemptID: api.AttemptID{Job: names[j.ID], Number: 1}}))
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, s := range steps {
		now = dawn.Add(time.Duration(s.at * float64(time.Second)))
		s.do()
	}
	return out
}

// training is what the agent of a job of the zoo has measured on 1 to 8 GPUs.
func training(j *sim.JobResult, m *zoo.Model) *api.Training {
	if j.Model == "" {
		return nil
	}
	out := &api.Training{Limits: m.Batch, Fixed: 512, Noise: 1000}
	p, _ := m.Params(box.Type)
	for n := 1; n <= 8; n++ {
		for local := 32; local <= 512; local *= 2 {
			s := goodput.Shape{Nodes: 1, GPUs: n}
			step := p.Step(s, float64(local))
			sample := goodput.Sample{Nodes: 1, GPUs: n, Local: local, Step: step, Count: 10}
			if n > 1 {
				sample.Sync = step - p.Grad(float64(local))
			}
			out.Samples = append(out.Samples, sample)
		}
	}
	return out
}
