// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestScenarios runs the scenarios of every policy and layer. Each must have some.
//
//	go test ./policy -run Scenarios/fifo -rewrite
func TestScenarios(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*/testdata/*.txt", "layer/*/testdata/*.txt"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	tried := map[string]bool{} // by key of the table
	build := func(spec string) (sched.Policy, error) {
		base, layers, _ := strings.Cut(spec, "@")
		tried[name(base)] = true
		for _, layer := range strings.Split(layers, "@") {
			tried["@"+name(layer)] = true
		}
		return table.New(spec)
	}
	ran := 0
	for _, file := range files {
		folder, _, _ := strings.Cut(filepath.ToSlash(file), "/testdata/")
		t.Run(filepath.Base(folder)+"/"+strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			ran++
			policytest.Run(t, file, build)
		})
	}
	if ran < len(files) {
		return // -run chose some of them
	}
	for key := range table {
		if !tried[key] {
			t.Errorf("%s: no scenario decides by it; want one in testdata beside it", key)
		}
	}
}
