// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/replay"
)

// TestReportPages: the text and the page say the same, and no name of a user can become
// part of the page, of the style or of the terminal.
func TestReportPages(t *testing.T) {
	evil := "<script>alert(1)</script>\x1b[2J"
	day := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	rows := []api.UsageRow{
		{Day: "2026-03-02", Tenant: "vision", User: "ann", GPUs: 360000, Lost: 7200, Measured: 3600, Idle: 900, Waited: 3600, Ended: 7, Failed: 2},
		{Day: "2026-03-03", Tenant: "nlp", User: evil, GPUs: 36000},
	}
	w := &week{
		From: day.AddDate(0, 0, -7), To: day, GPUs: 2, Policy: "fifo",
		Waits:    []replay.Wait{{User: evil, Holder: "ann", Time: 7200}, {User: "ann", Holder: "ann", Time: 3600}, {User: "ann", Time: 1}},
		Failures: []replay.Failure{{Text: "out of memory", Attempts: 2, Jobs: []sched.JobID{"a-1"}, Users: []string{"ann", evil}, Advice: "use less"}},
		WhatIf: []sim.Summary{
			{Policy: "as it was", AvgJCT: 1000, AvgWait: 100}, {Policy: "fifo", AvgJCT: 1000, AvgWait: 100},
			{Policy: "las", AvgJCT: 500, AvgWait: 50}, {Policy: "srtf", AvgJCT: 700, AvgWait: 50},
		},
		Missing: []string{"nothing " + evil},
	}
	for by, into := range map[string]*api.Usage{"user": &w.Users, "tenant": &w.Tenants, "day": &w.Days} {
		*into = api.Usage{By: by, From: w.From, To: day, Price: api.Price{GPUHour: 2, Currency: evil}}
		into.Rows, into.Total = api.SumUsage(rows, by)
	}
	var text, page strings.Builder
	w.print(&text, 0)
	if err := w.writeHTML(&page); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{"text": text.String(), "page": page.String()} {
		flat := strings.Join(strings.Fields(s), " ")
		for _, want := range []string{
			"110 GPU-hours were used by 2 users; 7 jobs ended, 2 of them failed.", "33 % of what 2 GPUs have",
			"2.00 GPU-hours of work were lost", "waited for ann", "waited for jobs of their own", "out of memory", "use less", "as it was",
			"Under las jobs would have taken 8.3 min on average from submission to end, instead of 16.7 min under the present policy, fifo", "220.00",
		} {
			if !strings.Contains(flat, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, s)
			}
		}
		if strings.Contains(s, "<script>alert") && name == "page" || strings.Contains(s, "\x1b") && name == "text" {
			t.Errorf("the %s passes on what a user wrote:\n%s", name, s)
		}
	}
	if strings.Contains(page.String(), "src=") || strings.Contains(page.String(), "url(") {
		t.Error("the page needs something from elsewhere")
	}
}
