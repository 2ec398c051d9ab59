// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/api/apitest"
)

// find returns the route of the table that a request would take.
func find(method, path string) *route {
	mux := http.NewServeMux()
	routes := map[string]*route{}
	for _, rt := range table() {
		pattern := rt.method + " " + rt.path
		routes[pattern] = rt
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	_, pattern := mux.Handler(&http.Request{Method: method, URL: &url.URL{Path: path}})
	return routes[pattern]
}

// keeps checks that a message of version 0.1 is read, and written again with
// every field it had.
func keeps(t *testing.T, what string, message json.RawMessage, kind any) {
	t.Helper()
	if message == nil {
		return
	}
	if kind == nil {
		t.Errorf("%s has no body any more", what)
		return
	}
	lost, err := apitest.RoundTrip(message, reflect.New(reflect.TypeOf(kind)).Interface())
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, l := range lost {
		t.Errorf("%s: %s", what, l)
	}
}

// TestV01Fields: every route of version 0.1 is there, with every field of its
// request and its answer under the same name.
func TestV01Fields(t *testing.T) {
	type line struct {
		Route   string
		In, Out json.RawMessage
	}
	for _, l := range apitest.Lines[line](t, "testdata/v0.1/api.jsonl") {
		method, path, _ := strings.Cut(l.Route, " ")
		rt := find(method, path)
		if rt == nil || rt.path != path {
			t.Errorf("route %s is gone", l.Route)
			continue
		}
		keeps(t, "request of "+l.Route, l.In, rt.in)
		keeps(t, "answer of "+l.Route, l.Out, rt.out)
	}
}

// TestV01Exchanges: what a client of version 0.1 really asked and its daemon
// really answered is read and written without loss.
func TestV01Exchanges(t *testing.T) {
	type exchange struct {
		Method, Path      string
		Status            int
		Request, Response json.RawMessage
	}
	for _, e := range apitest.Lines[exchange](t, "testdata/v0.1/exchanges.jsonl") {
		what := e.Method + " " + e.Path
		u, err := url.Parse(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		rt := find(e.Method, u.Path)
		if rt == nil {
			t.Errorf("%s has no route any more", what)
			continue
		}
		keeps(t, "request of "+what, e.Request, rt.in)
		switch {
		case e.Status >= 400:
			keeps(t, "refusal of "+what, e.Response, api.ErrorBody{})
		case !rt.writes:
			keeps(t, "answer of "+what, e.Response, rt.out)
		}
	}
}
