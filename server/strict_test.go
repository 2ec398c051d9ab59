// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

func TestStrict(t *testing.T) {
	r := start(t, config(newFake()))
	deep := strings.Repeat(`{"env":`, 20_000)
	for _, k := range []struct {
		method, path, body string
		status             int
		code               api.Code
		field              string
	}{
		{"POST", "/v1/jobs", `{"comand":["a"]}`, 400, api.Invalid, "comand"},
		{"POST", "/v1/jobs", `{"command":["a"],"batch":{"inital":1}}`, 400, api.Invalid, "inital"},
		{"POST", "/v1/jobs", `{"command":"a"}`, 400, api.Invalid, "command"},
		{"POST", "/v1/jobs", `{"gpus":1e400}`, 400, api.Invalid, "gpus"},
		{"POST", "/v1/jobs", `{"gpus":1.5}`, 400, api.Invalid, "gpus"},
		{"POST", "/v1/jobs", `{"gpus":99999999999999999999}`, 400, api.Invalid, "gpus"},
		{"POST", "/v1/jobs", `{"notice":5}`, 400, api.Invalid, ""},
		{"POST", "/v1/jobs", `{"command":["a"]} {}`, 400, api.Invalid, ""},
		{"POST", "/v1/jobs", `{"command":["a"]`, 400, api.Invalid, ""},
		{"POST", "/v1/jobs", `{"command":["a"],"gpus":1,"gpus":8}`, 400, api.Invalid, "gpus"},
		{"POST", "/v1/jobs", `{"command":["a"],"gpus":1,"env":{"":"","B":"{","B":"2"}}`, 400, api.Invalid, "env.B"},
		{"POST", "/v1/jobs", `{"command":["a"],"gpus":1,"GPUs":8}`, 400, api.Invalid, "GPUs"},
		{"POST", "/v1/jobs", `{"command":["a"],"gpus":1,"env":{"a":"","A":""}}`, 201, "", ""},
		{"POST", "/v1/apps", `{"id":"a","jobs":[{"name":"name","gpus":1},{"batch":{"max":1,"max":2}}]}`, 400, api.Invalid, "jobs[1].batch.max"},
		{"POST", "/v1/jobs", `null`, 400, api.Invalid, ""},
		{"POST", "/v1/jobs", `[]`, 400, api.Invalid, ""},
		{"POST", "/v1/jobs", ``, 400, api.Invalid, ""},
		{"POST", "/v1/jobs", "{\"name\":\"\xff\"}", 400, api.Invalid, ""},
		{"POST", "/v1/jobs", deep, 400, api.Invalid, ""},
		{"POST", "/v1/apps", `{"jobs":[]}`, 400, api.Invalid, "id"},
		{"POST", "/v1/apps", `{"id":"a/b","jobs":[]}`, 400, api.Invalid, "id"},
		{"POST", "/v1/apps", `{"id":"a","jobs":[]}`, 400, api.Invalid, "jobs"},
		{"POST", "/v1/apps", `{"id":"a","jobs":[{"app":"b"}]}`, 400, api.Invalid, "jobs[0].app"},
		{"POST", "/v1/apps", `{"id":"a","jobs":[{"origin":"TrainingJob/b/c"}]}`, 400, api.Invalid, "origin"},
		{"POST", "/v1/jobs", `{"command":["a"],"origin":"TrainingJob/b/c"}`, 400, api.Invalid, "origin"},
		{"PUT", "/v1/nodes/n1", `{"state":"down"}`, 400, api.Invalid, "state"},
		{"PUT", "/v1/tenants/t1", `{"id":"t2"}`, 400, api.Invalid, "id"},
		{"PUT", "/v1/tenants/t1", `{"weight":-1}`, 400, api.Invalid, ""},
		{"PUT", "/v1/policy", `{}`, 400, api.Invalid, "policy"},
		{"POST", "/v1/tokens", `{"user":"a","role":"king"}`, 400, api.Invalid, ""},
		{"POST", "/v1/tokens", `{"user":"a","role":"user","hash":"AAAA"}`, 400, api.Invalid, "hash"},
		{"POST", "/v1/tokens", `{"user":"a","role":"user","id":"a"}`, 400, api.Invalid, "id"},
		{"GET", "/v1/jobs?stat=running", "", 400, api.Invalid, "stat"},
		{"GET", "/v1/jobs?state=runing", "", 400, api.Invalid, "state"},
		{"GET", "/v1/jobs?limit=-1", "", 400, api.Invalid, "limit"},
		{"GET", "/v1/jobs?limit=1001", "", 400, api.Invalid, "limit"},
		{"GET", "/v1/jobs?limit=1&limit=2", "", 400, api.Invalid, "limit"},
		{"GET", "/v1/jobs?user=%00", "", 400, api.Invalid, "user"},
		{"GET", "/v1/jobs?user=%zz", "", 400, api.Invalid, ""},
		{"GET", "/v1/jobs?a;b", "", 400, api.Invalid, ""},
		{"GET", "/v1/overview?x=1", "", 400, api.Invalid, "x"},
		{"GET", "/v1/events?after=18446744073709551616", "", 400, api.Invalid, "after"},
		{"GET", "/v1/jobs/x/logs?follow=maybe", "", 400, api.Invalid, "follow"},
		{"GET", "/v1/jobs/x/logs?stream=stdin", "", 400, api.Invalid, "stream"},
		{"GET", "/v1/jobs/..%2f..%2fetc", "", 400, api.Invalid, "id"},
		{"GET", "/v1/jobs/%2e%2e", "", 400, api.Invalid, "id"},
		{"GET", "/v1/jobs/a%00b/logs", "", 400, api.Invalid, "id"},
		{"GET", "/v1/jobs/a%5cb", "", 400, api.Invalid, "id"},
		{"GET", "/v1/jobs/" + strings.Repeat("a", 201), "", 400, api.Invalid, "id"},
		{"GET", "/v1/none", "", 404, api.Unknown, ""},
		{"GET", "/v1/", "", 404, api.Unknown, ""},
		{"PATCH", "/v1/jobs", "", 405, api.Invalid, ""},
		{"DELETE", "/v1/jobs/x1", "", 405, api.Invalid, ""},
		{"HEAD", "/v1/events/stream", "", 405, "", ""},
		{"OPTIONS", "/v1/jobs", "", 405, api.Invalid, ""},
		{"POST", "/v1/jobs/x1/explode", "", 404, api.Unknown, ""},
	} {
		a := ask(t, k.method, r.plain+k.path, k.body, "Authorization", asAdmin)
		e := a.refused()
		if a.status != k.status || e.Code != k.code || e.Field != k.field || (k.code != "" && e.Message == "") {
			t.Errorf("%s %.60s %.60s: %d %+v; want %d %s %s", k.method, k.path, k.body, a.status, e, k.status, k.code, k.field)
		}
		if a.status == 405 && a.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", k.method, k.path)
		}
	}
	if a := ask(t, "HEAD", r.plain+"/v1/jobs", "", "Authorization", asAdmin); a.status != 200 || a.body != "" {
		t.Errorf("HEAD: %d %q", a.status, a.body)
	}
}

func TestBodyLimits(t *testing.T) {
	r := start(t, config(newFake()))
	for _, rt := range table() {
		if rt.in == nil {
			continue
		}
		path, body := example(rt)
		token := asAdmin
		if rt.agent {
			token = "Bearer attempt"
		}
		fits := body + strings.Repeat(" ", int(rt.limit)-len(body))
		if a := ask(t, rt.method, r.plain+path, fits, "Authorization", token); a.status/100 != 2 {
			t.Errorf("%s with %d bytes: %d %.200s", rt.path, len(fits), a.status, a.body)
		}
		if a := ask(t, rt.method, r.plain+path, fits+" ", "Authorization", token); a.status != 413 || a.refused().Code != api.TooLarge {
			t.Errorf("%s with %d bytes: %d %.200s; want 413", rt.path, len(fits)+1, a.status, a.body)
		}
	}
	want := map[string]int64{"/v1/jobs": 1 << 20, "/v1/apps": 8 << 20, "/v1/agent/report": 256 << 10}
	for _, rt := range table() {
		if n, ok := want[rt.path]; ok && rt.in != nil && rt.limit != n {
			t.Errorf("%s takes %d bytes; want %d", rt.path, rt.limit, n)
		}
	}
	if a := ask(t, "GET", r.plain+"/v1/jobs", "", "X-Long", strings.Repeat("x", 2*maxHeader)); a.status != 431 {
		t.Errorf("a long header: %d; want 431", a.status)
	}
}

// TestOddRequests sends what no client would.
func TestOddRequests(t *testing.T) {
	r := start(t, config(newFake()))
	address := strings.TrimPrefix(r.plain, "http://")
	for _, text := range []string{
		"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /..%2f..%2fetc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET //etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /views/../web.go HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /web.go HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /views HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /index.html%00.js HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v1/jobs HTTP/1.1\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer fw_user\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"\x16\x03\x01\x00\x00\r\n\r\n",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, text)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else {
			if resp.StatusCode < 300 || resp.StatusCode >= 500 {
				t.Errorf("%q: %s", text, resp.Status)
			}
			resp.Body.Close()
		}
		c.Close()
	}
	if a := ask(t, "GET", r.plain+"/healthz", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestPanics(t *testing.T) {
	f := newFake()
	r := start(t, config(f))
	f.set(func(f *fake) { f.panic = true })
	for _, rt := range table() {
		path, body := example(rt)
		token := asAdmin
		if rt.agent {
			token = "Bearer attempt"
		}
		a := ask(t, rt.method, r.plain+path, body, "Authorization", token)
		switch rt.path {
		case "/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/whoami", "/v1/policies", "/v1/login", "/v1/jobfile":
			if a.status/100 != 2 {
				t.Errorf("%s: %d", rt.path, a.status)
			}
		default:
			if a.status != 500 || a.refused().Code != api.Internal || strings.Contains(a.body, "a bug in") {
				t.Errorf("%s: %d %s", rt.path, a.status, a.body)
			}
		}
	}
	if !strings.Contains(r.log.String(), "a bug in Submit") {
		t.Error("the panic is not in the log")
	}
	f.set(func(f *fake) { f.panic = false })
	if a := ask(t, "GET", r.plain+"/v1/jobs", "", "Authorization", asAdmin); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestStatic(t *testing.T) {
	r := start(t, config(newFake()))
	a := ask(t, "GET", r.plain+"/", "")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("ETag") == "" {
		t.Fatalf("/: %d %v", a.status, a.header)
	}
	if again := ask(t, "GET", r.plain+"/", "", "If-None-Match", a.header.Get("ETag")); again.status != 304 || again.body != "" {
		t.Errorf("the same again: %d", again.status)
	}
	for path, kind := range map[string]string{"/app.js": "text/javascript", "/style.css": "text/css", "/index.html": "text/html"} {
		if a := ask(t, "GET", r.plain+path, ""); a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, a.status, a.header.Get("Content-Type"))
		}
	}
	if a := ask(t, "POST", r.plain+"/", ""); a.status != 405 {
		t.Errorf("POST /: %d", a.status)
	}
}

func TestReady(t *testing.T) {
	c := config(newFake())
	problem := error(nil)
	c.Ready = func() error { return problem }
	r := start(t, c)
	if a := ask(t, "GET", r.plain+"/readyz", ""); a.status != 200 || a.body != "ready\n" {
		t.Errorf("ready: %d %q", a.status, a.body)
	}
	problem = fmt.Errorf("the disk is full")
	if a := ask(t, "GET", r.plain+"/readyz", ""); a.status != 503 || a.refused().Message != "the disk is full" {
		t.Errorf("not ready: %d %s", a.status, a.body)
	}
}
