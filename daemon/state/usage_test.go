// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairway-gpu/fairway/api"
)

func (d *desk) usage(who api.Identity, by string) api.Usage {
	d.t.Helper()
	u, err := d.Usage(who, api.UsageQuery{By: by})
	if err != nil {
		d.t.Fatal(err)
	}
	return u
}

// TestUsage follows jobs over midnight: what they hold, wait, lose and leave idle is
// counted on the day, and the same as the job itself says.
func TestUsage(t *testing.T) {
	d := open(t)
	now := d.clock.Now()
	d.clock.add(now.Truncate(day).Add(day - time.Hour).Sub(now)) // an hour before midnight
	x := d.submit(ann, submission("x", 2))
	y := d.submit(bob, submission("y", 1))
	d.clock.add(30 * time.Minute)
	d.run(wants{x: on(0, 1)})
	d.clock.add(90 * time.Minute) // half of it before midnight
	d.report(x, 1, api.AgentReport{Done: 10, Checkpoint: true})
	d.clock.add(30 * time.Minute)
	d.decide(wants{y: on(2)})
	lost := 0.0
	for _, l := range d.explain(ann, x).Ledger {
		lost += l.LostS
	}
	d.mem.jobs[x].gauge = gaugeUse{attempt: 1, n: 9, util: 0.75}
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: x, Number: 1}, Signal: "SIGKILL", Noticed: true})
	d.clock.add(time.Hour)
	days := d.usage(admin, "day").Rows
	if len(days) != 2 {
		t.Fatalf("%+v; want two days", days)
	}
	const h = 3600
	want := []api.UsageRow{
		{Day: days[0].Day, GPUs: 2 * h / 2, Measured: h, Idle: h / 4, Waited: 0.5*h + h},
		{Day: days[1].Day, GPUs: 2*1.5*h + h, Lost: lost, Measured: 3 * h, Idle: 3 * h / 4., Waited: h + 1.5*h},
	}
	near := cmpopts.EquateApprox(0, 1)
	if diff := cmp.Diff(want, days, near); diff != "" || lost <= 0 {
		t.Errorf("lost %g (-want +got):\n%s", lost, diff)
	}
	users := d.usage(admin, "user").Rows
	if len(users) != 2 || users[0].User != "ann" || math.Abs(users[0].GPUs-d.job(x).Status.GPUSeconds) > 1 || users[1].User != "bob" {
		t.Errorf("%+v; want what ann's and bob's job say of themselves", users)
	}
	if own := d.usage(bob, "job"); len(own.Rows) != 1 || own.Rows[0].Job != y || math.Abs(own.Total.GPUs-h) > 1 {
		t.Errorf("bob sees %+v; want his job alone", own)
	}
	if none, err := d.Usage(admin, api.UsageQuery{Until: now.Add(-day)}); err != nil || len(none.Rows) != 0 {
		t.Errorf("%+v, %v before it began; want nothing", none, err)
	}
	_, err := d.Usage(admin, api.UsageQuery{By: "colour"})
	wantCode(t, "by colour", err, api.Invalid)
	d.wantDurable()
}

// TestUsageOfForgottenJobs: what jobs used that are no longer kept still counts, after a
// compaction and a restart too.
func TestUsageOfForgottenJobs(t *testing.T) {
	d := open(t, func(c *Config) { c.Keep = 1 })
	for i := range 300 {
		id := d.submit(ann, submission("x", 1))
		d.decide(wants{id: on(0)})
		d.clock.add(time.Minute)
		e := exitOf(id, 1)
		if i%3 == 0 {
			e.Code = 1
		}
		d.exited(e)
	}
	if n := len(d.mem.jobs); n > 260 {
		t.Fatalf("%d jobs are kept; want that some are forgotten", n)
	}
	check := func(when string, u api.Usage) {
		t.Helper()
		if len(u.Rows) != 1 || u.Total.Ended != 300 || u.Total.Failed != 100 || math.Abs(u.Total.GPUs-300*60) > 1 {
			t.Errorf("%s: %+v; want 300 jobs of a minute, 100 failed", when, u)
		}
	}
	check("at once", d.usage(ann, "user"))
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantDurable()
	later := reopen(t, d.tape, d.clock, func(c *Config) { c.Keep = 1 })
	check("after a compaction", later.usage(ann, "user"))

	// Ann leaves. What she used is dropped when it is too old, though none of her jobs is
	// forgotten any more.
	for _, wait := range []time.Duration{0, (keepDays + 2) * day} {
		later.clock.add(wait)
		for range 300 {
			id := later.submit(bob, submission("x", 1))
			later.decide(wants{id: on(0)})
			later.exited(exitOf(id, 1))
		}
	}
	for key, past := range later.mem.Past {
		if strings.HasSuffix(key, ann.User) || len(past) > keepDays {
			t.Errorf("%d days of %q are kept; want none of users who left %d days ago", len(past), key, keepDays)
		}
	}
	if len(later.mem.Past) == 0 {
		t.Error("nothing is kept of bob")
	}
}

// TestUsageOfOldSnapshot: a snapshot of an earlier version lacks the tallies, but says how
// long each job held its GPUs.
func TestUsageOfOldSnapshot(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 2))
	d.decide(wants{id: on(0, 1)})
	d.clock.add(time.Hour)
	d.exited(exitOf(id, 1))
	s := d.mem.save()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var old map[string]any
	if err := json.Unmarshal(text, &old); err != nil {
		t.Fatal(err)
	}
	delete(old, "past")
	for _, x := range old["ended"].([]any) {
		delete(x.(map[string]any), "spent")
		delete(x.(map[string]any), "counted")
	}
	if text, err = json.Marshal(old); err != nil {
		t.Fatal(err)
	}
	m, err := restore(text, 10, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, u := range m.jobs[id].spent(m.At) {
		sum += u.GPUs
	}
	if math.Abs(sum-2*3600) > 1 {
		t.Errorf("%g GPU-seconds; want two hours", sum)
	}
}

// TestTally: amounts are spread over days without a rest.
func TestTally(t *testing.T) {
	var u tally
	from := time.Unix(86400*20000+86400-1000, 0)
	u.spread(from, from.Add(3*day), 300, 30)
	if len(u) != 4 || !cmp.Equal(tally{{Day: 20000}, {Day: 20001}, {Day: 20002}, {Day: 20003}}, u, cmpopts.IgnoreFields(dayUse{}, "GPUs", "Waited")) {
		t.Fatalf("%+v; want four days in order", u)
	}
	gpus := 0.0
	for _, d := range u {
		gpus += d.GPUs
	}
	if math.Abs(gpus-300) > 1e-6 || math.Abs(u[1].GPUs-100) > 1e-6 {
		t.Errorf("%g in all, %g on a whole day; want 300 and 100", gpus, u[1].GPUs)
	}
	u.measure(150, 0.5)
	if u[0].Measured != 0 || math.Abs(u[2].Idle+u[3].Idle+u[1].Idle-75) > 1e-6 {
		t.Errorf("%+v; want the last 150 measured, half of it idle", u)
	}
}
