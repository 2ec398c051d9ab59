// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// withFSDP returns a Python whose PyTorch has FSDP2 on CPUs; empty: there is none.
func withFSDP() string {
	for _, p := range []string{os.Getenv("FAIRWAY_PYTHON"), "python3", "/usr/bin/python3", "../python/.venv/bin/python"} {
		if path, err := exec.LookPath(p); err == nil && exec.Command(path, "-c", "import torch; from torch.distributed.fsdp import fully_shard; torch.cpu.Stream.record_event").Run() == nil {
			return path
		}
	}
	return ""
}

// TestPlans: a real GPT on four ranks goes from one execution plan to another as the
// daemon decides, by what it measures: sharded on four slots, slow; on two, beside
// another job; on four again under the plan that promises more; and, when that one turns
// out to be slower still, back to the first. The daemon is killed on the way. The losses
// are those of one process that nobody disturbed.
func TestPlans(t *testing.T) {
	t.Parallel()
	python := withFSDP()
	if python == "" {
		t.Skip("no Python with PyTorch 2.9 or later; name one with FAIRWAY_PYTHON")
	}
	python, script, dir := absolute(t, python), absolute(t, "../python/tests/fsdp_job.py"), t.TempDir()
	pace := func(seconds map[string]float64) {
		text, err := json.Marshal(seconds)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "new"), string(text))
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "pace")); err != nil {
			t.Fatal(err)
		}
	}
	pace(map[string]float64{"fsdp4": 1.5})
	d := configured(t, "report: 1s\n", "--slots", "4", "--policy", resizing)
	// The shape of a model for which fsdp4 promises most; that of the script is tiny.
	options := &plan.Options{Model: plan.Model{Parameters: 1e9, Layers: 2, Hidden: 32, Heads: 4, Sequence: 16384, Batch: 8}}
	for _, name := range []string{"fsdp4", "fsdp2-tp2", "tp2"} {
		p, err := plan.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		options.List = append(options.List, p)
	}
	id := d.run(api.Submission{
		Spec: sched.Spec{GPUs: 4, MinGPUs: 2, MaxGPUs: 4},
		Task: api.Task{Name: "gpt", Plans: options, Env: map[string]string{"PYTHONPATH": absolute(t, "../python/src")}},
	}, python, script, "gpt", dir, "1000000")
	t.Cleanup(func() {
		if t.Failed() {
			var log bytes.Buffer
			err := d.Logs(context.Background(), id, api.LogQuery{Tail: 200}, &log)
			t.Logf("log of %s (%v):\n%s", id, err, log.String())
		}
	})
	// measured waits until the job has measured its steps under a plan on slots of its, and
	// returns their seconds.
	measured := func(name string, enough func(step float64) bool) (step float64) {
		t.Helper()
		var j api.Job
		if !holds(patience, func() bool {
			var err error
			if j, err = d.Job(context.Background(), id); err != nil || j.Plan == nil || j.Plan.String() != name || j.Status.Perf == nil {
				return false
			}
			for _, c := range j.Status.Perf.Plans {
				for _, s := range c.Known {
					if s.Plan == *j.Plan && enough(s.Step) {
						step = s.Step
						return true
					}
				}
			}
			return false
		}) {
			t.Fatalf("the job is %s, plan %v, %+v; want steps under %s", j.State, j.Plan, j.Status.Perf, name)
		}
		return step
	}
	any := func(float64) bool { return true }
	slow := measured("fsdp4", any)
	busy := d.run(api.Submission{Spec: sched.Spec{GPUs: 2}}, shell(fmt.Sprintf("while [ ! -e %s/go ]; do sleep 0.1; done", dir))...)
	measured("tp2", any)
	d.kill()
	d.start()
	write(t, filepath.Join(dir, "go"), "")
	d.until(busy, api.Finished)
	measured("fsdp2-tp2", any)
	out, err := d.cli(nil, "explain", string(id))
	if err != nil || !strings.Contains(out, "fsdp2-tp2, ") || !strings.Contains(out, "fsdp4 would be ") {
		t.Errorf("explained as %s (%v)", out, err)
	}
	pace(map[string]float64{"fsdp2-tp2": 3 * slow})
	measured("fsdp2-tp2", func(step float64) bool { return step > slow })
	for _, verb := range []string{"pause", "resume"} {
		if out, err := d.cli(nil, verb, string(id)); err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
	}
	pace(map[string]float64{})
	measured("fsdp4", func(step float64) bool { return step != slow })
	if out, err := d.cli(nil, "cancel", string(id)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.until(id, api.Cancelled)
	compareLosses(t, dir, python, script, "fsdp4", "tp2", "fsdp2-tp2", "fsdp4")
}

// loss is a line of the script's log.
type loss struct {
	step int
	plan string
	loss float64
}

func losses(t *testing.T, dir string) (out []loss) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "losses"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l loss
		if err := json.Unmarshal([]byte(line), &[]any{&l.step, &l.plan, &l.loss}); err != nil {
			break // the last line of a job that was killed
		}
		out = append(out, l)
	}
	return out
}

// compareLosses compares what a job has logged with the plans that it was to train under, and
// with a run of its script by one process.
func compareLosses(t *testing.T, dir, python, script string, route ...string) {
	t.Helper()
	got := losses(t, dir)
	var plans []string
	for i, l := range got {
		if i == 0 || l.plan != got[i-1].plan {
			plans = append(plans, l.plan)
		}
		if i > 0 && l.step > got[i-1].step+1 {
			t.Errorf("step %d follows step %d; want none left out", l.step, got[i-1].step)
		}
	}
	if !slices.Equal(plans, route) {
		t.Errorf("it trained under %v; want %v", plans, route)
	}
	alone := t.TempDir()
	last := slices.MaxFunc(got, func(a, b loss) int { return a.step - b.step }).step
	cmd := exec.Command(python, script, "gpt", alone, strconv.Itoa(last+1))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+absolute(t, "../python/src"), "OMP_NUM_THREADS=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := losses(t, alone)
	const tolerance = 1e-3 // of rounding, which grows with the steps
	worst := 0.0
	for _, l := range got {
		worst = max(worst, math.Abs(l.loss/want[l.step].loss-1))
	}
	t.Logf("%d steps under %v: losses within %.1e of an undisturbed run, from %.3f to %.3f", len(got), plans, worst, want[0].loss, want[last].loss)
	if !(worst < tolerance) {
		t.Errorf("a loss differs by %g from that of an undisturbed run; want at most %g", worst, tolerance)
	}
}
