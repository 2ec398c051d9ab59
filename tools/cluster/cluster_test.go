// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
)

// TestRun: from nothing to a gang that runs, and nothing stays behind.
func TestRun(t *testing.T) {
	log.SetLogger(logr.Discard()) // clients complain once without one
	if _, err := kubetest.Program("kubectl"); errors.Is(err, kubetest.ErrAbsent) && os.Getenv("FAIRWAY_E2E") != "1" {
		t.Skip(err)
	}
	program, err := operator.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := options{folder: filepath.Join(t.TempDir(), "cluster"), operator: program, policy: "fifo", nodes: 2, exit: true}
	var out bytes.Buffer
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("%s", &out)
	text := out.String()
	for _, want := range []string{"the gang runs", "Running", "4/4", "gang-1-0", "gang-1-1"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not print %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(o.folder, "run", "kube-apiserver.log")); err != nil {
		t.Errorf("the log is not kept: %v", err)
	}
}

// TestFolder: two clusters do not share a folder.
func TestFolder(t *testing.T) {
	first := &quick{options: options{folder: t.TempDir()}}
	unlock, err := first.takeFolder()
	if err != nil {
		t.Fatal(err)
	}
	second := &quick{options: options{folder: first.folder}}
	if _, err := second.takeFolder(); err == nil || !strings.Contains(err.Error(), "is running") {
		t.Errorf("the folder of a running cluster: %v; want it refused", err)
	}
	unlock()
	if unlock, err = second.takeFolder(); err != nil {
		t.Fatalf("after the end: %v", err)
	}
	unlock()
}
