// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// descent is a training with the real agent: its loss has halved after so many steps,
// and it is as many times as fast as it has slots.
const descent = `
import sys, time
sys.path.insert(0, sys.argv[1])
import fairway
from fairway.goodput import Limits
from fairway.profile import Sample
half, batch, whole = float(sys.argv[2]), 8, 1e9
agent = fairway.init()
agent.able("resizes")
world = agent.env.world
step = int(agent.store.load() or 0)
fairway.restored(step * batch, whole)
while True:
    time.sleep(0.05)
    if agent.env.rank == 0:
        step += 10 * world
        agent.measured([Sample(1, world, -(-batch // world), 0.005 / world, 0.0)])
        agent.training(Limits(batch, batch, 1, batch), fixed=batch, noise=0.0, point={})
        fairway.progress(step * batch, whole)
        fairway.report(loss=0.1 + 2 / (1 + step / half))
    if agent.should_stop():
        if agent.env.rank == 0:
            agent.save(str(step).encode())
        agent.leave()
`

// TestLossesDecide: under slaq, of two real trainings the one whose loss still falls
// gets more slots; the losses survive a kill of the daemon, and the journal explains
// the decisions.
func TestLossesDecide(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	agent, err := filepath.Abs("../python/src")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "descent.py")
	write(t, script, descent)
	d := configured(t, "report: 1s\n", "--slots", "4", "--policy", "slaq:epoch=3s:restart=100ms")
	run := func(name, half string) sched.JobID {
		s := api.Submission{Spec: sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 4}, Task: api.Task{Name: name, Preemptible: new(true)}}
		return d.run(s, python, script, agent, half)
	}
	flat, falling := run("flat", "1"), run("falling", "1e6")
	look := func(id sched.JobID) api.Job {
		j, err := d.Job(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	var most, least api.Job
	if !holds(patience, func() bool {
		most, least = look(falling), look(flat)
		return most.Status.Placement.GPUs() == 3 && least.Status.Placement.GPUs() == 1
	}) {
		t.Fatalf("the falling loss has %d slots (%+v), the flat one %d (%+v); want 3 and 1",
			most.Status.Placement.GPUs(), most.Status.Perf, least.Status.Placement.GPUs(), least.Status.Perf)
	}
	d.kill()
	d.start()
	if after := look(falling).Status.Perf; after == nil || len(after.Losses) < len(most.Status.Perf.Losses) || len(after.StepTimes) < 2 {
		t.Errorf("after a kill: %+v; want at least the %d losses of before and two step times", after, len(most.Status.Perf.Losses))
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(path, "journal", "verify", "--journal", d.data).CombinedOutput(); err != nil {
		t.Errorf("the journal does not explain the decisions: %v\n%s", err, text)
	}
}
