// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func TestLimitText(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	j := api.Job{State: api.Waiting, Status: sched.Status{Ran: sched.Duration(time.Hour), Since: now.Add(-time.Hour)}}
	if got := limitText(j, now); got != "" {
		t.Errorf("no limit: %q", got)
	}
	j.TimeLimit = sched.Duration(3 * time.Hour)
	if got, want := limitText(j, now), "3h in all, 2h00m left"; got != want {
		t.Errorf("waiting: %q; want %q", got, want)
	}
	j.State, j.Status.Phase = api.Running, sched.Running
	if got, want := limitText(j, now), "3h in all: it is stopped at 13:00:00, in 1h00m"; got != want {
		t.Errorf("running: %q; want %q", got, want)
	}
	j.Status.Phase = sched.Failed
	if got := limitText(j, now); got != "" {
		t.Errorf("ended: %q", got)
	}
}
