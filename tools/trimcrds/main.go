// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command trimcrds finishes generated resource definitions:
//
//   - it keeps only the outline of pod templates. A full schema has 130 KB, and the
//     operator checks a template anyway when it reads it (v1alpha1.PodTemplate);
//   - it bounds quantities. Kubernetes allows any exponent, and reading 1e999999999
//     keeps a program busy for hours: one such object would stop everybody who watches
//     its kind;
//   - it fixes every field of a training job but suspend, so that nobody has to extend
//     a rule when a field is added.
//
// The definitions are made with
//
//	go tool -modfile=go.tools.mod controller-gen object:headerFile=kube/v1alpha1/header.txt \
//		crd:generateEmbeddedObjectMeta=true paths=./kube/v1alpha1 output:crd:dir=deploy/chart/crds
//	go run ./tools/trimcrds deploy/chart/crds/*.yaml
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := trim(path); err != nil {
			fmt.Fprintln(os.Stderr, "trimcrds:", err)
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
	walk(doc, outlineTemplate)
	walk(doc, boundQuantity)
	if strings.HasSuffix(path, "_trainingjobs.yaml") {
		fixFields(doc, "suspend")
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, append([]byte("---\n"), out...), 0o644)
}

// walk calls a function for every mapping of a document, the outer ones first.
func walk(node any, visit func(map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		visit(node)
		for _, child := range node {
			walk(child, visit)
		}
	case []any:
		for _, child := range node {
			walk(child, visit)
		}
	}
}

// outlineTemplate keeps the outline of a pod template: the fields of the pod and of its
// containers, with what is in scalars, labels and resources.
func outlineTemplate(schema map[string]any) {
	template, ok := at(schema, "properties", "template")
	if !ok {
		return
	}
	pod, ok := at(template, "properties", "spec")
	if !ok {
		return
	}
	for _, list := range []string{"containers", "initContainers"} {
		if item, ok := at(pod, "properties", list, "items"); ok {
			hideFields(item, "resources")
		}
	}
	hideFields(pod, "containers", "initContainers")
	for _, part := range template["properties"].(map[string]any) {
		walk(part, func(s map[string]any) {
			if _, text := s["description"].(string); text {
				delete(s, "description")
			}
		})
	}
}

// hideFields takes the schemas of an object's fields away but for those that are simple
// or named. The rules of the API server compare the values of such fields exactly.
func hideFields(object map[string]any, but ...string) {
	properties := object["properties"].(map[string]any)
	for name, p := range properties {
		if !simple(p.(map[string]any)) && !slices.Contains(but, name) {
			properties[name] = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		}
	}
}

// simple reports whether a value is a scalar, or a list or map of scalars.
func simple(schema map[string]any) bool {
	for _, inner := range []string{"items", "additionalProperties"} {
		if s, ok := schema[inner].(map[string]any); ok {
			return simple(s)
		}
	}
	return schema["type"] != "object"
}

// quantity is what a quantity may be: at most 15 digits before and 9 after the
// point, and an exponent of one digit. It is v1alpha1.Quantity.
const quantity = `^[+-]?[0-9]{1,15}(\.[0-9]{0,9})?([KMGTP]i|[numkMGTP]|[eE][+-]?[0-9])?$`

func boundQuantity(schema map[string]any) {
	if either, _ := schema["x-kubernetes-int-or-string"].(bool); either && schema["pattern"] != nil {
		schema["pattern"] = quantity
	}
}

// fixFields adds a rule by which no field of the spec can be changed but one. The API
// server bounds what a rule may cost by the size of what it compares, of which lists that
// are written out have the smallest.
func fixFields(doc map[string]any, but string) {
	versions := doc["spec"].(map[string]any)["versions"].([]any)
	spec, _ := at(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	var is, was []string
	for _, name := range slices.Sorted(maps.Keys(spec["properties"].(map[string]any))) {
		if name != but {
			is, was = append(is, "dyn(self.?"+name+")"), append(was, "dyn(oldSelf.?"+name+")")
		}
	}
	rule := map[string]any{
		"rule":    fmt.Sprintf("[%s] == [%s]", strings.Join(is, ", "), strings.Join(was, ", ")),
		"message": fmt.Sprintf("only %s can be changed; delete the job and create another", but),
	}
	rules, _ := spec["x-kubernetes-validations"].([]any)
	spec["x-kubernetes-validations"] = append([]any{rule}, rules...)
}

// at returns the mapping at a path.
func at(node map[string]any, path ...string) (map[string]any, bool) {
	for _, name := range path {
		next, ok := node[name].(map[string]any)
		if !ok {
			return nil, false
		}
		node = next
	}
	return node, true
}
