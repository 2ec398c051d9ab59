// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestPodFields: every field of a pod's spec, and of its affinity, is classified, and
// nothing else is. A new version of Kubernetes that adds a field fails here until
// somebody has decided what Fairway does with it.
func TestPodFields(t *testing.T) {
	var want []string
	names := func(of reflect.Type, prefix string) {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, prefix+name)
		}
	}
	names(reflect.TypeFor[corev1.PodSpec](), "")
	names(reflect.TypeFor[corev1.Affinity](), "affinity.")
	want = slices.DeleteFunc(want, func(path string) bool { return path == "affinity" })
	for _, path := range want {
		if !slices.ContainsFunc(v1alpha1.PodFields, func(f v1alpha1.PodField) bool { return f.Path == path }) {
			t.Errorf("PodFields does not say what Fairway does with %s", path)
		}
	}
	for i, f := range v1alpha1.PodFields {
		known := slices.ContainsFunc(want, func(path string) bool { return f.Path == path || strings.HasPrefix(f.Path, path+".") })
		if !known || i > 0 && v1alpha1.PodFields[i-1].Path >= f.Path {
			t.Errorf("%s is no field of a pod, or is not in order", f.Path)
		}
		if f.Treatment == v1alpha1.FieldRefused && f.Note == "" {
			t.Errorf("%s is refused without a reason", f.Path)
		}
	}
}

// TestPodFieldsPage: the page for people says the same.
func TestPodFieldsPage(t *testing.T) {
	const page = "../../docs/kubernetes/pod-fields.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, f := range v1alpha1.PodFields {
		note := f.Note
		if f.OwnOnly {
			note += " (labelled objects of other kinds may have it)"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.Path, f.Treatment, note)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("%s should contain\n%s", page, table.String())
	}
}

// refusedPods has a pod for each refused field.
var refusedPods = map[string]string{
	"affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution":     "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}",
	"affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution": "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}",
	"ephemeralContainers":       "ephemeralContainers: [{name: debug}]",
	"nodeName":                  "nodeName: node-1",
	"resourceClaims":            "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]",
	"schedulingGates":           "schedulingGates: [{name: later}]",
	"schedulingGroup":           "schedulingGroup: {podGroupName: x}",
	"topologySpreadConstraints": "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
}

// podOf reads a pod.
func podOf(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("{" + text + "}"))
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.PodSpec
	if err := json.Unmarshal(raw, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

// TestUnsupportedField: Fairway finds each refused field, and no other.
func TestUnsupportedField(t *testing.T) {
	for _, f := range v1alpha1.PodFields {
		if f.Treatment != v1alpha1.FieldRefused {
			continue
		}
		pod := podOf(t, refusedPods[f.Path])
		if got := v1alpha1.UnsupportedField(pod, true); got == nil || got.Path != f.Path {
			t.Errorf("%s: found %+v", f.Path, got)
		}
		if got := v1alpha1.UnsupportedField(pod, false); (got == nil) != f.OwnOnly {
			t.Errorf("%s of another controller: found %+v", f.Path, got)
		}
	}
	for _, fine := range []string{
		"containers: [{name: main}]", "resourceClaims: []", "affinity: {}",
		"affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}], requiredDuringSchedulingIgnoredDuringExecution: []}}",
	} {
		if got := v1alpha1.UnsupportedField(podOf(t, fine), true); got != nil {
			t.Errorf("{%s} is refused because of %s", fine, got.Path)
		}
	}
}

// TestRefusedFields: the API server refuses them, and says why.
func TestRefusedFields(t *testing.T) {
	k := open(t)
	const rest = ", containers: [{name: main}]"
	for _, f := range v1alpha1.PodFields {
		if f.Treatment != v1alpha1.FieldRefused {
			continue
		}
		pod := refusedPods[f.Path] + rest
		want := "template.spec." + f.Path + " must be left out: " + f.Note
		for _, object := range []string{
			job("template: {spec: {" + pod + "}}"),
			strings.Replace(app("metric: loss, parameters: {lr: {values: ['1']}}"), "containers: [{name: main}]", pod, 1),
		} {
			if err := k.Create(t.Context(), parse(t, object)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", object, err, want)
			}
		}
	}
	fine := job("template: {spec: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}}" + rest + "}}")
	if err := k.Create(t.Context(), parse(t, fine)); err != nil {
		t.Errorf("a preference: %v", err)
	}
}
