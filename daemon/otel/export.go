// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Config says where traces go.
type Config struct {
	// Endpoint is the address of a collector, such as http://127.0.0.1:4318; empty: no
	// traces are sent.
	Endpoint string            `json:"endpoint"`
	Headers  map[string]string `json:"headers"` // of each request, such as for its authentication
}

// Validate says what is wrong with the configuration.
func (c *Config) Validate() error {
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("otel.endpoint = %.80s; want an address such as http://127.0.0.1:4318, or nothing", c.Endpoint)
	}
	for name, v := range c.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n") || strings.ContainsAny(v, "\r\n") {
			return fmt.Errorf("otel.headers: %.40q cannot be a header; want a name and a value in one line", name)
		}
	}
	return nil
}

// address is where the collector takes traces.
func (c *Config) address() string {
	base := strings.TrimSuffix(c.Endpoint, "/")
	if strings.HasSuffix(base, "/v1/traces") {
		return base
	}
	return base + "/v1/traces"
}

// Source is what an exporter reads: the state.
type Source interface {
	Watch(ctx context.Context, who api.Identity, f api.RecordFilter, send func(api.Record) error) error
	Overview(api.Identity) (api.Overview, error)
	Explain(api.Identity, sched.JobID) (api.Explanation, error)
}

// Exporter sends traces.
type Exporter struct {
	Config
	Source Source
	Log    *slog.Logger
	// Pause is the wait before the second try; 0: a second. It doubles.
	Pause time.Duration
}

const (
	tries    = 4
	maxQueue = 1000 // jobs that have ended and are not sent
	timeout  = 10 * time.Second
	// maxSteps bounds the jobs whose first step is remembered.
	maxSteps = 100_000
)

// ended is a job whose trace is due.
type ended struct {
	job       sched.JobID
	firstStep time.Time
}

// Run sends the trace of each job that ends, until the context ends. A collector that is
// away costs traces and a line in the log, nothing else.
func (x *Exporter) Run(ctx context.Context) error {
	who := api.Identity{User: "otel", Role: api.Admin}
	o, err := x.Source.Overview(who)
	if err != nil {
		return err
	}
	due := make(chan ended, maxQueue)
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.send(ctx, who, due)
	}()
	steps := map[sched.JobID]time.Time{}
	err = x.Source.Watch(ctx, who, api.RecordFilter{After: o.Seq}, func(r api.Record) error {
		e := r.Event
		if e == nil {
			return nil
		}
		switch e.Kind {
		case sched.JobReported:
			if _, seen := steps[e.Job]; !seen && e.Done > 0 && len(steps) < maxSteps {
				steps[e.Job] = r.At
			}
		case sched.JobEnded:
			select {
			case due <- ended{e.Job, steps[e.Job]}:
			default:
				x.Log.Warn("too many jobs have ended at once: a trace is not sent", "job", e.Job)
			}
			delete(steps, e.Job)
		}
		return nil
	})
	close(due)
	<-done
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// send sends traces one after another.
func (x *Exporter) send(ctx context.Context, who api.Identity, due <-chan ended) {
	client := &http.Client{
		Timeout: timeout,
		// A redirect would take the headers, which may be secret, anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	away := false
	for d := range due {
		if ctx.Err() != nil {
			return
		}
		e, err := x.Source.Explain(who, d.job)
		if err != nil {
			continue // forgotten already
		}
		err = x.try(ctx, client, trace(e, d.firstStep))
		switch {
		case err != nil && !away:
			x.Log.Warn("cannot send traces; those of jobs that end meanwhile are lost", "endpoint", x.Endpoint, "err", err)
		case err == nil && away:
			x.Log.Info("traces are sent again", "endpoint", x.Endpoint)
		}
		away = err != nil
	}
}

// try sends a trace, and tries again if the collector is away or busy.
func (x *Exporter) try(ctx context.Context, client *http.Client, t request) error {
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	pause := x.Pause
	if pause == 0 {
		pause = time.Second
	}
	for n := 1; ; n++ {
		again, err := x.post(ctx, client, body)
		if err == nil || !again || n == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			pause *= 2
		}
	}
}

func (x *Exporter) post(ctx context.Context, client *http.Client, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.address(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, v := range x.Headers {
		r.Header.Set(name, v)
	}
	resp, err := client.Do(r)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	busy := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
	return busy, fmt.Errorf("HTTP %d: %.200q", resp.StatusCode, answer)
}
