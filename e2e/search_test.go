// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// trainer is the program of the trials: its loss falls towards its parameter. It
// reports every step to the agent's endpoint, saves when asked to stop, and holds a
// lock while it runs, which reveals a trial that runs twice. It waits for a daemon that
// is down, and at each rung: otherwise it would finish before the search has compared
// it.
const trainer = `
import fcntl, http.client, json, math, os, signal, socket, sys, time
out, job = sys.argv[1], os.environ["FAIRWAY_JOB"]
x = float(os.environ["FAIRWAY_PARAM_X"])
assert sys.argv[2] == os.environ["FAIRWAY_PARAM_X"], sys.argv
lock = open(os.path.join(out, job + ".lock"), "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(os.path.join(out, "violations"), "a").write(job + " runs twice\n")
saved = os.path.join(os.environ["FAIRWAY_CHECKPOINT_DIR"], "step")
step = int(open(saved).read()) if os.path.exists(saved) else 0
leave = []
signal.signal(signal.SIGTERM, lambda *_: leave.append(1))

class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(os.environ["FAIRWAY_API"].removeprefix("unix://"))

def report(**body):
    while not leave:
        try:
            c = Unix("fairway")
            c.request("POST", "/v1/agent/report", json.dumps(body), {"Authorization": "Bearer " + os.environ["FAIRWAY_TOKEN"]})
            c.getresponse().read()
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)

while step < 27:
    time.sleep(0.06)
    step += 1
    report(done=step, work=27, point={"metrics": {"error": x + math.exp(-step / 8)}})
    open(saved, "w").write(str(step))
    if step in (3, 9) and not leave:
        time.sleep(0.5)
    if leave:
        sys.exit(75)
open(os.path.join(out, job + ".done"), "w").write(str(step))
`

// TestSearch runs a real search with real processes, kills the daemon repeatedly, and
// accounts for every trial.
func TestSearch(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	out := t.TempDir()
	script := filepath.Join(out, "trainer.py")
	if err := os.WriteFile(script, []byte(trainer), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, shortDir(t), "--slots", "3")
	ctx := context.Background()
	spec := api.SearchSpec{
		ID: "sweep", Method: "grid", Metric: api.Metric{Name: "error"}, AtOnce: 3, Key: "once",
		Parameters: map[string]api.Parameter{"x": {Values: []string{"5", "3", "6", "0", "7", "2", "4", "1"}}},
		Stopping:   api.StopRule{Rule: "asha", Min: 3, Max: 27, Eta: 3},
	}
	spec.Trial.Command, spec.Trial.GPUs = []string{python, script, out, "{x}"}, 1
	if _, err := d.CreateSearch(ctx, spec); err != nil {
		t.Fatal(err)
	}
	begin, kills := time.Now(), 0
	look := func() api.Search {
		s, err := d.Search(ctx, "sweep")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := look()
	for !s.Over() {
		if !holds(2*patience, func() bool { s = look(); return s.Over() || len(s.Trials) >= 2+2*kills && kills < 4 }) {
			t.Fatalf("no end: %+v", s)
		}
		if !s.Over() {
			kills++
			d.kill()
			d.start()
			if again, err := d.CreateSearch(ctx, spec); err != nil || len(again.Trials) < len(s.Trials) {
				t.Fatalf("after kill %d: %d trials, %v; want the same search with its %d", kills, len(again.Trials), err, len(s.Trials))
			}
		}
	}
	if all, err := d.Searches(ctx); err != nil || len(all) != 1 || all[0].ID != s.ID || len(all[0].Trials) != 8 || all[0].Trials[0].Curve != nil {
		t.Errorf("searches: %+v, %v; want one, without curves", all, err)
	}
	checkSearch(t, s)
	checkTrialJobs(t, d, s, out)
	t.Logf("%s in %.1f s with %d kills: %s", s.State, time.Since(begin).Seconds(), kills, s.Why)
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

func checkSearch(t *testing.T, s api.Search) {
	t.Helper()
	if s.State != api.Finished || len(s.Trials) != 8 || s.Best == nil || *s.Best != 3 {
		t.Fatalf("%s, %d trials, best %v: %s; want 8 trials, the fourth the best", s.State, len(s.Trials), s.Best, s.Why)
	}
	if best := s.Trials[3]; best.State != api.Finished || best.Params["x"] != "0" || best.Done != 27 || best.Rung != 2 {
		t.Errorf("the best trial: %+v; want it finished", best)
	}
	early := 0
	for _, trial := range s.Trials {
		switch {
		case trial.Early && trial.State == api.Cancelled && trial.Why != "" && trial.Done < 27:
			early++
		case trial.State != api.Finished:
			t.Errorf("trial %d: %s, %q after %g; want it finished or stopped early", trial.Number, trial.State, trial.Why, trial.Done)
		}
	}
	if early < 4 || !s.Trials[4].Early {
		t.Errorf("%d trials were stopped early, the worst: %v; want most of them", early, s.Trials[4].Early)
	}
}

// checkTrialJobs checks that there is one job for each trial, and no other.
func checkTrialJobs(t *testing.T, d *daemon, s api.Search, out string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(out, "violations")); err == nil {
		t.Errorf("violations:\n%s", text)
	}
	page, err := d.Page(context.Background(), api.JobFilter{App: "sweep", Limit: 100})
	if err != nil || page.Total != 8 {
		t.Fatalf("%d jobs, %v; want 8", page.Total, err)
	}
	trials := map[sched.JobID]api.Trial{}
	for _, trial := range s.Trials {
		trials[trial.Job] = trial
	}
	for _, j := range page.Jobs {
		trial, known := trials[j.ID]
		if !known || j.State != trial.State {
			t.Errorf("job %s is %s; its trial: %+v", j.ID, j.State, trial)
		}
		_, err := os.Stat(filepath.Join(out, string(j.ID)+".done"))
		if done := err == nil; done != (j.State == api.Finished) {
			t.Errorf("job %s is %s; it came to its end: %v", j.ID, j.State, done)
		}
		if trial.Early {
			e, err := d.Explain(context.Background(), j.ID)
			if n := len(e.Ledger); err != nil || n > 0 && e.Ledger[n-1].Verb == "end" && !strings.Contains(e.Ledger[n-1].Why, "stopped early: ") {
				t.Errorf("job %s was stopped early; its ledger ends %+v, %v", j.ID, e.Ledger, err)
			}
		}
	}
}
