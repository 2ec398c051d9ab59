// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// sample holds the counters read before and after a run.
type sample struct {
	requests map[string]float64 // answered by the API server: "verb resource/subresource"
	ours     float64            // requests of the operator
	wrote    float64            // those of them that write
	cpu      map[string]float64 // seconds, by program
	peak     map[string]float64 // resident memory, MiB, by program
}

func (t *trial) measure(ctx context.Context) (sample, error) {
	var s sample
	s.cpu, s.peak = children()
	client, err := rest.HTTPClientFor(t.cluster.Admin())
	if err != nil {
		return s, fmt.Errorf("read metrics of the API server: %w", err)
	}
	text, err := read(ctx, client, t.cluster.Admin().Host+"/metrics")
	if err != nil {
		return s, err
	}
	s.requests = requestsIn(text)
	if t.sched.metrics != "" {
		text, err := read(ctx, http.DefaultClient, "http://"+t.sched.metrics+"/metrics")
		if err != nil {
			return s, err
		}
		for _, m := range parse(text, "rest_client_requests_total") {
			s.ours += m.value
			if m.labels["method"] != http.MethodGet {
				s.wrote += m.value
			}
		}
	}
	return s, nil
}

// maxMetrics bounds an answer; those of an API server are long.
const maxMetrics = 64 << 20

func read(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	return text, nil
}

// requestsIn sums the write requests, by verb and resource.
func requestsIn(text []byte) map[string]float64 {
	out := map[string]float64{}
	for _, m := range parse(text, "apiserver_request_total") {
		switch verb := m.labels["verb"]; verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
			name := verb + " " + m.labels["resource"]
			if sub := m.labels["subresource"]; sub != "" {
				name += "/" + sub
			}
			out[name] += m.value
		}
	}
	return out
}

// metric is one line of the text format of Prometheus.
type metric struct {
	labels map[string]string
	value  float64
}

// parse returns the lines of one metric. No label used here has a quote or a comma
// in its value.
func parse(text []byte, name string) []metric {
	var out []metric
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), name+"{")
		if !ok {
			continue
		}
		labels, number, ok := strings.Cut(rest, "} ")
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil {
			continue
		}
		m := metric{labels: map[string]string{}, value: value}
		for pair := range strings.SplitSeq(labels, ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				m.labels[k] = strings.Trim(v, `"`)
			}
		}
		out = append(out, m)
	}
	return out
}

// self is this process among the programs that are measured.
const self = "this benchmark"

// controlPlane are the programs that every run has. The rest is the scheduler under test.
// The kernel cuts names off.
var controlPlane = []string{self, "etcd", "kube-apiserver", "kube-controller", "kwok"}

// ofScheduler sums what the programs of the scheduler under test have used.
func ofScheduler(byProgram map[string]float64) (sum float64) {
	for name, value := range byProgram {
		if !slices.Contains(controlPlane, name) {
			sum += value
		}
	}
	return sum
}

// children returns the CPU seconds and the peak memory (MiB) of the processes that this
// one has started, and its own, by program. Without /proc it returns nothing.
func children() (cpu, peak map[string]float64) {
	const hertz = 100 // unit of the fields in /proc, on every Linux
	cpu, peak = map[string]float64{}, map[string]float64{}
	own := strconv.Itoa(os.Getpid())
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the process has just ended
		}
		begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
		if begin < 0 || end < begin {
			continue
		}
		fields := strings.Fields(string(data[end+1:]))
		pid := filepath.Base(filepath.Dir(path))
		if len(fields) < 13 || fields[1] != own && pid != own {
			continue
		}
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		name := string(data[begin+1 : end])
		if pid == own {
			name = self
		}
		cpu[name] += (user + system) / hertz
		peak[name] += peakOf(pid)
	}
	return cpu, peak
}

// peakOf returns the peak memory of a process, in MiB.
func peakOf(pid string) float64 {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / 1024
		}
	}
	return 0
}

// decision is what the operator logs about each decision.
type decision struct {
	at            time.Time
	policy, whole time.Duration
	jobs, actions int
}

// decisions reads the log of the operator.
func decisions(path string) ([]decision, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	defer f.Close()
	var out []decision
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"msg":"decided"`)) {
			continue
		}
		var d struct {
			Time          time.Time
			Policy, Whole time.Duration
			Jobs, Actions int
		}
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		out = append(out, decision{d.Time, d.Policy, d.Whole, d.Jobs, d.Actions})
	}
	return out, lines.Err()
}

// profileIn takes CPU profiles of the operator and of the API server for half a
// minute during a run, and one of the operator's memory at its end. The returned
// function waits for them.
func (t *trial) profileIn(ctx context.Context) (wait func() error) {
	if !t.profile {
		return func() error { return nil }
	}
	const cpu, memory = "/debug/pprof/profile?seconds=30", "/debug/pprof/heap"
	take := func(name string, c *http.Client, url string) error {
		text, err := read(ctx, c, url)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(t.out, t.name()+"."+name+".prof"), text, 0o644)
	}
	results := make(chan error, 2)
	later := func(name string, c *http.Client, url string) {
		go func() {
			select {
			case <-ctx.Done():
			case <-time.After(t.profileAfter):
			}
			results <- take(name, c, url)
		}()
	}
	admin, err := rest.HTTPClientFor(t.cluster.Admin())
	if err != nil {
		return func() error { return err }
	}
	own := "http://" + t.sched.pprof
	later("apiserver-cpu", admin, t.cluster.Admin().Host+cpu)
	if t.sched.pprof == "" {
		return func() error { return <-results }
	}
	later("operator-cpu", http.DefaultClient, own+cpu)
	return func() error {
		return errors.Join(take("operator-memory", http.DefaultClient, own+memory), <-results, <-results)
	}
}
