// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// The JSON of OTLP (ExportTraceServiceRequest), as far as it is used. Times are
// nanoseconds in text, because they exceed what a number of JSON holds exactly.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Events     []event     `json:"events,omitempty"`
		Status     status      `json:"status"`
	}
	event struct {
		Time       string      `json:"timeUnixNano"`
		Name       string      `json:"name"`
		Attributes []attribute `json:"attributes,omitempty"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string  `json:"stringValue,omitempty"`
		Int    *string  `json:"intValue,omitempty"` // 64 bits are text
		Double *float64 `json:"doubleValue,omitempty"`
	}
)

const (
	kindInternal = 1
	statusOK     = 1
	statusError  = 2
)

func text(key, s string) attribute { return attribute{key, value{String: &s}} }

func count(key string, n int) attribute {
	s := strconv.Itoa(n)
	return attribute{key, value{Int: &s}}
}

func seconds(key string, f float64) attribute { return attribute{key, value{Double: &f}} }

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// trace returns the trace of a job that has ended. firstStep is when it took its first
// step; zero: nobody saw it. The same job has the same ids, whoever makes its trace.
func trace(e api.Explanation, firstStep time.Time) request {
	j := e.Job
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", j.ID, j.Submitted.UnixNano()))
	id := hex.EncodeToString(sum[:16])
	spanID := func(n int) string {
		s := sha256.Sum256(fmt.Appendf(nil, "%s %d", id, n))
		return hex.EncodeToString(s[:8])
	}
	root := span{
		TraceID: id, SpanID: spanID(0), Name: "job " + string(j.ID), Kind: kindInternal, Start: nanos(j.Submitted), End: nanos(j.Ended),
		Attributes: []attribute{
			text("fairway.job", string(j.ID)), text("fairway.name", j.Name), text("fairway.user", j.User), text("fairway.tenant", string(j.Tenant)), text("fairway.app", string(j.App)),
			text("fairway.state", j.State), text("fairway.policy", e.Policy), count("fairway.gpus", j.GPUs), count("fairway.starts", j.Status.Starts),
			count("fairway.preemptions", j.Status.Preemptions), seconds("fairway.gpu_seconds", j.Status.GPUSeconds), seconds("fairway.lost_gpu_seconds", e.Price.LostS),
		},
		Status: outcome(j),
	}
	note := func(at time.Time, name string, more ...attribute) {
		if !at.IsZero() {
			root.Events = append(root.Events, event{nanos(at), name, more})
		}
	}
	note(j.Submitted, "submitted")
	note(j.Status.FirstStart, "decided")
	spans := []span{}
	open, began := -1, j.Submitted // the attempt that runs, and when the present wait began
	add := func(name string, from, to time.Time, attributes ...attribute) int {
		spans = append(spans, span{TraceID: id, SpanID: spanID(1 + len(spans)), Parent: root.SpanID, Name: name, Kind: kindInternal, Start: nanos(from), End: nanos(to), Attributes: attributes})
		return len(spans) - 1
	}
	closeOpen := func(l api.Entry) {
		if open >= 0 {
			spans[open].End = nanos(l.At)
			spans[open].Attributes = append(spans[open].Attributes, text("fairway.end", l.Verb), text("fairway.end_reason", l.Why), seconds("fairway.lost_gpu_seconds", l.LostS))
		}
		open = -1
	}
	for _, l := range e.Ledger {
		if l.InPlace && l.From > 0 && l.To > 0 {
			continue // the attempt went on
		}
		if l.From > 0 {
			closeOpen(l)
			began = l.At
		}
		if l.To > 0 {
			if l.At.After(began) {
				add("wait", began, l.At)
			}
			if l.Verb == "start" {
				note(l.At, "started", count("fairway.attempt", l.Attempt), count("fairway.gpus", l.To))
			}
			open = add("attempt", l.At, j.Ended, count("fairway.attempt", l.Attempt), count("fairway.gpus", l.To), text("fairway.reason", l.Why))
		}
	}
	if len(e.Ledger) == 0 || open < 0 && e.Ledger[len(e.Ledger)-1].Verb != "end" && j.Ended.After(began) {
		add("wait", began, j.Ended)
	}
	note(firstStep, "first step")
	note(j.Ended, "ended", text("fairway.state", j.State))
	return request{[]resourceSpans{{
		Resource:   resource{[]attribute{text("service.name", "fairway")}},
		ScopeSpans: []scopeSpans{{Scope: scope{"fairway"}, Spans: append([]span{root}, spans...)}},
	}}}
}

// outcome says how a job ended. One that was cancelled is neither.
func outcome(j api.Job) status {
	switch j.State {
	case api.Finished:
		return status{Code: statusOK}
	case api.Failed:
		why := j.Why
		if why == "" && j.Exit != nil {
			why = j.Exit.Text()
		}
		return status{Code: statusError, Message: why}
	}
	return status{}
}
