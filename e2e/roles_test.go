// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// lesson is a line of the log of examples/rl_post_training.py.
type lesson struct {
	step, workers, process int
	reward                 float64
}

// TestRoles: the reinforcement learning of the examples on a real daemon. Its rollout
// workers grow onto idle slots and make room for another job while the trainer, always the
// same process, learns on; when it is paused it saves its work, and goes on from there; it
// finishes although its workers would go on for ever.
func TestRoles(t *testing.T) {
	t.Parallel()
	python := withTorch()
	if python == "" {
		t.Skip("no Python with PyTorch; name one with FAIRWAY_PYTHON")
	}
	d := configured(t, "report: 1s\n", "--slots", "4", "--policy", resizing)
	text, err := os.ReadFile("../examples/rl_post_training.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	submit := func(steps int) sched.JobID {
		t.Helper()
		file := filepath.Join(dir, "rl.yaml")
		write(t, file, strings.NewReplacer("python3", absolute(t, python), ", trainer]", fmt.Sprintf(", trainer, --steps, %d]", steps)).Replace(string(text)))
		out, err := d.cli(nil, "submit", "-f", file, "--dir", absolute(t, ".."), "--env", "PYTHONPATH="+absolute(t, "../python/src"))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		id, _, _ := strings.Cut(out, "\n")
		return sched.JobID(id)
	}
	id := submit(1_000_000)
	lessons := func() (out []lesson) {
		var log bytes.Buffer
		if err := d.Logs(context.Background(), id, api.LogQuery{}, &log); err != nil {
			return nil
		}
		for line := range strings.Lines(log.String()) {
			var l lesson
			if n, _ := fmt.Sscanf(line, "step %d reward %g workers %d process %d", &l.step, &l.reward, &l.workers, &l.process); n == 4 {
				out = append(out, l)
			}
		}
		return out
	}
	// learns waits for a lesson, and returns it.
	learns := func(what string, ok func(lesson) bool) (l lesson) {
		t.Helper()
		if !holds(patience, func() bool {
			all := lessons()
			if len(all) > 0 {
				l = all[len(all)-1]
			}
			return len(all) > 0 && ok(l)
		}) {
			j, err := d.Job(context.Background(), id)
			out, _ := d.cli(nil, "logs", string(id), "--all-ranks", "--tail", "50")
			t.Fatalf("waited in vain for %s: last %+v; the job is %s with %d slots (%v)\n%s", what, l, j.State, j.Status.Placement.GPUs(), err, out)
		}
		return l
	}
	first := learns("three workers", func(l lesson) bool { return l.workers == 3 })
	for _, args := range [][]string{{"explain", string(id)}, {"ps"}} {
		if out, err := d.cli(nil, args...); err != nil || !strings.Contains(out, "trainer 1, rollout 3 (1 to 3)") {
			t.Errorf("%q prints %s (%v); want how its slots are divided", args, out, err)
		}
	}
	busy := d.run(api.Submission{Spec: sched.Spec{GPUs: 2}}, shell(fmt.Sprintf("while [ ! -e %s/go ]; do sleep 0.1; done", dir))...)
	d.until(busy, api.Running)
	few := learns("one worker", func(l lesson) bool { return l.workers == 1 })
	learns("a step of one worker", func(l lesson) bool { return l.workers == 1 && l.step > few.step })
	write(t, filepath.Join(dir, "go"), "")
	d.until(busy, api.Finished)
	many := learns("three workers again", func(l lesson) bool { return l.workers == 3 && l.step > few.step })
	best := learns("a good reward", func(l lesson) bool { return l.reward > 0.9 })
	if first.process != few.process || first.process != many.process || first.process != best.process {
		t.Errorf("the trainer was the processes %d, %d, %d and %d; want one", first.process, few.process, many.process, best.process)
	}
	all := lessons()
	for i := range all[1:] {
		if all[i+1].step != all[i].step+20 {
			t.Errorf("the line of step %d follows that of step %d", all[i+1].step, all[i].step)
		}
	}
	for _, verb := range []string{"pause", "resume"} {
		if out, err := d.cli(nil, verb, string(id)); err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
	}
	after := learns("another attempt", func(l lesson) bool { return l.process != best.process })
	if after.step <= best.step || after.reward < 0.8 {
		t.Errorf("it goes on with step %d and a reward of %g; want more than step %d, as good", after.step, after.reward, best.step)
	}
	j, err := d.Job(context.Background(), id)
	if err != nil || j.Status.Failures != 0 {
		t.Errorf("%d failures (%v); want none", j.Status.Failures, err)
	}
	t.Logf("steps %d (3 workers), %d (1), %d (3), rewards %.2f, %.2f, %.2f; paused after step %d, goes on with %.2f", first.step, few.step, many.step, first.reward, few.reward, many.reward, best.step, after.reward)
	if out, err := d.cli(nil, "cancel", string(id)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.until(id, api.Cancelled)
	d.until(submit(40), api.Finished)
}
