// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// TestFlagshipCanBeChecked: the page was made with the data and the seeds of "repro all",
// whose --check would find lines that differ otherwise, after hours.
func TestFlagshipCanBeChecked(t *testing.T) {
	text, err := os.ReadFile("../../docs/reproduction/flagship.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := reproPages()
	given := strings.Split(pages[slices.IndexFunc(pages, func(p reproPage) bool { return p.name == "flagship" })].data, ",")
	for _, d := range repro.FlagshipData {
		missing := strings.Contains(string(text), " needs --"+d.Name)
		if missing == slices.Contains(given, d.Name) {
			t.Errorf("%s: in the page it is missing: %v; repro all gives %v", d.Name, missing, given)
		}
	}
	if want := fmt.Sprintf("--seeds %d`", repro.DefaultFlagship().Seeds); !strings.Contains(string(text), want) {
		t.Errorf("the page does not say %s", want)
	}
}
