// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// examples returns the objects that a page shows, fenced or indented.
func examples(page string) []string {
	var out []string
	var now []string
	indent := ""
	for line := range strings.Lines(page + "\nend\n") {
		line = strings.TrimRight(line, "\n")
		before, _, begins := strings.Cut(line, "apiVersion:")
		if now == nil && begins && strings.TrimSpace(before) == "" {
			indent, now = before, []string{strings.TrimPrefix(line, before)}
			continue
		}
		if now == nil {
			continue
		}
		text, inside := strings.CutPrefix(line, indent)
		if line == "" {
			inside = false
		}
		if !inside || text == "EOF" || text == "```" || indent == "" && strings.HasPrefix(line, "#") {
			out, now = append(out, strings.Join(now, "\n")), nil
			continue
		}
		now = append(now, text)
	}
	return out
}

// TestDocumentedExamples: the API server takes what the pages show.
func TestDocumentedExamples(t *testing.T) {
	c, admin := install(t)
	pages, err := filepath.Glob("../../docs/kubernetes/*.md")
	if err != nil || len(pages) < 6 {
		t.Fatalf("found %v, %v; want the pages", pages, err)
	}
	if err := c.Namespace(t.Context(), "examples"); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range examples(string(text)) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(e), &u.Object); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, e)
				continue
			}
			if u.GetKind() != "Tenant" && u.GetKind() != "SchedulingPolicy" {
				u.SetNamespace("examples")
			}
			if err := admin.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, e)
			}
			seen++
		}
	}
	if seen < 6 {
		t.Errorf("%d examples were found; want at least 6", seen)
	}
}
