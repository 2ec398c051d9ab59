// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

func TestMetrics(t *testing.T) {
	f := newFake()
	c := config(f)
	c.Metrics = NewMetrics()
	c.Deliveries = func() []api.Delivery { return []api.Delivery{{Target: "ops", Failed: 7, Error: "no"}} }
	r := start(t, c)
	at := time.Unix(1000, 0)
	event := func(kind sched.EventKind, id sched.JobID, after time.Duration, change ...func(*sched.Event)) api.Record {
		e := &sched.Event{Kind: kind, Job: id, At: at.Add(after)}
		for _, f := range change {
			f(e)
		}
		return api.Record{Event: e}
	}
	spec := func(e *sched.Event) { e.Spec = &sched.Spec{ID: e.Job} }
	f.feed.add(
		event(sched.JobSubmitted, "a", 0, spec),
		event(sched.JobStarted, "a", 10*time.Second),
		event(sched.JobStopped, "a", 20*time.Second),
		event(sched.JobStarted, "a", 50*time.Second),
		event(sched.JobStopped, "a", 60*time.Second, func(e *sched.Event) { e.Moving = true }),
		event(sched.JobStarted, "a", 60*time.Second),
		event(sched.JobFailed, "a", 70*time.Second),
		api.Record{Exit: &api.Exit{Code: 1, Finding: &diagnose.Finding{Reason: "network", Category: diagnose.Infrastructure}, Next: "tried again in 1m"}},
		api.Record{Exit: &api.Exit{Code: 1, Finding: &diagnose.Finding{Reason: "program-bug", Category: diagnose.User}, Next: "not retried: it is a bug"}},
		api.Record{Exit: &api.Exit{}},
		event(sched.JobEnded, "a", 80*time.Second, func(e *sched.Event) { e.Phase = sched.Failed }),
	)
	c.Metrics.ObserveDecision(20*time.Millisecond, nil)
	c.Metrics.ObserveDecision(time.Millisecond, errors.New("no"))
	c.Metrics.ObserveAppend(3*time.Millisecond, nil)
	ask(t, "GET", r.plain+"/v1/jobs/some-id", "", "Authorization", asViewer)
	ask(t, "GET", r.plain+"/v1/whatever", "", "Authorization", asViewer)
	ask(t, "POST", r.plain+"/v1/agent/report", `{"done":1}`, "Authorization", "Bearer attempt")
	want := []string{
		`fairway_jobs{state="running"} 3`, `fairway_jobs{state="waiting"} 3`, `fairway_queue_length 3`,
		`fairway_gpus 3`, `fairway_gpus_held 3`, `fairway_tenant_gpus{tenant="x"} 3`,
		`fairway_wait_seconds_sum 40`, `fairway_wait_seconds_count 3`,
		`fairway_notification_failures_total{target="ops"} 7`, `fairway_starts_total 3`, `fairway_restarts_total 2`, `fairway_preemptions_total 1`, `fairway_moves_total 1`, `fairway_failures_total 1`,
		`fairway_ends_total{phase="failed"} 1`,
		`fairway_failure_reasons_total{category="infrastructure",outcome="retried",reason="network"} 1`,
		`fairway_failure_reasons_total{category="user",outcome="given-up",reason="program-bug"} 1`,
		`fairway_decisions_total{result="ok"} 1`, `fairway_decisions_total{result="error"} 1`, `fairway_decision_seconds_count 2`,
		`fairway_store_append_seconds_count 1`,
		`fairway_http_requests_total{code="200",method="GET",route="/v1/jobs/{id}"} 1`,
		`fairway_http_requests_total{code="404",method="GET",route="none"} 1`,
		`fairway_agent_reports_total{result="ok"} 1`,
		`fairway_gpu_utilisation{gpu="3",node="x"} 0.5`, `fairway_gpu_memory_used_bytes{gpu="3",node="x"} 3`,
		`fairway_build_info{version="test"} 1`, `go_goroutines `, `process_open_fds `,
	}
	eventually(t, func() error {
		a := ask(t, "GET", r.plain+"/metrics", "", "Authorization", asAdmin)
		var missing []string
		for _, w := range want {
			if !strings.Contains(a.body, "\n"+w) {
				missing = append(missing, w)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("missing %q in\n%s", missing, a.body)
		}
		return nil
	})
	// Those of other tenants are for admins only, unless metrics are public.
	a := ask(t, "GET", r.plain+"/metrics", "", "Authorization", asViewer)
	if a.status != 200 || strings.Contains(a.body, `tenant="x"`) || !strings.Contains(a.body, "fairway_gpus_held 3") {
		t.Errorf("a viewer of another tenant is told, status %d:\n%s", a.status, a.body)
	}
	for role, want := range map[string]bool{asAdmin: true, asViewer: false} {
		a := ask(t, "GET", r.plain+"/v1/overview", "", "Authorization", role)
		if got := strings.Contains(a.body, `{"target":"ops","failed":7,"error":"no"}`); a.status != 200 || got != want {
			t.Errorf("%s sees the deliveries: %t; want %t, in %s", role, got, want, a.body)
		}
	}
}
