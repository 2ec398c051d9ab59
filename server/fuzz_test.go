// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fuzzed returns a handler on which everything succeeds that is not refused, so
// that an answer of 500 or more is a fault of the server's own.
func fuzzed(f *testing.F) http.Handler {
	c := config(newFake())
	var asked atomic.Int64 // an hour passes each time, or limits of rates would answer for the decoders
	c.Now = func() time.Time { return time.Unix(3600*asked.Add(1), 0) }
	return newServer(f, c).Handler(Endpoint{Kind: Plain})
}

func try(t *testing.T, h http.Handler, r *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code >= 500 || w.Code < 200 {
		t.Errorf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	if w.Code >= 400 && strings.HasPrefix(r.URL.Path, "/v1/") && (answer{body: w.Body.String()}).refused().Code == "" {
		t.Errorf("%s %s: %d without an error: %s", r.Method, r.URL, w.Code, w.Body)
	}
}

func fuzzBody(f *testing.F, method, path, token string, seeds ...string) {
	h := fuzzed(f)
	for _, s := range append(seeds, ``, `null`, `{}`, `[]`, `{"`, "{\"\xff\":1}", strings.Repeat(`{"a":`, 11_000), `{"a":1e999}`, `{}{}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(method, path, strings.NewReader(string(body)))
		r.Header.Set("Authorization", "Bearer "+token)
		try(t, h, r)
	})
}

func FuzzSubmission(f *testing.F) {
	fuzzBody(f, "POST", "/v1/jobs", "fw_user",
		`{"command":["python3","train.py"],"gpus":2,"min_gpus":1,"max_gpus":8,"notice":"30s","batch":{"initial":64},"widest":"machine","env":{"A":"b"}}`,
		`{"command":["a"],"gpus":1e3,"work":-1e308,"estimate":"1d12h"}`, `{"notice":""}`, `{"submitted":"x"}`,
		`{"command":["a"],"plans":{"model":{"parameters":1e9,"layers":8,"hidden":64,"heads":8,"sequence":512,"batch":32},"generate":["tp<=8"],"list":["fsdp2-tp2"]}}`, `{"widest":1}`, `{"gpu_types":[null]}`)
}

func FuzzApp(f *testing.F) {
	fuzzBody(f, "POST", "/v1/apps", "fw_user", `{"id":"a","jobs":[{"command":["a"],"gpus":1}]}`, `{"id":"..","jobs":[{}]}`, `{"id":"a","jobs":[null]}`)
}

func FuzzSearch(f *testing.F) {
	fuzzBody(f, "POST", "/v1/searches", "fw_user",
		`{"id":"a","parameters":{"lr":{"min":1e-4,"max":1,"log":true},"o":{"values":["a","b"]}},"stopping":{"rule":"asha","max":9,"target":0.5},"metric":{"name":"acc","goal":"maximise"},"trials":8,"at_once":3,"trial":{"command":["a","{lr}"],"gpus":1}}`,
		`{"id":"..","parameters":{}}`, `{"id":"a","parameters":{"x":null},"seed":18446744073709551615}`, `{"id":"a","trial":{"sched":1}}`)
}

func FuzzReport(f *testing.F) {
	fuzzBody(f, "POST", "/v1/agent/report", "attempt",
		`{"done":12,"work":100,"rate":1.5,"checkpoint":true,"training":{"limits":{"initial":8,"max":64,"local_min":1,"local_max":8},"noise":4,"samples":[{"nodes":1,"gpus":2,"local":4,"step":0.1,"sync":0.05}],"parts":{"exchange":0.03,"wait":0.01,"bubble":0.02}},"point":{"done":1,"loss":0.5,"metrics":{"acc":1}}}`,
		`{"done":-1}`, `{"training":{}}`, `{"training":{"samples":[{}]}}`, `{"training":{"limits":{"initial":8,"max":8,"local_min":1,"local_max":8},"parts":{"exchange":-1}}}`, `{"point":{"metrics":{"":0}}}`)
}

func FuzzToken(f *testing.F) {
	fuzzBody(f, "POST", "/v1/tokens", "fw_admin", `{"user":"ann","role":"user","tenant":"nlp","expires":"2030-01-01T00:00:00Z"}`, `{"role":"none"}`, `{"role":2}`)
}

func FuzzTenant(f *testing.F) {
	fuzzBody(f, "PUT", "/v1/tenants/t1", "fw_admin", `{"weight":2,"quota":3,"borrow":true}`, `{"weight":-0}`)
}

func FuzzQuery(f *testing.F) {
	h := fuzzed(f)
	for _, s := range []string{
		"", "state=running&state=paused&limit=5", "limit=00001", "limit=+1", "after=18446744073709551615", "a;b", "%zz=1", "state", "limit=&limit=", "follow&tail=3", "search=%f0%28",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, path := range []string{"/v1/jobs", "/v1/events", "/v1/jobs/x1/logs", "/v1/overview"} {
			r := httptest.NewRequest("GET", path, nil)
			r.URL.RawQuery = raw
			r.Header.Set("Authorization", asAdmin)
			try(t, h, r)
		}
	})
}

func FuzzPath(f *testing.F) {
	h := fuzzed(f)
	for _, s := range []string{"", "x1", "../../etc/passwd", "..", "%2e%2e%2f", "\x00", "a/b", "ä", `\`, "jobs//cancel"} {
		f.Add("GET", s, "Bearer fw_admin", "a=b")
	}
	f.Add("POST", "x1/cancel", "", cookieName+"=AAAA")
	f.Add("DELETE", "tokens/x", "Basic eDp5", cookieName+`="`)
	f.Fuzz(func(t *testing.T, method, path, auth, cookie string) {
		for _, prefix := range []string{"/v1/jobs/", "/v1/", "/"} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Method = method
			r.URL = &url.URL{Path: prefix + path}
			r.Header.Set("Authorization", auth)
			r.Header.Set("Cookie", cookie)
			if strings.Contains(path, "stream") || strings.Contains(path, "metrics") {
				continue // the one does not end, the other is slow
			}
			try(t, h, r)
		}
	})
}

func FuzzLogin(f *testing.F) {
	h := fuzzed(f)
	f.Add("POST", "token=fw_user", "code=1", "http://localhost")
	f.Add("GET", "", "code=%zz", "null")
	f.Fuzz(func(t *testing.T, method, form, query, origin string) {
		r := httptest.NewRequest("GET", "/login", strings.NewReader(form))
		r.Method = method
		r.URL.RawQuery = query
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		try(t, h, r)
	})
}
