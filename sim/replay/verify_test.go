// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/sim/replay"
)

func verify(t *testing.T, records []api.Record, guarded bool) *replay.Verdict {
	t.Helper()
	o := replay.VerifyOptions{Build: policy.Builtin().New, First: "fifo"}
	if guarded {
		g, err := guard.New(guard.Default())
		if err != nil {
			t.Fatal(err)
		}
		o.Guard = g
	}
	v, err := replay.Verify(records, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVerify: every decision of a daemon can be taken again from its journal,
// whatever happened while the policy thought, and whichever policy it was.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, name := range policy.Builtin().Names() {
		if policy.Builtin().About(name).Oracle {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, name, queue(3, 24, true))
			records := d.run(2*time.Hour, nil)
			v := verify(t, records, true)
			if v.Decisions < 15 || v.Same != v.Decisions || v.Different != 0 || v.Guessed != 0 {
				t.Errorf("verdict is %+v; want 15 decisions or more, all the same", v)
			}
			t.Logf("%d records, %d decisions, %d actions, %d overtaken", v.Records, v.Decisions, v.Actions, v.Overtaken)
		})
	}
}

// TestVerifyChange: the policy changes, jobs are paused, and nothing of it
// confuses the replay.
func TestVerifyChange(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "fifo", queue(4, 24, false))
	cancelled := 0
	d.meddle = func(n int, actions []sched.Action) {
		if n > 12 && cancelled < 3 && len(actions) > 0 && actions[len(actions)-1].Verb == sched.Start {
			cancelled++
			_, err := d.state.Command(t.Context(), admin, actions[len(actions)-1].Job.ID, api.Cancel)
			d.must(err)
		}
	}
	records := d.run(2*time.Hour, func(n int) {
		switch n {
		case 10:
			_, err := d.state.SetPolicy(t.Context(), admin, "las", false)
			d.must(err)
		case 20, 30:
			c := api.Pause
			if n == 30 {
				c = api.Resume
			}
			_, err := d.state.Command(t.Context(), admin, d.state.Attempts()[0].Job, c)
			d.must(err)
		case 40:
			_, err := d.state.SetPolicy(t.Context(), admin, "srtf", false)
			d.must(err)
		}
	})
	v := verify(t, records, true)
	if v.Same != v.Decisions || v.Decisions < 15 || v.Overtaken == 0 {
		t.Errorf("verdict is %+v; want all the same, and some actions overtaken", v)
	}
}

// TestVerifyTampered: a journal that was changed, or another policy, shows.
func TestVerifyTampered(t *testing.T) {
	t.Parallel()
	records := newDaemon(t, "las", queue(5, 16, false)).run(2*time.Hour, nil)
	v, err := replay.Verify(records, replay.VerifyOptions{
		Build: func(string) (sched.Policy, error) { return policy.Builtin().New("fifo") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Different == 0 || len(v.Differences) == 0 || v.Same+v.Different != v.Decisions {
		t.Errorf("under another policy the verdict is %+v; want differences", v)
	}
	moved := 0
	for i := range records {
		e := records[i].Event
		if e != nil && e.Kind == sched.JobStarted && e.Placement.GPUs() == 1 && moved == 0 {
			p := e.Placement[0]
			p.GPUs = 1 << 7
			if e.Placement[0] == p {
				p.GPUs = 1
			}
			e.Placement, moved = sched.Placement{p}, i
		}
	}
	v = verify(t, records, true)
	if v.Different == 0 || v.Differences[0].Seq > records[moved].Seq || len(v.Differences[0].Recorded) == 0 || len(v.Differences[0].Again) == 0 {
		t.Errorf("after a placement was changed in record %d the verdict is %+v; want a difference there", moved+1, v)
	}
}

// TestVerifyGuessed: journals whose decisions do not say what they were taken on.
func TestVerifyGuessed(t *testing.T) {
	t.Parallel()
	records := newDaemon(t, "fifo", queue(6, 16, false)).run(2*time.Hour, nil)
	for i := range records {
		records[i].Basis = nil
		records[i].Policy = "" // as journals were before the first policy was a record
	}
	v := verify(t, records, true)
	if v.Guessed != v.Decisions || v.Same < v.Decisions*8/10 {
		t.Errorf("verdict is %+v; want all guessed, and most of them right", v)
	}
	_, err := replay.Verify(records, replay.VerifyOptions{Build: policy.Builtin().New})
	if err == nil || !strings.Contains(err.Error(), "does not name the first policy") {
		t.Errorf("without a first policy the error is %v; want one that asks for it", err)
	}
	if _, err = replay.Verify(records[3:], replay.VerifyOptions{Build: policy.Builtin().New, First: "fifo"}); err == nil || !strings.Contains(err.Error(), "record 1 is missing") {
		t.Errorf("without the beginning the error is %v; want one that says so", err)
	}
}
