// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command trimcrds takes the descriptions out of the pod templates in generated
// resource definitions. With them a definition has more than 600 KB, which is too
// much for "kubectl apply" and for the API server to like; what they say stands in
// "kubectl explain pod" too.
//
//	trimcrds deploy/chart/crds/*.yaml
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := trim(path); err != nil {
			fmt.Fprintln(os.Stderr, "trim:", err)
			os.Exit(1)
		}
	}
}

func trim(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	templates(doc)
	out, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, append([]byte("---\n"), out...), 0o644)
}

// templates looks for pod templates and keeps only their own description.
func templates(node any) {
	switch node := node.(type) {
	case map[string]any:
		if properties, ok := node["properties"].(map[string]any); ok {
			if template, ok := properties["template"].(map[string]any); ok {
				bare(template["properties"])
			}
		}
		for _, child := range node {
			templates(child)
		}
	case []any:
		for _, child := range node {
			templates(child)
		}
	}
}

// bare removes descriptions. A field may be named description: its value is a
// schema, not a text.
func bare(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, text := node["description"].(string); text {
			delete(node, "description")
		}
		for _, child := range node {
			bare(child)
		}
	case []any:
		for _, child := range node {
			bare(child)
		}
	}
}
