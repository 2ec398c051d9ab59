// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fairway": main, "kubectl": fakeKubectl})
}

// TestScripts runs the command line the way a user does; see
// testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error { endAtOnce(e); return nil }})
}

// endAtOnce: a program built with the race detector sleeps a second before it ends.
func endAtOnce(e *testscript.Env) { e.Setenv("GORACE", "atexit_sleep_ms=0") }
