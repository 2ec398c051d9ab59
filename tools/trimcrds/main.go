// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command trimcrds finishes generated resource definitions:
//
//   - it keeps only the outline of pod templates. A full schema has 130 KB, and the
//     operator checks a template anyway when it reads it (v1alpha1.PodTemplate);
//   - it adds rules against the fields of pods that Fairway refuses (v1alpha1.PodFields);
//   - it bounds quantities. Kubernetes allows any exponent, and reading 1e999999999
//     keeps a program busy for hours: one such object would stop everybody who watches
//     its kind;
//   - it fixes every field of a training job but suspend, so that nobody has to extend
//     a rule when a field is added;
//   - it serves the kinds that people write as v1beta1 too, with the same schema
//     (docs/adr/0023-two-versions-one-schema.md).
//
// The definitions are made with
//
//	go tool -modfile=go.tools.mod controller-gen object:headerFile=kube/v1alpha1/header.txt \
//		crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./kube/v1alpha1 output:crd:dir=deploy/chart/crds
//	go run ./tools/trimcrds deploy/chart/crds/*.yaml
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
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
	if !strings.HasSuffix(path, "_journalpages.yaml") {
		serveBeta(doc)
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
	defer refuseFields(schema, pod, typesOf(pod))
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

// typesOf returns the types of the fields that Fairway refuses in a pod.
func typesOf(pod map[string]any) map[string]string {
	out := map[string]string{}
	for _, f := range v1alpha1.PodFields {
		if f.Treatment != v1alpha1.FieldRefused {
			continue
		}
		schema := pod
		for name := range strings.SplitSeq(f.Path, ".") {
			next, ok := at(schema, "properties", name)
			if !ok {
				panic("trimcrds: a pod has no field " + f.Path)
			}
			schema = next
		}
		out[f.Path] = schema["type"].(string)
	}
	return out
}

// refuseFields adds the rules against fields of a pod to the schema that has the
// template. A rule sees only fields with a type, so these get one again.
func refuseFields(schema, pod map[string]any, types map[string]string) {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, f := range v1alpha1.PodFields {
		if types[f.Path] == "" {
			continue
		}
		in, path, rule := pod, "self.template.spec", "!has(self.template) || !has(self.template.spec)"
		parts := strings.Split(f.Path, ".")
		for i, name := range parts {
			path += "." + name
			rule += " || !has(" + path + ")"
			kind := "object"
			if i == len(parts)-1 {
				kind = types[f.Path]
			}
			in = declare(in, name, kind)
		}
		if types[f.Path] == "array" {
			rule += " || size(" + path + ") == 0"
		}
		rules = append(rules, map[string]any{"rule": rule, "message": "template.spec." + f.Path + " must be left out: " + f.Note})
	}
	schema["x-kubernetes-validations"] = rules
}

// declare gives a field of an object a type and nothing more, and returns its schema.
func declare(object map[string]any, name, kind string) map[string]any {
	properties, ok := object["properties"].(map[string]any)
	if !ok {
		properties = map[string]any{}
		object["properties"] = properties
	}
	anything := func() map[string]any {
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	field, _ := properties[name].(map[string]any)
	if field["type"] == kind {
		return field
	}
	field = anything()
	if kind == "array" {
		field = map[string]any{"type": kind, "items": anything()}
	}
	properties[name] = field
	return field
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

// serveBeta adds v1beta1 with the schema of v1alpha1. Its objects are shown with their
// phase.
func serveBeta(doc map[string]any) {
	spec := doc["spec"].(map[string]any)
	alpha := spec["versions"].([]any)[0].(map[string]any)
	beta := maps.Clone(alpha)
	beta["name"], beta["storage"] = "v1beta1", false
	var columns []any
	for _, c := range alpha["additionalPrinterColumns"].([]any) {
		column := maps.Clone(c.(map[string]any))
		if column["jsonPath"] == ".status.state" {
			column["name"], column["jsonPath"] = "Phase", ".status.phase"
		}
		columns = append(columns, column)
	}
	beta["additionalPrinterColumns"] = columns
	spec["versions"] = []any{alpha, beta}
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
