// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// resizing grows an elastic job onto idle slots after a second, and shrinks it when
// another job waits.
const resizing = "gandiva:grow_after=1s:max_height=1:moves=0:pack=false"

// newcomer is a new user: a daemon, a Python with PyTorch and a folder for logs.
type newcomer struct {
	*daemon
	python, dir string
}

// TestNewcomer: what a new user tries first. No script loses a step or sees its loss
// jump, whether it knows Fairway or not; those that can are resized on the way, and the
// numbers shown about them are true.
func TestNewcomer(t *testing.T) {
	python := withTorch()
	if python == "" {
		t.Skip("NOT TESTED: no Python with PyTorch (FAIRWAY_PYTHON, python3, /usr/bin/python3, python/.venv/bin/python)")
	}
	n := &newcomer{daemon: configured(t, "report: 1s\n", "--slots", "2", "--policy", "pollux:interval=1s"), python: python, dir: t.TempDir()}
	try := func(name string, path func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			before := n.daemon.t
			n.daemon.t = t
			defer func() { n.daemon.t = before }()
			path(t)
		})
	}
	try("plain script", func(t *testing.T) { n.untouched(t) })
	try("PyTorch without an agent", func(t *testing.T) { n.untouched(t, "torch") })
	try("DDP without an agent", n.ddp)
	try("callback", n.callback)
	if _, err := n.SetPolicy(context.Background(), resizing, false); err != nil {
		t.Fatal(err)
	}
	try("agent", n.agent)
}

// withTorch returns a Python that has PyTorch; empty: there is none.
func withTorch() string {
	for _, p := range []string{os.Getenv("FAIRWAY_PYTHON"), "python3", "/usr/bin/python3", "../python/.venv/bin/python"} {
		if path, err := exec.LookPath(p); err == nil && exec.Command(path, "-c", "import torch.distributed").Run() == nil {
			return path
		}
	}
	return ""
}

// command returns how a script of testdata/newcomer is run, and where it logs.
func (n *newcomer) command(t *testing.T, script string, args ...string) (command []string, log string) {
	t.Helper()
	path := absolute(t, filepath.Join("testdata", "newcomer", script))
	log = filepath.Join(n.dir, filepath.Base(t.Name()))
	return append([]string{n.python, path, log}, args...), log
}

func (n *newcomer) submit(t *testing.T, spec sched.Spec, command []string) sched.JobID {
	t.Helper()
	s := api.Submission{Spec: spec, Task: api.Task{Name: "job", Env: map[string]string{"PYTHONPATH": absolute(t, "../python/src")}}}
	id := n.run(s, command...)
	t.Cleanup(func() {
		if t.Failed() {
			var log bytes.Buffer
			err := n.Logs(context.Background(), id, api.LogQuery{Tail: 200}, &log)
			t.Logf("log of %s (%v):\n%s", id, err, log.String())
		}
	})
	return id
}

// untouched runs a script that cannot save, as the README submits one, beside jobs that
// come later.
func (n *newcomer) untouched(t *testing.T, args ...string) {
	const steps = 60
	command, log := n.command(t, "plain.py", append([]string{strconv.Itoa(steps)}, args...)...)
	id := n.submit(t, sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 2}, command)
	n.until(id, api.Running)
	later := []sched.JobID{n.run(api.Submission{Spec: sched.Spec{GPUs: 2}}, "true"), n.run(api.Submission{Spec: sched.Spec{GPUs: 1}}, "sleep", "1")}
	j := n.until(id, api.Finished)
	if j.Status.Starts != 1 || j.Status.MostGPUs != 1 {
		t.Errorf("started %d times on up to %d slots; want once on 1", j.Status.Starts, j.Status.MostGPUs)
	}
	checkSteps(t, read(t, log), steps, 1)
	for _, id := range later {
		n.until(id, api.Finished)
	}
}

// ddp runs a gang that cannot save: both ranks train one model, to the end.
func (n *newcomer) ddp(t *testing.T) {
	const steps = 60
	command, log := n.command(t, "ddp.py", strconv.Itoa(steps))
	id := n.submit(t, sched.Spec{GPUs: 2}, command)
	n.until(id, api.Running)
	later := n.run(api.Submission{Spec: sched.Spec{GPUs: 1}}, "true")
	if j := n.until(id, api.Finished); j.Status.Starts != 1 {
		t.Errorf("started %d times; want once", j.Status.Starts)
	}
	first, second := read(t, log+"-0"), read(t, log+"-1")
	checkSteps(t, first, steps, 1)
	for i := range first {
		if i >= len(second) || first[i].Loss != second[i].Loss || first[i].World != 2 {
			t.Fatalf("step %d: the ranks of a gang of %d have losses %g and %+v; want one model", i, first[i].World, first[i].Loss, second[i:])
		}
	}
	n.until(later, api.Finished)
}

// callback pauses and resumes a trainer that saves by its own means.
func (n *newcomer) callback(t *testing.T) {
	const steps = 300
	command, log := n.command(t, "callback.py", strconv.Itoa(steps))
	id := n.submit(t, sched.Spec{GPUs: 1}, command)
	n.reaches(t, id, 80)
	for _, c := range []struct {
		do   api.Command
		want string
	}{{api.Pause, api.Paused}, {api.Resume, api.Running}} {
		if _, err := n.Command(context.Background(), id, c.do); err != nil {
			t.Fatal(err)
		}
		n.until(id, c.want)
	}
	if j := n.until(id, api.Finished); j.Status.Starts != 2 {
		t.Errorf("started %d times; want twice", j.Status.Starts)
	}
	lines := read(t, log)
	checkSteps(t, lines, steps, 1)
	n.checkTrue(t, id, lines, steps)
}

// agent lets a job of the README's few lines grow and shrink.
func (n *newcomer) agent(t *testing.T) {
	const epochs, batch = 100, 16
	const work = 64 * epochs
	command, log := n.command(t, "agent.py", strconv.Itoa(epochs))
	id := n.submit(t, sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 2}, command)
	n.holds(t, id, 2)
	n.reaches(t, id, work/3)
	other := n.run(api.Submission{Spec: sched.Spec{GPUs: 1}}, "sleep", "4")
	n.until(other, api.Finished)
	j := n.until(id, api.Finished)
	lines := read(t, log)
	checkSteps(t, lines, work+batch, batch) // the last line is after the last step
	n.checkTrue(t, id, lines, work)
	if j.Status.Starts != 1 {
		t.Errorf("started %d times; want once: it can change in place", j.Status.Starts)
	}
	if j.Status.Moves < 2 || j.Status.Preemptions > 0 || j.Status.Failures > 0 {
		t.Errorf("%d moves, %d preemptions, %d failures; want 2 moves or more and nothing else", j.Status.Moves, j.Status.Preemptions, j.Status.Failures)
	}

	alone := append(slices.Clone(command[:2]), log+"-alone", strconv.Itoa(epochs))
	run := exec.Command(alone[0], alone[1:]...)
	run.Env = append(os.Environ(), "STEP=0", "PYTHONPATH="+absolute(t, "../python/src"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := read(t, log+"-alone")
	for i := range min(len(lines), len(want)) {
		if got, want := lines[i].Loss, want[i].Loss; math.Abs(got-want) > 1e-3*want+1e-6 {
			t.Fatalf("loss %g after %g examples on %d slots; undisturbed it is %g", got, lines[i].Position, lines[i].World, want)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reaches waits until a job has reported so much work.
func (n *newcomer) reaches(t *testing.T, id sched.JobID, done float64) {
	t.Helper()
	waitFor(t, patience, func() bool {
		j, err := n.Job(context.Background(), id)
		return err == nil && j.Status.Done >= done
	})
}

// holds waits until a job runs on so many slots.
func (n *newcomer) holds(t *testing.T, id sched.JobID, slots int) {
	t.Helper()
	waitFor(t, patience, func() bool {
		j, err := n.Job(context.Background(), id)
		return err == nil && j.State == api.Running && j.Status.Placement.GPUs() == slots
	})
}
