// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// planned is a real GPT that a daemon with four slots trains under execution plans, from
// its submission on. Its steps take longer by the seconds of its pace, by plan.
type planned struct {
	*daemon
	t                   *testing.T
	id                  sched.JobID
	python, script, dir string
}

// train submits the GPT with some plans and sizes. Plans are chosen as for a model of a shape:
// that of the script is tiny.
func train(t *testing.T, shape plan.Model, least int, pace map[string]float64, names ...string) *planned {
	t.Helper()
	python := withFSDP()
	if python == "" {
		t.Skip("no Python with PyTorch 2.9 or later; name one with FAIRWAY_PYTHON")
	}
	p := &planned{t: t, python: absolute(t, python), script: absolute(t, "../python/tests/fsdp_job.py"), dir: t.TempDir()}
	p.pace(pace)
	p.daemon = configured(t, "report: 1s\n", "--slots", "4", "--policy", resizing)
	options := &plan.Options{Model: shape}
	for _, name := range names {
		one, err := plan.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		options.List = append(options.List, one)
	}
	p.id = p.run(api.Submission{
		Spec: sched.Spec{GPUs: 4, MinGPUs: least, MaxGPUs: 4},
		Task: api.Task{Name: "gpt", Plans: options, Env: map[string]string{"PYTHONPATH": absolute(t, "../python/src")}},
	}, p.python, p.script, "gpt", p.dir, "1000000")
	t.Cleanup(func() {
		if t.Failed() {
			var log bytes.Buffer
			err := p.Logs(context.Background(), p.id, api.LogQuery{Tail: 200}, &log)
			t.Logf("log of %s (%v):\n%s", p.id, err, log.String())
		}
	})
	return p
}

func (p *planned) pace(seconds map[string]float64) {
	p.t.Helper()
	text, err := json.Marshal(seconds)
	if err != nil {
		p.t.Fatal(err)
	}
	write(p.t, filepath.Join(p.dir, "new"), string(text))
	if err := os.Rename(filepath.Join(p.dir, "new"), filepath.Join(p.dir, "pace")); err != nil {
		p.t.Fatal(err)
	}
}

// measured waits until the job runs under a plan and has measured steps there that are
// longer than some seconds, and returns how long they are.
func (p *planned) measured(name string, longer float64) (step float64) {
	p.t.Helper()
	began := time.Now()
	var j api.Job
	if !holds(5*patience, func() bool {
		var err error
		if j, err = p.Job(context.Background(), p.id); err != nil || j.Plan == nil || j.Plan.String() != name || j.Status.Perf == nil {
			return false
		}
		for _, c := range j.Status.Perf.Plans {
			for _, s := range c.Known {
				if s.Plan == *j.Plan && s.Step > longer {
					step = s.Step
					return true
				}
			}
		}
		return false
	}) {
		p.t.Fatalf("the job is %s, plan %v, %+v; want steps of more than %g s under %s", j.State, j.Plan, j.Status.Perf, longer, name)
	}
	p.t.Logf("%s: %.3g s a step, known after %s", name, step, time.Since(began).Round(time.Second))
	return step
}

// again pauses and resumes the job: it starts anew under the plan that is best by now, and
// need not train ten times as long as its last move took before.
func (p *planned) again() {
	p.t.Helper()
	for _, verb := range []string{"pause", "resume"} {
		if out, err := p.cli(nil, verb, string(p.id)); err != nil {
			p.t.Fatalf("%s: %v\n%s", verb, err, out)
		}
	}
}

// end cancels the job, and compares what it did with a run of its script by one process.
func (p *planned) end(plans ...string) {
	p.t.Helper()
	if out, err := p.cli(nil, "cancel", string(p.id)); err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	p.until(p.id, api.Cancelled)
	compareLosses(p.t, p.dir, p.python, p.script, plans...)
}

// TestStages: in and out of the stages of pipelines, as TestPlans. Those with which it begins turn
// out to be slow, and at once the daemon changes its plan on the same slots; sharded it is slower
// still, so its next start is with other stages.
func TestStages(t *testing.T) {
	t.Parallel()
	// So short are the sequences that what replicas exchange is expected to take longest.
	shape := plan.Model{Parameters: 1e9, Layers: 4, Hidden: 32, Heads: 4, Sequence: 16, Batch: 8}
	const pause = 2.0
	p := train(t, shape, 4, map[string]float64{"tp2-pp2": pause, "fsdp4": 4 * pause}, "fsdp4", "fsdp2-pp2/2", "pp4/4", "tp2-pp2")
	p.measured("fsdp4", 4*pause)
	p.again()
	p.measured("fsdp2-pp2/2", 0)
	p.end("tp2-pp2", "fsdp4", "fsdp2-pp2/2")
}
