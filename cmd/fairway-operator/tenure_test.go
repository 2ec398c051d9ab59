// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// answering answers all requests with one status.
type answering int

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// TestTenure: a leader whose lease may be over writes nothing, and can still read and
// renew. On a real clock a machine that stands still between two lines would end a
// lease that is fresh.
func TestTenure(t *testing.T) { synctest.Test(t, testTenure) }

func testTenure(t *testing.T) {
	n := &tenure{limit: 50 * time.Millisecond}
	ask := func(method, path string, status int) error {
		q, err := http.NewRequest(method, "https://x"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.wrap(answering(status)).RoundTrip(q)
		return err
	}
	const lease, pod = "/apis/coordination.k8s.io/v1/namespaces/s/leases/fairway-operator", "/api/v1/namespaces/x/pods/p"
	check := func(when, method, path string, want error) {
		t.Helper()
		if err := ask(method, path, http.StatusOK); !errors.Is(err, want) {
			t.Errorf("%s: %s %s: %v; want %v", when, method, path, err, want)
		}
	}
	check("before it leads", http.MethodPatch, pod, nil)
	check("at first", http.MethodPut, lease, nil)
	n.begin()
	check("with a fresh lease", http.MethodDelete, pod, nil)
	time.Sleep(60 * time.Millisecond)
	check("with an old lease", http.MethodDelete, pod, errOver)
	check("with an old lease", http.MethodPost, pod, errOver)
	check("with an old lease", http.MethodGet, pod, nil)
	if err := ask(http.MethodPut, lease, http.StatusConflict); err != nil {
		t.Errorf("renew: %v", err)
	}
	check("after a renewal that was refused", http.MethodDelete, pod, errOver)
	check("after a look at the lease", http.MethodGet, lease, nil)
	check("after a look at the lease", http.MethodDelete, pod, errOver)
	check("", http.MethodPut, lease, nil)
	check("after a renewal", http.MethodDelete, pod, nil)
}
