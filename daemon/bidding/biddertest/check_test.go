// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package biddertest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/bidding"
	"github.com/fairway-gpu/fairway/daemon/bidding/biddertest"
)

const secret = "a secret of the test"

func reference() *biddertest.Reference {
	return &biddertest.Reference{Work: 360_000, Done: 1000, Spread: 0.05}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// ample is the deadline of agents that are not slow: a busy machine may stop for
// longer than a daemon waits.
const ample = time.Minute

// passes fails the test for every rule that an agent breaks.
func passes(t *testing.T, address string) {
	t.Helper()
	for _, f := range biddertest.CheckWithin(t.Context(), ample, address, secret) {
		t.Errorf("%s: %s", address, f)
	}
}

func TestReference(t *testing.T) {
	r := reference()
	passes(t, serve(t, bidding.Serve(r, secret)))
	if len(r.Wins()) != 3 {
		t.Errorf("it was told %d wins; want 3", len(r.Wins()))
	}
}

// TestExternal checks an agent that somebody has started.
func TestExternal(t *testing.T) {
	address := os.Getenv("FAIRWAY_BIDDER")
	if address == "" {
		t.Skip("FAIRWAY_BIDDER names no agent")
	}
	biddertest.Run(t, address, os.Getenv("FAIRWAY_BIDDER_SECRET"))
}

// TestPython runs the example agent in another language.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	c := exec.CommandContext(t.Context(), python, "../../../examples/bidder.py", "--port", "0")
	c.Env = append(os.Environ(), "BIDDER_SECRET="+secret)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // or it would block on a full pipe
	passes(t, strings.TrimSpace(address))
}

// spoil changes the answers of the reference on their way out.
func spoil(change func(path string, status int, body map[string]any) (int, string, []byte)) http.Handler {
	inner := bidding.Serve(reference(), secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		var body map[string]any
		_ = json.Unmarshal(rec.Body.Bytes(), &body) // a win has none
		status, kind, out := change(r.URL.Path, rec.Code, body)
		if out == nil {
			out = rec.Body.Bytes()
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write(out)
	})
}

const asJSON = "application/json"

// inRows changes every row of a bid.
func inRows(change func(row map[string]any, take []any)) http.Handler {
	return spoil(func(_ string, status int, body map[string]any) (int, string, []byte) {
		rows, _ := body["rows"].([]any)
		for _, r := range rows {
			row := r.(map[string]any)
			take, _ := row["take"].([]any)
			change(row, take)
		}
		if rows == nil {
			return status, asJSON, nil
		}
		out, _ := json.Marshal(body)
		return status, asJSON, out
	})
}

// replace changes the text of answers that succeed.
func replace(path, old, with string) http.Handler {
	return spoil(func(p string, status int, body map[string]any) (int, string, []byte) {
		out, _ := json.Marshal(body)
		if p == path && status == 200 {
			out = bytes.ReplaceAll(out, []byte(old), []byte(with))
		}
		return status, asJSON, out
	})
}

// TestMutants: agents with one fault each are found out, by the right rule.
func TestMutants(t *testing.T) {
	plain := bidding.Serve(reference(), secret)
	mutants := map[string]struct {
		rule  string
		agent http.Handler
	}{
		"dead":            {"answers", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
		"always 500":      {"answers", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })},
		"plain text":      {"json", spoil(func(_ string, s int, _ map[string]any) (int, string, []byte) { return s, "text/plain", nil })},
		"slow":            {"in-time", late(plain, bidding.RhoPath)},
		"no rho":          {"rho", replace(bidding.RhoPath, `"rho"`, `"roh"`)},
		"NaN":             {"rho", replace(bidding.RhoPath, `"rho":`, `"rho":NaN,"x":`)},
		"negative":        {"bid", inRows(func(row map[string]any, _ []any) { row["rho"] = -1 })},
		"greedy":          {"bid", inRows(func(_ map[string]any, take []any) { grow(take, 100) })},
		"unknown node":    {"bid", inRows(func(_ map[string]any, take []any) { rename(take) })},
		"broken gang":     {"bid", inRows(func(_ map[string]any, take []any) { grow(take, -1) })},
		"wrong round":     {"bid", replace(bidding.BidPath, `"round":`, `"round":1`)},
		"no present":      {"bid", replace(bidding.BidPath, `"take":[]`, `"take":[{"node":"node-0","gpus":1}]`)},
		"more than asked": {"bid", replace(bidding.BidPath, `"rows":`, `"mood":"good","rows":`)},
		"worse with more": {"useful", inRows(func(row map[string]any, take []any) {
			if len(take) > 0 {
				row["rho"] = 1e6
			}
		})},
		"wants nothing": {"bids", spoil(func(p string, s int, body map[string]any) (int, string, []byte) {
			if rows, ok := body["rows"].([]any); ok {
				body["rows"] = rows[:1]
			}
			out, _ := json.Marshal(body)
			return s, asJSON, out
		})},
		"open to all": {"secret", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+secret)
			plain.ServeHTTP(w, r)
		})},
		"takes rubbish": {"rubbish", spoil(func(p string, s int, _ map[string]any) (int, string, []byte) {
			if s == 400 {
				return 200, asJSON, nil
			}
			return s, asJSON, nil
		})},
		"fears the future": {"answers", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if bytes.Contains(body, []byte("mood")) {
				w.WriteHeader(400)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			plain.ServeHTTP(w, r)
		})},
		"no win": {"win", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == bidding.WinPath && r.Header.Get("Authorization") == "Bearer "+secret {
				w.WriteHeader(404)
				return
			}
			plain.ServeHTTP(w, r)
		})},
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(ctx context.Context, address, secret string) []biddertest.Finding {
				return biddertest.CheckWithin(ctx, ample, address, secret)
			}
			if m.rule == "in-time" {
				check = biddertest.Check
			}
			found := check(t.Context(), serve(t, m.agent), secret)
			if !slices.ContainsFunc(found, func(f biddertest.Finding) bool { return f.Rule == m.rule }) {
				t.Errorf("found %v; want the rule %q to be broken", found, m.rule)
			}
		})
	}
}

// late lets the first question to one path take longer than it may.
func late(inner http.Handler, path string) http.Handler {
	var asked atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path && !asked.Swap(true) {
			time.Sleep(bidding.DefaultDeadline + 50*time.Millisecond)
		}
		inner.ServeHTTP(w, r)
	})
}

func grow(take []any, by float64) {
	for _, s := range take {
		share := s.(map[string]any)
		share["gpus"] = share["gpus"].(float64) + by
	}
}

func rename(take []any) {
	for _, s := range take {
		s.(map[string]any)["node"] = "nowhere"
	}
}
