// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// past is a job that was preempted once and then failed.
func past() api.Explanation {
	e := api.Explanation{Policy: "las", Ledger: []api.Entry{
		{At: at(2), Verb: "start", Attempt: 1, To: 2}, {At: at(5), Verb: "preempt", Attempt: 1, From: 2, LostS: 60},
		{At: at(7), Verb: "start", Attempt: 2, To: 4}, {At: at(9), Verb: "end", Attempt: 2, From: 4},
	}}
	e.Job.ID, e.Job.User, e.Job.Submitted, e.Job.Ended, e.Job.State, e.Job.Why = "j-1", "ann", noon, at(9), api.Failed, "out of memory"
	e.Job.Status.FirstStart = at(2)
	return e
}

// TestTrace: the spans of a job follow each other without gaps, under one root.
func TestTrace(t *testing.T) {
	spans := trace(past(), at(3)).ResourceSpans[0].ScopeSpans[0].Spans
	type brief struct {
		name     string
		from, to time.Time
	}
	want := []brief{{"job j-1", noon, at(9)}, {"wait", noon, at(2)}, {"attempt", at(2), at(5)}, {"wait", at(5), at(7)}, {"attempt", at(7), at(9)}}
	ids := map[string]bool{}
	for i, s := range spans {
		if i >= len(want) || s.Name != want[i].name || s.Start != nanos(want[i].from) || s.End != nanos(want[i].to) {
			t.Errorf("span %d is %s from %s to %s; want %+v", i, s.Name, s.Start, s.End, want[min(i, len(want)-1)])
		}
		if len(s.TraceID) != 32 || len(s.SpanID) != 16 || ids[s.SpanID] || s.TraceID != spans[0].TraceID || (i > 0) != (s.Parent == spans[0].SpanID) {
			t.Errorf("span %d has ids %s %s, parent %q", i, s.TraceID, s.SpanID, s.Parent)
		}
		ids[s.SpanID] = true
	}
	if len(spans) != len(want) || spans[0].Status != (status{statusError, "out of memory"}) {
		t.Errorf("%d spans, status %+v; want %d, and why it failed", len(spans), spans[0].Status, len(want))
	}
	var names []string
	for _, e := range spans[0].Events {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"submitted", "decided", "started", "started", "first step", "ended"}) {
		t.Errorf("events %q", names)
	}
	never := api.Explanation{}
	never.Job.ID, never.Job.Submitted, never.Job.Ended, never.Job.State = "j-2", noon, at(1), api.Cancelled
	if spans := trace(never, time.Time{}).ResourceSpans[0].ScopeSpans[0].Spans; len(spans) != 2 || spans[1].Name != "wait" || spans[0].Status != (status{}) {
		t.Errorf("%+v; want the wait of a job that never ran", spans)
	}
}

// world is a state in which one job takes a step and ends.
type world struct{}

func (world) Overview(api.Identity) (api.Overview, error) { return api.Overview{Seq: 7}, nil }

func (world) Explain(api.Identity, sched.JobID) (api.Explanation, error) { return past(), nil }

func (world) Watch(ctx context.Context, _ api.Identity, f api.RecordFilter, send func(api.Record) error) error {
	if f.After != 7 {
		return nil
	}
	for _, r := range []api.Record{
		{Text: "note"}, {At: at(3), Event: &sched.Event{Kind: sched.JobReported, Job: "j-1", Done: 1}},
		{At: at(4), Event: &sched.Event{Kind: sched.JobReported, Job: "j-1", Done: 2}}, {At: at(9), Event: &sched.Event{Kind: sched.JobEnded, Job: "j-1"}},
	} {
		if err := send(r); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestExport sends a trace to a collector that is busy at first.
func TestExport(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	got := make(chan request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var body request
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "k" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v %v", r.URL, r.Header, err)
		}
		got <- body
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	x := &Exporter{Config: Config{Endpoint: s.URL + "/", Headers: map[string]string{"X-Key": "k"}}, Source: world{}, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond}
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	root := (<-got).ResourceSpans[0].ScopeSpans[0].Spans[0]
	if i := slices.IndexFunc(root.Events, func(e event) bool { return e.Name == "first step" }); i < 0 || root.Events[i].Time != nanos(at(3)) {
		t.Errorf("events %+v; want the first step", root.Events)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNoRedirect: the headers, which may hold a key, go to the collector alone.
func TestNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s is told %v", r.URL, r.Header)
	}))
	defer elsewhere.Close()
	asked := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan struct{})
	log := slog.New(slog.NewTextHandler(writer(func(b []byte) {
		if bytes.Contains(b, []byte("HTTP 307")) {
			close(refused)
		}
	}), nil))
	x := &Exporter{Config: Config{Endpoint: s.URL, Headers: map[string]string{"X-Key": "k"}}, Source: world{}, Log: log}
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	<-asked
	<-refused
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// writer is a function that is written to.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

func TestValidate(t *testing.T) {
	for _, c := range []Config{{}, {Endpoint: "http://127.0.0.1:4318"}, {Endpoint: "https://otel.example.org/v1/traces", Headers: map[string]string{"Authorization": "Bearer x"}}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []Config{{Endpoint: "localhost:4318"}, {Endpoint: "grpc://x:4317"}, {Endpoint: "http://"}, {Endpoint: "http://x", Headers: map[string]string{"a b": "c"}}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
