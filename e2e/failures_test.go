// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// table is a custom signature file: one new reason, and shorter waits.
const table = `
reasons:
  - id: licence
    text: the licence server refused
    category: infrastructure
    retry: {budget: 2, after: 1s, say: ask for more licences}
    signatures: [{has: [licence server refused]}]
  - id: network
    retry: {budget: 3, after: 1s, avoid_node: true, say: try again}
  - id: host-out-of-memory
    retry: {budget: 1, after: 1s, more: memory, say: ask for more}
`

// configured starts a daemon with a configuration file.
func configured(t *testing.T, text string, args ...string) *daemon {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "fairway.yaml")
	write(t, filepath.Join(dir, "table.yaml"), table)
	write(t, file, fmt.Sprintf("failures: {table: %s/table.yaml}\npace: 10ms\n%s", dir, text))
	return startDaemon(t, shortDir(t), append([]string{"--config", file}, args...)...)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *daemon) run(s api.Submission, command ...string) sched.JobID {
	d.t.Helper()
	s.Command = command
	j, err := d.Submit(context.Background(), s)
	if err != nil {
		d.t.Fatal(err)
	}
	return j.ID
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// until waits until a job is in a state, and returns the job.
func (d *daemon) until(id sched.JobID, state string) api.Job {
	d.t.Helper()
	var j api.Job
	if !holds(patience, func() bool {
		var err error
		j, err = d.Job(context.Background(), id)
		return err == nil && j.State == state
	}) {
		d.t.Fatalf("job %s is %s (%+v, not before %s, decided %q); want %s", id, j.State, j.Reason, j.Status.NotBefore, next(j.Exit), state)
	}
	return j
}

// TestFailures: real processes fail for real reasons, and each is handled accordingly.
func TestFailures(t *testing.T) {
	t.Parallel()
	d := configured(t, "", "--slots", "4", "--policy", "fifo")
	dir := t.TempDir()
	task := func(name string, retries int) api.Submission {
		return api.Submission{Spec: sched.Spec{GPUs: 1}, Task: api.Task{Name: name, Retries: retries}}
	}
	bug := shell(`printf 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nNameError: name modle is not defined\n' >&2; exit 1`)
	if python, err := exec.LookPath("python3"); err == nil {
		bug = []string{python, "-c", "modle.train()"}
	}
	broken := d.run(task("bug", 3), bug...)
	// It fails twice: at once, and again after the daemon was killed.
	flaky := d.run(task("flaky", 3), shell(fmt.Sprintf(
		`echo x >> %[1]s/tries; n=$(wc -l < %[1]s/tries); [ $n -gt 2 ] || { [ $n = 1 ] || until [ -e %[1]s/killed ]; do sleep 0.05; done; `+
			`echo "ConnectionRefusedError: [Errno 111] Connection refused" >&2; exit 1; }`, dir))...)
	mine := d.run(task("mine", 0), shell(`echo "the licence server refused"; exit 9`)...)
	fat := task("fat", 2)
	fat.Memory = 256 << 20
	large := d.run(fat, shell(fmt.Sprintf(`[ -e %[1]s/fat ] || { touch %[1]s/fat; echo "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0." >&2; exit 1; }`, dir))...)

	j := d.until(broken, api.Failed)
	if f := j.Exit.Finding; j.Status.Starts != 1 || f == nil || f.Reason != "program-bug" || f.Category != diagnose.User ||
		!strings.Contains(f.Evidence.Text, "NameError") || !strings.Contains(j.Exit.Next, "not retried") {
		t.Errorf("the bug: %d starts, %+v, %q; want one, found and not tried again", j.Status.Starts, f, j.Exit.Next)
	}
	if j := d.until(mine, api.Failed); j.Exit.Finding == nil || j.Exit.Finding.Reason != "licence" {
		t.Errorf("the reason of the operator's table: %+v", j.Exit.Finding)
	}
	waitFor(t, patience, func() bool { j, err := d.Job(context.Background(), flaky); return err == nil && j.Status.Failures == 1 })
	d.kill() // in the middle of its back-off
	d.start()
	write(t, filepath.Join(dir, "killed"), "")
	j = d.until(flaky, api.Finished)
	if j.Status.Starts != 3 || j.Status.Failures != 2 {
		t.Errorf("the flaky one: %d starts, %d failures; want 3 and 2", j.Status.Starts, j.Status.Failures)
	}
	if j := d.until(large, api.Finished); j.Memory != 384<<20 || j.Status.Starts != 2 {
		t.Errorf("out of memory: asks for %d MiB after %d starts; want 384 after 2", j.Memory>>20, j.Status.Starts)
	}
	d.blame(t)
}

// TestOutOfMemory: a process that takes more memory than its job asked for is ended, by
// its control group or else by its own limit. The daemon survives and knows why it ended.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: no python3")
	}
	d := configured(t, "", "--slots", "1", "--policy", "fifo")
	pid := d.cmd.Process.Pid
	s := api.Submission{Spec: sched.Spec{GPUs: 1, Memory: 128 << 20}, Task: api.Task{Name: "hungry", Retries: 1}}
	id := d.run(s, shell(`ulimit -v 2000000; exec `+python+` -c 'first = bytearray(512 << 20); second = bytearray(4 << 30)'`)...)
	var j api.Job
	waitFor(t, patience, func() bool { j, err = d.Job(context.Background(), id); return err == nil && j.Exit != nil })
	if f := j.Exit.Finding; f == nil || f.Reason != "host-out-of-memory" || j.Status.Failures != 1 {
		t.Errorf("after %d failures: %+v; want one, out of host memory", j.Status.Failures, f)
	}
	t.Logf("%s", j.Exit.Text())
	if _, err := d.Command(context.Background(), id, api.Cancel); err != nil {
		t.Error(err)
	}
	next := d.until(d.run(api.Submission{Spec: sched.Spec{GPUs: 1}}, "true"), api.Finished)
	if d.cmd.Process.Pid != pid || d.overview().Problem != "" {
		t.Errorf("the daemon was started again, or says %q; want that it survived and ran %s", d.overview().Problem, next.ID)
	}
}

// blame makes jobs of three users fail because of the node: the quarantine is withheld
// and reported, because it is the only node.
func (d *daemon) blame(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	for _, user := range []string{"ann", "bob", "eve"} {
		s := api.Submission{Spec: sched.Spec{GPUs: 1, User: user}}
		d.until(d.run(s, shell(`echo "RuntimeError: NCCL error: unhandled system error" >&2; exit 1`)...), api.Failed)
	}
	page, err := d.Events(ctx, api.RecordFilter{Kind: "node-withheld", Limit: 10})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("%d warnings, %v; want one", len(page.Records), err)
	}
	nodes, err := d.Nodes(ctx)
	if err != nil || nodes[0].State != sched.Ready || nodes[0].Quarantine == nil {
		t.Errorf("node %+v, %v; want it in use, with a warning", nodes, err)
	}
}

// TestScreen: a gang that crashes at the start never gets its four slots; one that
// works runs on one slot first and then gets them.
func TestScreen(t *testing.T) {
	t.Parallel()
	d := configured(t, "screen: {time: 3s}\nnotice: 1m\n", "--slots", "4", "--policy", "fifo@screen:idle=0")
	dir := t.TempDir()
	gang := api.Submission{Spec: sched.Spec{GPUs: 4}, Task: api.Task{Preemptible: new(true)}}
	bad := d.run(gang, shell(fmt.Sprintf(`echo $WORLD_SIZE >> %s/bad; exec python-that-is-not-there`, dir))...)
	if j := d.until(bad, api.Failed); j.Status.MostGPUs != 1 || j.Exit.Finding == nil {
		t.Errorf("the bad gang had %d slots, %+v; want 1 at most", j.Status.MostGPUs, j.Exit.Finding)
	}
	good := d.run(gang, shell(fmt.Sprintf(`echo $WORLD_SIZE $FAIRWAY_SCREENING >> %s/good; trap 'exit 75' TERM; [ $WORLD_SIZE = 4 ] || { sleep 60 & wait; }`, dir))...)
	j := d.until(good, api.Finished)
	if j.Status.MostGPUs != 4 || !j.Status.ProbationPassed || j.Status.Preemptions > 0 || j.Status.Starts != 2 {
		t.Errorf("the good gang: %+v; want proven, then four slots", j.Status)
	}
	worlds, _ := os.ReadFile(filepath.Join(dir, "good"))
	lines := strings.Split(strings.TrimSpace(string(worlds)), "\n")
	if len(lines) != 5 || lines[0] != "1 1" || slices.Contains(lines[1:], "1 1") {
		t.Errorf("worlds %q; want one of 1 that is screened, then one of 4", lines)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "bad")); string(text) != "1\n" {
		t.Errorf("the bad gang ran with world sizes %q; want only 1", text)
	}
}

// TestShare: two jobs share one slot at the same time, and their output shows it.
func TestShare(t *testing.T) {
	t.Parallel()
	d := configured(t, "", "--slots", "1", "--policy", "fifo@share")
	flag := filepath.Join(t.TempDir(), "go")
	s := api.Submission{Spec: sched.Spec{GPUs: 1, Shareable: true, GPUUtil: 0.2, GPUMemory: 1 << 20}}
	wait := shell("until [ -e " + flag + " ]; do sleep 0.05; done")
	a, b := d.run(s, wait...), d.run(s, wait...)
	d.until(a, api.Running)
	j := d.until(b, api.Running)
	if len(j.Held) != 1 || j.Held[0].Milli != 500 {
		t.Errorf("b holds %+v; want half of the slot", j.Held)
	}
	write(t, flag, "")
	d.until(a, api.Finished)
	d.until(b, api.Finished)
}

func next(e *api.Exit) string {
	if e == nil {
		return ""
	}
	return e.Cause() + ": " + e.Next
}
