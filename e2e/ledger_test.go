// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// account is one line of the ledger: what a chaos test did, and what of the things
// that must not be lost was lost. All but the counts of what was looked at must be
// zero.
type account struct {
	what, dose string

	acked, lost       int // jobs that the daemon acknowledged; those it no longer knows
	ended, again      int // jobs that were seen to have ended; those that ran again or ended otherwise
	begun, behind     int // attempts; those that began before the last checkpoint
	saved, stepsAgain int // checkpoints; steps that had to be made again although they were saved
	violations        int // jobs that ran twice at a time, or slots that two held
}

var ledger struct {
	mu   sync.Mutex
	rows []account
}

// printLedger prints what the chaos tests found, if any has run.
func printLedger() {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if len(ledger.rows) == 0 {
		return
	}
	fmt.Println("\nThe ledger: what was done, and what of the things that must not be lost was lost.")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "trial\tacknowledged jobs\tlost\tended jobs\tran again\tattempts\tbegan before checkpoint\tcheckpoints\tsteps lost\tviolations\tdose")
	for _, a := range ledger.rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n",
			a.what, a.acked, a.lost, a.ended, a.again, a.begun, a.behind, a.saved, a.stepsAgain, a.violations, a.dose)
	}
	w.Flush()
}

// account lets every job come to its end, accounts for each, and writes a line of the
// ledger.
func (u *users) account(what, dose string) {
	u.t.Helper()
	u.stop()
	jobs := u.drain()
	a := account{what: what, dose: dose, acked: len(u.acked)}
	if v, err := os.ReadFile(filepath.Join(u.out, "violations")); err == nil {
		u.t.Errorf("violations:\n%s", v)
		a.violations = strings.Count(string(v), "\n")
	}
	known := map[sched.JobID]api.Job{}
	for _, j := range jobs {
		if _, twice := known[j.ID]; twice {
			u.t.Errorf("job %s is listed twice", j.ID)
		}
		known[j.ID] = j
		u.checkJob(j)
		u.checkSteps(j, &a)
	}
	for id := range u.acked {
		if _, ok := known[id]; !ok {
			u.t.Errorf("job %s was acknowledged and is lost", id)
			a.lost++
		}
	}
	for id, then := range u.ended {
		if _, counted := u.done[id]; !counted {
			a.ended++
		}
		if now := known[id]; now.Status.Phase != then.Status.Phase || now.Status.Starts != then.Status.Starts {
			u.t.Errorf("job %s had ended as %s after %d starts, and is now %s after %d", id, then.Status.Phase, then.Status.Starts, now.Status.Phase, now.Status.Starts)
			a.again++
		}
	}
	for id, then := range u.done {
		a.ended++
		if now := u.begun(id); now != then {
			u.t.Errorf("job %s had finished after %d attempts, and then began %d more", id, then, now-then)
			a.again++
		}
	}
	ledger.mu.Lock()
	ledger.rows = append(ledger.rows, a)
	ledger.mu.Unlock()
	u.t.Logf("%s, %s: %s", what, dose, u.summary(jobs))
}

// checkJob: a finished job has done all its steps, and none fails.
func (u *users) checkJob(j api.Job) {
	steps, _ := strconv.Atoi(j.Command[1])
	text, _ := os.ReadFile(filepath.Join(u.out, string(j.ID)+".done"))
	done, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case j.Status.Phase == sched.Finished && done != steps:
		u.t.Errorf("job %s is finished with %d of %d steps", j.ID, done, steps)
	case j.Status.Phase == sched.Failed:
		u.t.Errorf("job %s failed in attempt %d: %s; %s", j.ID, j.Exit.Number, j.Exit.Text(), j.Exit.Next)
	}
}

// checkSteps: no attempt ran twice, none ran that was not started, and each began
// with the last checkpoint. A worker that is killed between its checkpoint and its
// note of it begins with what it tried to save; one of Python's, which does not note that,
// one step later.
func (u *users) checkSteps(j api.Job, a *account) {
	text, err := os.ReadFile(filepath.Join(u.out, string(j.ID)+".steps"))
	if err != nil {
		return // never ran
	}
	attempt, saved, tried := 0, 0, 0
	for line := range strings.Lines(string(text)) {
		var what string
		var number, step int
		if n, _ := fmt.Sscan(line, &what, &number, &step); n != 3 {
			u.t.Errorf("job %s: its notes have the line %q", j.ID, line)
			continue
		}
		switch what {
		case "saved":
			a.saved++
			saved = step
			continue
		case "tries":
			tried = step
			continue
		}
		a.begun++
		if number <= attempt || number > j.Status.Starts && !u.rewound {
			u.t.Errorf("job %s: attempt %d ran after %d; want ascending numbers up to %d", j.ID, number, attempt, j.Status.Starts)
		}
		attempt = number
		if step < saved {
			u.t.Errorf("job %s: attempt %d began with step %d, but step %d was saved", j.ID, number, step, saved)
			a.behind++
			a.stepsAgain += saved - step
		}
		if step > max(saved+1, tried) {
			u.t.Errorf("job %s: attempt %d began with step %d, but only step %d was saved", j.ID, number, step, saved)
		}
		tried = step
	}
}

func (u *users) summary(jobs []api.Job) string {
	phases := map[string]int{}
	var starts, preempted, moved int
	for _, j := range jobs {
		phases[j.Status.Phase.String()]++
		starts += j.Status.Starts
		preempted += j.Status.Preemptions
		moved += j.Status.Moves
	}
	return fmt.Sprintf("%d jobs acknowledged, %d known (%v), %d starts, %d preemptions, %d moves", len(u.acked), len(jobs), phases, starts, preempted, moved)
}

// checkAgents: jobs with the Python agent were among those that were accounted for, some
// were started again, and the daemon heard of what they saved.
func (u *users) checkAgents() {
	u.t.Helper()
	finished, again, kept := 0, 0, 0
	for j, err := range u.d.List(context.Background(), api.JobFilter{Limit: 1000}) {
		if err != nil {
			u.t.Fatal(err)
		}
		if j.Name != agentJob || j.Status.Phase != sched.Finished {
			continue
		}
		finished++
		if j.Status.Starts > 1 {
			again++
		}
		if j.Status.CheckpointedWork > 0 {
			kept++
		}
	}
	u.t.Logf("%d jobs with the Python agent finished: %d were started again, %d reported what they saved", finished, again, kept)
	if finished == 0 || again == 0 || kept == 0 {
		u.t.Error("want some of each")
	}
}
