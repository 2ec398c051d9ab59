// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command trimcrds finishes generated resource definitions:
//
//   - it takes the descriptions out of the pod templates. With them a definition has
//     more than 600 KB, which is too much for "kubectl apply" and for the API server
//     to like; what they say stands in "kubectl explain pod" too;
//   - it bounds quantities. Those of Kubernetes may have any exponent, and reading
//     1e999999999 keeps a program busy for hours: one such object would stop
//     everybody who watches its kind.
//
// The definitions are made with
//
//	go tool -modfile=go.tools.mod controller-gen object:headerFile=kube/v1alpha1/header.txt \
//		crd:generateEmbeddedObjectMeta=true paths=./kube/v1alpha1 output:crd:dir=deploy/chart/crds
//	go run ./tools/trimcrds deploy/chart/crds/*.yaml
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
	quantities(doc)
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

// quantity is what a quantity may be: at most 15 digits before and 9 after the
// point, and an exponent of one digit.
const quantity = `^[+-]?[0-9]{1,15}(\.[0-9]{0,9})?([KMGTP]i|[numkMGTP]|[eE][+-]?[0-9])?$`

// quantities replaces the patterns of all quantities.
func quantities(node any) {
	switch node := node.(type) {
	case map[string]any:
		if either, _ := node["x-kubernetes-int-or-string"].(bool); either {
			if _, ok := node["pattern"].(string); ok {
				node["pattern"] = quantity
			}
		}
		for _, child := range node {
			quantities(child)
		}
	case []any:
		for _, child := range node {
			quantities(child)
		}
	}
}
