// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestUnjoined: a gang without an agent whose processes have not met after a minute
// is told so, once for each attempt.
func TestUnjoined(t *testing.T) {
	joined := false
	d := open(t, func(c *Config) { c.Joined = func(api.AttemptID) (bool, bool) { return joined, true } })
	start := func(s api.Submission, gpus ...int) sched.JobID {
		id := d.submit(ann, s)
		d.decide(wants{id: on(gpus...)})
		d.Started(api.AttemptID{Job: id, Number: 1})
		return id
	}
	check := func() {
		t.Helper()
		if err := d.CheckGangs(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	id := start(submission("x", 2), 0, 1)
	d.clock.add(50 * time.Second)
	check()
	if w := d.job(id).Warning; w != "" {
		t.Errorf("after 50 s: %q; want nothing yet", w)
	}
	d.clock.add(10 * time.Second)
	check()
	if w := d.job(id).Warning; !strings.HasPrefix(w, "2 processes run the same script and have not joined") {
		t.Errorf("after a minute: %q", w)
	}
	page, err := d.Records(admin, api.RecordFilter{Job: id, Kind: "job-warned"})
	if err != nil || len(page.Records) != 1 || page.Records[0].Text == "" {
		t.Errorf("events %+v, %v; want one warning", page.Records, err)
	}
	seq := d.mem.Seq
	check()
	if d.mem.Seq != seq {
		t.Error("warned twice")
	}
	d.wantDurable()

	for name, edit := range map[string]func(*api.Submission){
		"joined":      func(*api.Submission) { joined = true },
		"one process": func(s *api.Submission) { s.Single = true },
		"one GPU":     func(s *api.Submission) { s.GPUs = 1 },
	} {
		s := submission("y", 2)
		joined = false
		edit(&s)
		gpus := []int{2, 3}[:s.GPUs]
		y := start(s, gpus...)
		d.clock.add(2 * time.Minute)
		check()
		if w := d.job(y).Warning; w != "" {
			t.Errorf("%s: %q; want no warning", name, w)
		}
		d.command(y, api.Cancel)
		d.exited(exitOf(y, 1))
	}
}
