// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// report is the part of an agent's report that this agent sends.
type report struct {
	Done       float64   `json:"done"`
	Work       float64   `json:"work"`
	Rate       float64   `json:"rate,omitempty"`
	Checkpoint bool      `json:"checkpoint,omitempty"`
	Complete   bool      `json:"complete,omitempty"`
	Training   *measures `json:"training,omitempty"`
}

// measures are what policies that resize jobs need.
type measures struct {
	Limits  map[string]int   `json:"limits"`
	Fixed   int              `json:"fixed"`
	Samples []map[string]any `json:"samples"`
}

// agent reports to Fairway. Training continues whether or not a report succeeds.
type agent struct {
	environment
	work       int
	last       time.Time
	step, sync time.Duration // since the last report
	count      int
}

func newAgent(e environment, s settings) *agent {
	return &agent{environment: e, work: s.steps, last: time.Now()}
}

// measured records the steps done so far, the time of the last one and the part of it
// spent waiting for other ranks, and reports periodically.
func (a *agent) measured(done int, step, sync time.Duration) {
	a.step, a.sync, a.count = a.step+step, a.sync+sync, a.count+1
	if time.Since(a.last) < a.reportEvery {
		return
	}
	n := float64(a.count)
	const batch = partsOfStep * partExamples
	mean := a.step.Seconds() / n
	m := &measures{
		Limits: map[string]int{"initial": batch, "max": batch, "local_min": partExamples, "local_max": batch}, Fixed: batch,
		Samples: []map[string]any{{
			"nodes": a.nodes, "gpus": a.world, "local": batch / a.world, "step": mean, "sync": min(a.sync.Seconds()/n, mean/2), "count": n,
		}},
	}
	a.step, a.sync, a.count, a.last = 0, 0, 0, time.Now()
	a.tell(report{Done: float64(done), Work: float64(a.work), Rate: 1 / mean, Training: m})
}

func (a *agent) tell(r report) {
	if a.api == "" {
		return
	}
	if err := a.post(r); err != nil {
		fmt.Fprintln(os.Stderr, "trainer: no report:", err)
	}
}

func (a *agent) post(r report) error {
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	request, err := http.NewRequest(http.MethodPost, a.api+"/v1/agent/report", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := (&http.Client{Timeout: 3 * time.Second}).Do(request)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("report: %s", response.Status)
	}
	return nil
}
