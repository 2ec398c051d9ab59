// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/api/apitest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestV01Schema: the CRDs have every field of version 0.1, with its type. The fields of
// pods are Kubernetes' own and are not compared.
func TestV01Schema(t *testing.T) {
	schemas := map[string]map[string]any{}
	files, err := filepath.Glob(definitions + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		schemas[d.Spec.Names.Kind] = d.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	old, err := os.ReadFile("testdata/v0.1/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(old)) {
		words := strings.Fields(line)
		kind, path, was := words[0], words[1], words[2]
		if is := typeOf(schemas[kind], path); is != was {
			t.Errorf("%s: field %s has type %q; it was %q", kind, path, is, was)
		}
	}
}

// typeOf returns the type of a field in a schema. In a path, [] stands for the items of
// a list and {} for the values of a map.
func typeOf(s map[string]any, path string) string {
	path = strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path)
	for step := range strings.SplitSeq(path, ".") {
		switch step {
		case "[]":
			s, _ = s["items"].(map[string]any)
		case "{}":
			s, _ = s["additionalProperties"].(map[string]any)
		default:
			properties, _ := s["properties"].(map[string]any)
			s, _ = properties[step].(map[string]any)
		}
	}
	if s["x-kubernetes-int-or-string"] == true {
		return "int-or-string"
	}
	kind, _ := s["type"].(string)
	return kind
}

// TestV01Objects: the types hold every field of the objects that version 0.1 had
// in a cluster.
func TestV01Objects(t *testing.T) {
	kinds := map[string]func() any{
		"TrainingJob": func() any { return new(v1alpha1.TrainingJob) }, "App": func() any { return new(v1alpha1.App) },
		"Tenant": func() any { return new(v1alpha1.Tenant) }, "SchedulingPolicy": func() any { return new(v1alpha1.SchedulingPolicy) },
		"JournalPage": func() any { return new(v1alpha1.JournalPage) },
	}
	seen := map[string]bool{}
	for _, line := range apitest.Lines[json.RawMessage](t, "testdata/v0.1/objects.jsonl") {
		var o unstructured.Unstructured
		if err := json.Unmarshal(line, &o.Object); err != nil {
			t.Fatal(err)
		}
		seen[o.GetKind()] = true
		lost, err := apitest.RoundTrip(line, kinds[o.GetKind()]())
		if err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		for _, l := range lost {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), l)
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("objects of kinds %v; want one of each of %d", seen, len(kinds))
	}
}

// TestV01Accepted: the API server accepts these objects with all their fields,
// including the status that the operator wrote.
func TestV01Accepted(t *testing.T) {
	k := open(t)
	for _, line := range apitest.Lines[json.RawMessage](t, "testdata/v0.1/objects.jsonl") {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(line, &o.Object); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "finalizers", "ownerReferences", "managedFields"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		if o.GetNamespace() != "" {
			o.SetNamespace("default")
		}
		want := o.DeepCopy()
		if err := k.Create(t.Context(), o); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			continue
		}
		t.Cleanup(func() { _ = k.Delete(t.Context(), o) })
		if status, ok := want.Object["status"]; ok {
			o.Object["status"] = status
			if err := k.Status().Update(t.Context(), o); err != nil {
				t.Errorf("status of %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		old, _ := json.Marshal(want.Object)
		now, _ := json.Marshal(o.Object)
		for _, l := range apitest.Lost(old, now) {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), l)
		}
	}
}
