// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func withCodec(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

// TestColumns: what "kubectl get" shows.
func TestColumns(t *testing.T) {
	k := open(t)
	o := parse(t, strings.Replace(job("app: sweep"), "generateName: job-", "name: shown", 1))
	if err := k.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	status := map[string]any{"state": "waiting", "size": "0/1-8", "why": "needs 8 GPUs; 2 are free in the cluster until about 12:00", "brief": "needs 8 GPUs; 2 are free", "rho": "1.5", "roles": "trainer 1, rollout 1 (1 to 7)", "plan": "fsdp2", "tenant": "red", "until": "2126-01-01T00:00:00Z"}
	if err := unstructured.SetNestedMap(o.Object, status, "status"); err != nil {
		t.Fatal(err)
	}
	if err := k.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	table := ask(t, "/apis/fairway.dev/v1alpha1/namespaces/default/trainingjobs/shown", "application/json;as=Table;v=v1;g=meta.k8s.io")
	var names, wide []string
	for _, c := range table["columnDefinitions"].([]any) {
		column := c.(map[string]any)
		names = append(names, column["name"].(string))
		if column["priority"].(float64) > 0 {
			wide = append(wide, column["name"].(string))
		}
	}
	want := []string{"Name", "State", "GPUs", "Goodput", "Rho", "Why", "Until", "Tenant", "App", "Roles", "Plan", "Nodes", "Details", "Age"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Tenant", "App", "Roles", "Plan", "Nodes", "Details"}, wide); diff != "" {
		t.Errorf("columns of -o wide (-want +got):\n%s", diff)
	}
	cells := table["rows"].([]any)[0].(map[string]any)["cells"].([]any)
	for i, want := range map[int]any{0: "shown", 1: "waiting", 2: "0/1-8", 4: "1.5", 5: "needs 8 GPUs; 2 are free", 6: "2126-01-01T00:00:00Z", 7: "red", 8: "sweep", 9: "trainer 1, rollout 1 (1 to 7)", 10: "fsdp2", 12: "needs 8 GPUs; 2 are free in the cluster until about 12:00"} {
		if cells[i] != want {
			t.Errorf("column %s holds %v; want %v", names[i], cells[i], want)
		}
	}
}

// TestExplained: every field of Fairway's has a description for "kubectl explain".
func TestExplained(t *testing.T) {
	paths, err := filepath.Glob(definitions + "/*.yaml")
	if err != nil || len(paths) != 5 {
		t.Fatalf("%d definitions, %v; want 5", len(paths), err)
	}
	for _, path := range paths {
		schema := schemaOf(t, path)
		// The names of counters in a status explain themselves.
		quiet := []string{"running", "waiting", "ended", "gpus", "observedGeneration", "conditions", "startTime", "completionTime", "state", "metadata", "spec", "status", "rule"}
		for _, field := range silent(schema, "") {
			if !slices.Contains(quiet, field[strings.LastIndex(field, ".")+1:]) {
				t.Errorf("%s: %s has no description", filepath.Base(path), field)
			}
		}
	}
	open(t)
	text := ask(t, "/openapi/v3/apis/fairway.dev/v1alpha1", "application/json")
	schemas := text["components"].(map[string]any)["schemas"].(map[string]any)
	kind, ok := schemas["dev.fairway.v1alpha1.TrainingJob"].(map[string]any)
	if !ok {
		t.Fatal("the API server explains no TrainingJob")
	}
	gpus, _, _ := unstructured.NestedString(kind, "properties", "spec", "properties", "gpus", "description")
	if !strings.HasPrefix(gpus, "The GPUs of the gang") {
		t.Errorf("spec.gpus is explained as %q", gpus)
	}
}

func schemaOf(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(doc, "spec", "versions")
	schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	if !found || err != nil {
		t.Fatalf("%s: no schema: %v", path, err)
	}
	return schema
}

// silent returns the fields without a description, except those of pod templates, which
// are Kubernetes' own.
func silent(schema map[string]any, at string) []string {
	var out []string
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		field := p.(map[string]any)
		if _, ok := field["description"]; !ok {
			out = append(out, at+"."+name)
		}
		if name != "template" && name != "metadata" && name != "conditions" {
			out = append(out, silent(field, at+"."+name)...)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		out = append(out, silent(items, at)...)
	}
	return out
}

// TestUpgrade: an object that was created before a field was added still works under
// the later CRD, and a CRD can be applied again.
func TestUpgrade(t *testing.T) {
	k := open(t)
	read := func() *unstructured.Unstructured {
		o := parse(t, "{metadata: {name: trainingjobs.fairway.dev}}")
		o.SetAPIVersion("apiextensions.k8s.io/v1")
		o.SetKind("CustomResourceDefinition")
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	old := parse(t, job("gpus: 2"))
	if err := k.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	definition := read()
	before := definition.DeepCopy()
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	field := map[string]any{"type": "string", "description": "What comes later."}
	if err := unstructured.SetNestedMap(versions[0].(map[string]any), field, "schema", "openAPIV3Schema", "properties", "spec", "properties", "later"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := k.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	if err := k.Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": true}}`))); err != nil {
		t.Errorf("suspend a job of before: %v", err)
	}
	now := read()
	now.Object["spec"] = before.Object["spec"]
	if err := k.Update(t.Context(), now); err != nil {
		t.Errorf("go back: %v", err)
	}
	if err := k.Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": false}}`))); err != nil {
		t.Errorf("resume it after going back: %v", err)
	}
}
