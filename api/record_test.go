// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestKinds: the list of kinds has all that Kind returns.
func TestKinds(t *testing.T) {
	source, err := os.ReadFile("record.go")
	if err != nil {
		t.Fatal(err)
	}
	returned := regexp.MustCompile(`return "([a-z-]+)"\n`).FindAllSubmatch(source, -1)
	if len(returned) < 10 {
		t.Fatalf("found %d kinds in record.go; want more", len(returned))
	}
	for _, m := range returned {
		if kind := string(m[1]); !slices.Contains(api.Kinds(), kind) {
			t.Errorf("Kind returns %q, which Kinds does not list", kind)
		}
	}
}
