// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// line is what a script of testdata/newcomer logs before a step.
type line struct {
	Position float64 `json:"position"`
	At       float64 `json:"at"` // Unix time
	Loss     float64 `json:"loss"`
	World    int     `json:"world"`
	Attempt  int     `json:"attempt"`
}

// read returns what a script has logged.
func read(t *testing.T, log string) []line {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []line
	for in := bufio.NewScanner(f); in.Scan(); {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v in %q", log, err, in.Text())
		}
		out = append(out, l)
	}
	return out
}

// checkSteps fails if a step is missing, was taken twice, or made the loss jump.
func checkSteps(t *testing.T, lines []line, end, batch float64) {
	t.Helper()
	if want := int(end / batch); len(lines) != want {
		t.Errorf("%d steps were logged; want %d", len(lines), want)
	}
	for i, l := range lines {
		if want := batch * float64(i); l.Position != want {
			t.Fatalf("attempt %d is at %g when it should be at %g", l.Attempt, l.Position, want)
		}
		if i > 0 && l.Loss > 1.5*lines[i-1].Loss+0.05 {
			t.Errorf("the loss jumps from %g to %g at %g, attempt %d", lines[i-1].Loss, l.Loss, l.Position, l.Attempt)
		}
	}
}

// checkTrue compares what the daemon says of a finished job with what it logged.
func (n *newcomer) checkTrue(t *testing.T, id sched.JobID, lines []line, work float64) {
	t.Helper()
	e, err := n.Explain(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Job.Status; s.Done != work || s.CheckpointedWork > work {
		t.Errorf("%g done, %g saved; want %g done", s.Done, s.CheckpointedWork, work)
	}
	for _, l := range e.Ledger {
		if l.Lost != 0 {
			t.Errorf("%s of attempt %d: %g lost; no step was", l.Verb, l.Attempt, l.Lost)
		}
	}
	n.checkCheckpoints(t, id, lines, e.Job.Status.Starts > 1)
	n.checkAway(t, e.Ledger, lines)
	n.checkRates(t, id, lines)
}

// checkCheckpoints compares the work saved at each stop with the step that the next
// attempt began with.
func (n *newcomer) checkCheckpoints(t *testing.T, id sched.JobID, lines []line, stopped bool) {
	t.Helper()
	page, err := n.Events(context.Background(), api.RecordFilter{Job: id, Limit: api.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	saved, stops := 0.0, 0
	for _, r := range page.Records {
		switch {
		case r.Event != nil && r.Event.Kind == sched.JobCheckpoint:
			saved = r.Event.Done
		case r.Exit != nil && r.Exit.Yielded:
			stops++
			if r.Exit.Unsaved > 0 || r.Exit.Text() != "saved its work and made room" {
				t.Errorf("attempt %d: %s", r.Exit.Number, r.Exit.Text())
			}
			i := slices.IndexFunc(lines, func(l line) bool { return l.Attempt > r.Exit.Number })
			if i < 0 || lines[i].Position != saved {
				t.Errorf("attempt %d saved %g; the next one began at %+v", r.Exit.Number, saved, lines[max(0, i)])
			}
		}
	}
	if stops == 0 && stopped {
		t.Error("no attempt saved its work and made room")
	}
}

// checkAway compares the time away with the time between the last step of an attempt and
// the first of a later one. An attempt may be stopped before its first step.
func (n *newcomer) checkAway(t *testing.T, ledger []api.Entry, lines []line) {
	t.Helper()
	away, gaps, stops := 0.0, 0.0, 0.0
	for _, l := range ledger {
		if away += l.Away; l.Ongoing {
			t.Errorf("%s of attempt %d: a job that has ended is still away", l.Verb, l.Attempt)
		}
		if l.Away > 0 { // in place, it is measured from step to step
			stops++
		}
	}
	slow := 0.0
	for i := 1; i < len(lines); i++ {
		took := lines[i].At - lines[i-1].At
		if lines[i].Attempt > lines[i-1].Attempt || lines[i].World != lines[i-1].World {
			gaps += took
		} else {
			slow = max(slow, took)
		}
	}
	// It begins with the request to stop, before the last step, and ends with the report
	// of the first step, after a line in the log; so a step before and one after may count.
	if away < gaps-(1+slow)*stops || away > gaps+(5+slow)*stops {
		t.Errorf("%.1f s away in %g stops; %.1f s passed between the steps around them, and other steps took up to %.1f s", away, stops, gaps, slow)
	}
}

// checkRates compares the reported rates with the steps of the seconds before.
func (n *newcomer) checkRates(t *testing.T, id sched.JobID, lines []line) {
	t.Helper()
	points, err := n.Points(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	const window = 4 // seconds: of the reports that the rate is a mean of
	reported, measured, most, count := 0.0, 0.0, 0.0, 0
	for _, p := range points {
		at := float64(p.At.UnixNano()) / float64(time.Second)
		var in []line
		for _, l := range lines {
			if l.At > at-window && l.At <= at && (len(in) == 0 || l.Attempt == in[0].Attempt) {
				in = append(in, l)
			}
		}
		if p.Rate == 0 || len(in) < 3 {
			continue
		}
		last := in[len(in)-1]
		truth := (last.Position - in[0].Position) / (last.At - in[0].At)
		reported, measured, count = reported+p.Rate, measured+truth, count+1
		most = max(most, p.Rate/truth)
	}
	// On a busy machine the speed changes from second to second, and the seconds that a
	// rate is of are not quite those of the log.
	allowed := 0.1
	if busy() {
		allowed = 0.4
	}
	switch off := math.Abs(reported/measured - 1); {
	case count < 5:
		t.Errorf("%d reports with a rate; want 5 or more", count)
	case off > allowed || most > 3:
		t.Errorf("the mean of the rates is off by %.0f %%, and one is %.1f times the truth; want at most %.0f %% and 3 times", 100*off, most, 100*allowed)
	default:
		t.Logf("the mean of %d rates is off by %.1f %%", count, 100*off)
	}
}

// busy reports whether other programs, or other machines of the same host, compete for
// the cores.
func busy() bool {
	b, err := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(b), " ")
	n, bad := strconv.ParseFloat(load, 64)
	return err != nil || bad != nil || n > 2*float64(runtime.NumCPU()) || stolen() > 0.1
}

// stolen returns the part of the time of this machine's cores that its host gave to others.
func stolen() float64 {
	b, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(b), "\n")
	all, steal := 0.0, 0.0
	for i, field := range strings.Fields(first) {
		n, _ := strconv.ParseFloat(field, 64)
		if all += n; i == 8 { // see proc(5)
			steal = n
		}
	}
	return steal / max(1, all)
}
