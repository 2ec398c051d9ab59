// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// steps is a workload of two kinds of jobs of 1,000 steps each.
func steps() (*Workload, *Throughputs) {
	slow, fast := Kind{"slow", 8, 1}, Kind{"fast", 8, 1}
	table := &Throughputs{}
	table.Add("v100", slow, 1)
	table.Add("v100", fast, 10)
	table.Add("k80", slow, 0.5)
	table.Add("k80", fast, 0) // it does not fit
	table.AddPair("v100", slow, fast, 0.8)
	table.AddPair("v100", fast, slow, 2)
	start := time.Unix(1e9, 0).UTC()
	w := &Workload{Name: "steps", Start: start}
	for _, k := range []Kind{slow, fast} {
		w.Work = append(w.Work, Work{
			Spec:  sched.Spec{ID: sched.JobID(k.Model), Submitted: start, GPUs: k.GPUs, Model: k.Model},
			Steps: 1000, BatchSize: k.Batch,
		})
	}
	return w, table
}

func stepsConfig(t *testing.T, table *Throughputs, p sched.Policy, types ...sched.GPUType) Config {
	t.Helper()
	var nodes []sched.Node
	for _, gpuType := range types {
		nodes = append(nodes, sched.Node{Name: string(gpuType), GPUs: 1, Type: gpuType})
	}
	c := Config{Policy: p, Throughputs: table, CoAdapt: true, Agent: time.Minute}
	var err error
	if c.Cluster, err = sched.NewCluster(nodes); err != nil {
		t.Fatal(err)
	}
	if c.Zoo, err = zoo.Builtin(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Two jobs on one GPU are as fast as was measured, and alone again when the other has
// ended.
func TestMeasuredPairs(t *testing.T) {
	w, table := steps()
	res, _, err := Run(stepsConfig(t, table, halves{1}, "v100"), w)
	if err != nil {
		t.Fatal(err)
	}
	// fast ends after 1000/2 s; slow has done 400 steps by then, and 600 more take 600 s.
	for i, want := range []float64{1100, 500} {
		if got := res.Jobs[i].JCT; math.Abs(got-want) > 1 {
			t.Errorf("job %s took %g s; want %g", res.Jobs[i].ID, got, want)
		}
	}
}

// spy keeps the reports that a policy sees.
type spy struct{ seen map[sched.JobID]*sched.Job }

func (s spy) Schedule(at *sched.Snapshot) sched.Plan {
	for _, j := range at.Jobs {
		s.seen[j.ID] = j
	}
	return halves{1}.Schedule(at)
}

// Policies know what was measured: step times on every type, slowdowns in pairs, and
// that a job cannot run somewhere.
func TestMeasuredReports(t *testing.T) {
	w, table := steps()
	p := spy{map[sched.JobID]*sched.Job{}}
	if _, _, err := Run(stepsConfig(t, table, p, "v100", "k80"), w); err != nil {
		t.Fatal(err)
	}
	slow, fast := p.seen["slow"], p.seen["fast"]
	if got := fast.GPUTypes; len(got) != 1 || got[0] != "v100" {
		t.Errorf("fast accepts %v; want v100 only", got)
	}
	if len(slow.GPUTypes) != 0 || !slow.Shareable || !fast.Shareable {
		t.Errorf("slow accepts %v, and the jobs may share: %t, %t; want any, and both", slow.GPUTypes, slow.Shareable, fast.Shareable)
	}
	time := func(r *goodput.Report, on string) float64 {
		for _, s := range r.StepTimes {
			if s.Type == on && !s.Borrowed {
				return s.Time
			}
		}
		return 0
	}
	if a, b, c := time(slow.Perf, "v100"), time(slow.Perf, "k80"), time(fast.Perf, "v100"); a != 1 || b != 2 || c != 0.1 {
		t.Errorf("steps of %g s and %g s, and of %g s; want 1 and 2, and 0.1", a, b, c)
	}
	if a, b := slow.Perf.Beside["v100"][fast.Perf.Kind], fast.Perf.Beside["v100"][slow.Perf.Kind]; a != 1.25 || b != 5 {
		t.Errorf("slowdowns %g and %g; want 1.25 and 5", a, b)
	}
}

func TestUnknownThroughput(t *testing.T) {
	w, table := steps()
	w.Work[0].BatchSize = 16
	_, _, err := Run(stepsConfig(t, table, halves{1}, "v100"), w)
	const want = "job slow: no throughput of slow with batch size 16 on 1 GPUs on a GPU type of the cluster that it accepts; the throughputs are of k80, v100"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v; want %s", err, want)
	}
}
