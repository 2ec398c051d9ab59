// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Metrics is what the daemon observes of itself. Each has a registry of its
// own: two in one process do not see each other.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler

	decisions   *prometheus.CounterVec
	decisionSec prometheus.Histogram
	appends     *prometheus.CounterVec
	appendSec   prometheus.Histogram
	waitSec     prometheus.Histogram
	starts      prometheus.Counter
	restarts    prometheus.Counter
	preemptions prometheus.Counter
	moves       prometheus.Counter
	failures    prometheus.Counter
	reasons     *prometheus.CounterVec
	ends        *prometheus.CounterVec
	reports     *prometheus.CounterVec
	bids        *prometheus.CounterVec
	requests    *prometheus.CounterVec
	requestSec  *prometheus.HistogramVec
}

// NewMetrics makes metrics for one server.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		decisions:   counters("decisions_total", "Decisions of the policy.", "result"),
		decisionSec: histogram("decision_seconds", "Time of a decision, from the snapshot to the actions.", prometheus.ExponentialBuckets(0.0001, 3, 11)),
		appends:     counters("store_appends_total", "Writes to the journal.", "result"),
		appendSec:   histogram("store_append_seconds", "Time until a write to the journal is durable.", prometheus.ExponentialBuckets(0.0001, 2.5, 11)),
		waitSec:     histogram("wait_seconds", "Time that jobs waited, at each start.", []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600}),
		starts:      counter("starts_total", "Starts of jobs."),
		restarts:    counter("restarts_total", "Starts of jobs that had run before."),
		preemptions: counter("preemptions_total", "Jobs that the scheduler stopped to let others run."),
		moves:       counter("moves_total", "Jobs that the scheduler stopped to go on elsewhere or at another size."),
		failures:    counter("failures_total", "Attempts that ended with an error."),
		reasons:     counters("failure_reasons_total", "Attempts that ended with an error, by why.", "reason", "category", "outcome"),
		ends:        counters("ends_total", "Jobs that ended.", "phase"),
		reports:     counters("agent_reports_total", "Reports of agents.", "result"),
		bids:        counters("bids_total", "Turns of programs that bid for apps.", "result"),
		requests:    counters("http_requests_total", "Requests to the API.", "route", "method", "code"),
		requestSec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "fairway", Name: "http_request_seconds", Help: "Time to answer a request; streams until they end.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 3, 10),
		}, []string{"route"}),
	}
	m.registry.MustRegister(
		m.decisions, m.decisionSec, m.appends, m.appendSec, m.waitSec, m.starts, m.restarts, m.preemptions, m.moves,
		m.failures, m.reasons, m.ends, m.reports, m.bids, m.requests, m.requestSec,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8})
	return m
}

// ServeHTTP answers a scrape, for those who serve metrics at a place of their own.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// seenBy answers a scrape without the tenants that someone may not see.
func (m *Metrics) seenBy(who api.Identity) http.Handler {
	gather := func() ([]*dto.MetricFamily, error) {
		families, err := m.registry.Gather()
		for _, f := range families {
			f.Metric = slices.DeleteFunc(f.Metric, func(x *dto.Metric) bool {
				return slices.ContainsFunc(x.Label, func(l *dto.LabelPair) bool {
					return l.GetName() == tenantLabel && !who.Sees(sched.TenantID(l.GetValue()))
				})
			})
		}
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 }), err
	}
	return promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "fairway", Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "fairway", Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "fairway", Name: name, Help: help, Buckets: buckets})
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// ObserveDecision counts a decision and how long it took.
func (m *Metrics) ObserveDecision(d time.Duration, err error) {
	m.decisions.WithLabelValues(result(err)).Inc()
	m.decisionSec.Observe(d.Seconds())
}

// ObserveAppend counts a write to the journal and how long it took to be
// durable.
func (m *Metrics) ObserveAppend(d time.Duration, err error) {
	m.appends.WithLabelValues(result(err)).Inc()
	m.appendSec.Observe(d.Seconds())
}

// request counts an answer. Methods that the API does not have are one, or a
// client could make up as many as it likes.
func (m *Metrics) request(route, method string, status int, d time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSec.WithLabelValues(route).Observe(d.Seconds())
}

// collect adds what is asked of the services at each scrape.
func (m *Metrics) collect(s *Server) error {
	err := m.registry.Register(newScrape(s))
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		return errors.New("these metrics belong to another server; make new ones")
	}
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}
