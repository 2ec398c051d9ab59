// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// The settings of the trainer.
const (
	steps = 4000
	every = 20 // steps between two checkpoints
)

const audited = 200 * time.Millisecond

var flags = []string{"-steps", strconv.Itoa(steps), "-every", strconv.Itoa(every), "-pace", "20ms"}

// TestGang: an elastic job on two real nodes grows from one pod to two, makes way for
// another job, grows again, and loses a node. It resumes from its checkpoint each time,
// and ends with the numbers of an undisturbed training.
func TestGang(t *testing.T) {
	t.Parallel() // each test here has its own cluster, and waits most of the time
	w := newWorld(t, 1, "pollux:interval=2s:restart=100ms")
	elastic := w.job(t, "elastic", flags...)
	least, most := int32(1), int32(2)
	elastic.Spec.MinGPUs, elastic.Spec.MaxGPUs = &least, &most
	w.submit(t, elastic)
	stop := w.Auditor(kubetest.AuditOptions{}).Throughout(t, audited)
	defer stop()

	w.waitRunning(t, elastic, 2) // it starts on one
	other := w.job(t, "other", flags...)
	w.submit(t, other)
	w.waitRunning(t, elastic, 1)
	w.waitRunning(t, other, 1)
	w.hurry(t, "other")
	w.waitFinished(t, other)
	w.waitRunning(t, elastic, 2)

	lost := elastic.Status.Attempt
	if err := w.KillNode("real-1"); err != nil {
		t.Fatal(err)
	}
	w.waitRunning(t, elastic, 1)
	w.hurry(t, "elastic")
	w.waitFinished(t, elastic)
	w.logEvents(t, elastic)
	if elastic.Status.Failures != 0 {
		t.Errorf("%d attempts of the job count as failed; want none: it was the node", elastic.Status.Failures)
	}
	// It starts on one rank, perhaps too briefly for a step.
	want := []int{2, 1, 2, 1}
	if got := checkWork(t, w, elastic, int(lost)); len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("the ranks of its attempts were %v; want %v at the end", got, want)
	}
	checkWork(t, w, other, 0)
}

// checkWork checks that every step was made, once if the job could save its work, with
// the results of an undisturbed training. The attempt lost could not save its work. It
// returns the number of ranks of each attempt.
func checkWork(t *testing.T, w *world, job *v1alpha1.TrainingJob, lost int) []int {
	t.Helper()
	alone := t.TempDir()
	reference := exec.CommandContext(within(t, patience), w.program, "-folder", alone, "-steps", strconv.Itoa(steps), "-every", strconv.Itoa(every))
	if out, err := reference.CombinedOutput(); err != nil {
		t.Fatalf("train alone: %v: %s", err, out)
	}
	want := map[int]string{}
	for _, s := range readLedger(t, alone) {
		want[s.step] = s.loss
	}
	attempt, last := 0, 0
	var worlds []int
	for _, s := range readLedger(t, w.folder(job.Name)) {
		if s.attempt != attempt {
			if again := last + 1 - s.step; s.step > last+1 || again > 0 && attempt != lost || again > every {
				t.Errorf("job %s: attempt %d begins with step %d, after attempt %d ended with %d", job.Name, s.attempt, s.step, attempt, last)
			} else if again > 0 {
				t.Logf("job %s: attempt %d was lost with its node, and %d steps were made again", job.Name, attempt, again)
			}
			attempt, worlds = s.attempt, append(worlds, s.world)
		} else if s.step != last+1 {
			t.Errorf("job %s: step %d comes after %d", job.Name, s.step, last)
		}
		if s.loss != want[s.step] {
			t.Fatalf("job %s: the loss of step %d on %d ranks is %s; want %s", job.Name, s.step, s.world, s.loss, want[s.step])
		}
		last = s.step
	}
	if last != steps {
		t.Errorf("job %s: the last step is %d; want %d", job.Name, last, steps)
	}
	got, err := os.ReadFile(filepath.Join(w.folder(job.Name), "checkpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := os.ReadFile(filepath.Join(alone, "checkpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, same) {
		t.Errorf("job %s: its parameters are not those of a training that nobody disturbed", job.Name)
	}
	return worlds
}

// entry is a step that was made.
type entry struct {
	attempt, world, step int
	loss                 string // its bits
}

// readLedger reads the steps of a job, except one that is still being written.
func readLedger(t *testing.T, folder string) []entry {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, "ledger.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []entry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e entry
		if n, _ := fmt.Sscanf(lines.Text(), "attempt %d world %d step %d loss %16s", &e.attempt, &e.world, &e.step, &e.loss); n == 4 && len(e.loss) == 16 {
			out = append(out, e)
		}
	}
	return out
}
