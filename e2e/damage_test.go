// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestDamagedJournals damages the journal, or restores an older export, while users
// work. What the journal has lost is lost, but never without a word, and no job that
// has finished runs again. FAIRWAY_CHAOS_DAMAGES says how often.
func TestDamagedJournals(t *testing.T) {
	times := scale("FAIRWAY_CHAOS_DAMAGES", 2)
	d := startDaemon(t, shortDir(t), "--config", chaosConfig(t))
	u := usersOf(t, d, "true")
	file, export := filepath.Join(d.data, "journal", "journal.db"), filepath.Join(u.out, "export.jsonl")
	moments := rand.New(rand.NewPCG(9, 10))
	restored, reported := 0, 0
	for n := range times {
		time.Sleep(time.Duration(1000+moments.IntN(2000)) * time.Millisecond)
		d.journal("export", "--full", "--out", export)
		time.Sleep(time.Duration(moments.IntN(2000)) * time.Millisecond)
		d.kill()
		finished := u.finished()
		if n%3 > 0 {
			damagePage(t, file, moments)
		}
		if n%3 == 0 || d.tryStart() != nil { // as the daemon advises where it cannot go on
			d.kill()
			restored++
			d.journal("restore", "--replace", export)
			d.start()
		}
		reported += u.reckon(finished)
	}
	u.account("damaged journal", fmt.Sprintf("%d times, %d of them restored from an export; %d jobs lost and reported as lost", times, restored, reported))
}

// journal runs a journal command on the daemon's folder.
func (d *daemon) journal(command string, args ...string) {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command(path, append([]string{"journal", command, "--data", d.data}, args...)...).CombinedOutput(); err != nil {
		d.t.Fatalf("journal %s: %v\n%s", command, err, out)
	}
}

// damagePage overwrites a page of a file.
func damagePage(t *testing.T, path string, random *rand.Rand) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	noise := make([]byte, page)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	if _, err := f.WriteAt(noise, random.Int64N(info.Size()/page)*page); err != nil {
		t.Fatal(err)
	}
}

// finished returns the jobs that were seen to have finished, and how many attempts
// each had begun.
func (u *users) finished() map[sched.JobID]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := map[sched.JobID]int{}
	for id, j := range u.ended {
		if j.Status.Phase == sched.Finished {
			out[id] = u.begun(id)
		}
	}
	return out
}

// begun returns how many attempts of a job have begun.
func (u *users) begun(id sched.JobID) int {
	text, _ := os.ReadFile(filepath.Join(u.out, string(id)+".steps"))
	return strings.Count(string(text), "begin ")
}

// reckon looks, after the journal has lost its end, at which jobs are lost. It
// returns how many, and forgets them if the daemon has said so.
func (u *users) reckon(finished map[sched.JobID]int) int {
	u.t.Helper()
	u.mu.Lock()
	before := maps.Clone(u.acked)
	u.mu.Unlock()
	known := map[sched.JobID]bool{}
	for j, err := range u.d.List(context.Background(), api.JobFilter{Limit: 1000}) {
		if err != nil {
			u.t.Fatal(err)
		}
		known[j.ID] = true
	}
	said := u.d.overview().Damages
	if len(said) > 0 {
		if err := u.d.Ready(context.Background()); err == nil {
			u.t.Error("/readyz says that all is well with a journal that has lost records")
		}
		if _, err := u.d.AcknowledgeDamage(context.Background()); err != nil {
			u.t.Fatal(err)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	lost := 0
	for id := range before {
		if known[id] {
			continue
		}
		lost++
		if len(said) == 0 {
			u.t.Errorf("job %s was acknowledged and is lost without a word", id)
		}
		delete(u.acked, id)
	}
	u.rewound = true
	clear(u.ended) // what was cancelled may run again: the journal has lost that
	for id, n := range finished {
		if known[id] {
			u.done[id] = n
		}
	}
	return lost
}
