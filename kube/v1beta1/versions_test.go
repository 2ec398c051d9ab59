// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/v1beta1"
)

const definitions = "../../deploy/chart/crds"

var shared kubetest.Shared

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

// served reads the definitions of the kinds that have both versions.
func served(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	paths, err := filepath.Glob(definitions + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if d.Spec.Names.Kind != "JournalPage" {
			out = append(out, d)
		}
	}
	return out
}

// TestOneSchema: both versions have the same fields and rules; else reading as one version
// and writing back would lose what only the other has. v1alpha1 is stored, so that the version before can be
// installed again.
func TestOneSchema(t *testing.T) {
	for _, d := range served(t) {
		if d.Spec.Conversion != nil || len(d.Spec.Versions) != 2 {
			t.Fatalf("%s has conversion %+v and %d versions; want none and 2", d.Name, d.Spec.Conversion, len(d.Spec.Versions))
		}
		alpha, beta := d.Spec.Versions[0], d.Spec.Versions[1]
		if alpha.Name != "v1alpha1" || beta.Name != "v1beta1" || !alpha.Served || !beta.Served || !alpha.Storage || beta.Storage {
			t.Errorf("%s has versions %s and %s; want v1alpha1, stored, and v1beta1, both served", d.Name, alpha.Name, beta.Name)
		}
		if !reflect.DeepEqual(alpha.Schema, beta.Schema) || !reflect.DeepEqual(alpha.Subresources, beta.Subresources) {
			t.Errorf("%s: the schemas of its versions differ", d.Name)
		}
	}
}

var installed struct {
	once sync.Once
	err  error
}

func install(c *kubetest.Cluster) error {
	installed.once.Do(func() {
		_, installed.err = envtest.InstallCRDs(c.Admin(), envtest.CRDInstallOptions{Paths: []string{definitions}, ErrorIfPathMissing: true})
	})
	return installed.err
}

// open returns clients of a cluster that has the CRDs: one for objects of any version, and
// one as a Go program that uses v1beta1 has it.
func open(t *testing.T) (plain, typed client.Client) {
	t.Helper()
	c := shared.Cluster(t)
	if err := install(c); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	plain, err := client.New(c.Admin(), client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if typed, err = client.New(c.Admin(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return plain, typed
}

func parse(t *testing.T, version, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(asJSON)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	o.SetAPIVersion(v1alpha1.GroupVersion.Group + "/" + version)
	return o
}

// objects are one of each kind, with what the operator writes of it.
var objects = []struct{ object, status string }{
	{
		"{kind: TrainingJob, metadata: {namespace: default, generateName: job-}, spec: {gpus: 4, minGPUs: 1, maxGPUs: 8, work: '1000.5', template: {spec: {containers: [{name: main, image: trainer}]}}}}",
		"{phase: Running, state: running, gpus: 4, size: 4/1-8, goodput: '812', rho: '1.25', metrics: {goodput: 812, rho: 1.25}, observedGeneration: 1, attempt: 2, conditions: [{type: Running, status: 'True', reason: Running, message: on node-0, observedGeneration: 1, lastTransitionTime: '2026-01-01T00:00:00Z'}]}",
	},
	{
		"{kind: Tenant, metadata: {generateName: red-}, spec: {namespaces: [a], quota: 4, borrow: true, weight: '1.5'}}",
		"{gpus: 6, fairShare: '2.67', rho: '1.1', metrics: {fairShare: 2.67, rho: 1.1}, observedGeneration: 1}",
	},
	{
		"{kind: App, metadata: {namespace: default, generateName: sweep-}, spec: {suspend: true}}",
		"{phase: Paused, state: paused, rho: '2', metrics: {rho: 2}, best: 'trial 3: 0.125 with lr=0.1', bestTrial: {number: 3, value: 0.125, parameters: {lr: '0.1'}}}",
	},
	{
		"{kind: SchedulingPolicy, metadata: {name: cluster}, spec: {policy: fairway}}",
		"{inForce: fairway, observedGeneration: 1}",
	},
}

// TestBothWays: what is written as one version is read as the other, to the last field,
// also when the other version has changed it in between.
func TestBothWays(t *testing.T) {
	plain, _ := open(t)
	for _, c := range objects {
		for _, way := range [][2]string{{"v1alpha1", "v1beta1"}, {"v1beta1", "v1alpha1"}} {
			o := parse(t, way[0], c.object)
			if err := plain.Create(t.Context(), o); err != nil {
				t.Errorf("create as %s: %v", way[0], err)
				continue
			}
			o.Object["status"] = parse(t, way[0], "{kind: Status, status: "+c.status+"}").Object["status"]
			want := o.DeepCopy()
			if err := plain.Status().Update(t.Context(), o); err != nil {
				t.Errorf("write the status as %s: %v", way[0], err)
			}
			other := parse(t, way[1], "{kind: "+o.GetKind()+"}")
			if err := plain.Get(t.Context(), client.ObjectKeyFromObject(o), other); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"spec", "status"} {
				if diff := cmp.Diff(want.Object[part], other.Object[part]); diff != "" {
					t.Errorf("%s of a %s, written as %s, read as %s (-want +got):\n%s", part, o.GetKind(), way[0], way[1], diff)
				}
			}
			if err := plain.Patch(t.Context(), other, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"seen": "yes"}}}`))); err != nil {
				t.Errorf("change as %s: %v", way[1], err)
			}
			if err := plain.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Object["status"], o.Object["status"]); diff != "" || o.GetLabels()["seen"] != "yes" {
				t.Errorf("the status of a %s, changed as %s (-want +got):\n%s", o.GetKind(), way[1], diff)
			}
			if err := plain.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTyped: a Go program reads numbers, and the API server takes nothing else for them.
// The rules about a spec hold in v1beta1 too.
func TestTyped(t *testing.T) {
	plain, typed := open(t)
	o := parse(t, "v1alpha1", objects[0].object)
	if err := plain.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for edit, want := range map[string]string{
		`{"status": {"metrics": {"rho": "1.25"}}}`:               "must be of type number",
		`{"status": {"gpus": "4"}}`:                              "must be of type integer",
		`{"status": {"conditions": [{"type": "Running"}]}}`:      "status.conditions[0].reason",
		`{"status": {"gpus": 4, "metrics": {"goodput": 812.5}}}`: "",
	} {
		beta := parse(t, "v1beta1", "{kind: TrainingJob}")
		beta.SetNamespace(o.GetNamespace())
		beta.SetName(o.GetName())
		err := plain.Status().Patch(t.Context(), beta, client.RawPatch("application/merge-patch+json", []byte(edit)))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", edit, err, want)
		}
	}
	var job v1beta1.TrainingJob
	if err := typed.Get(t.Context(), client.ObjectKeyFromObject(o), &job); err != nil {
		t.Fatal(err)
	}
	if s := job.Status; s.GPUs != 4 || s.Metrics.Goodput != 812.5 {
		t.Errorf("status %+v; want 4 GPUs and goodput 812.5", s)
	}
	job.Spec.GPUs = 2
	if err := typed.Update(t.Context(), &job); err == nil || !strings.Contains(err.Error(), "only suspend can be changed") {
		t.Errorf("resize it as v1beta1: %v; want it refused", err)
	}
}

// TestShown: kubectl asks for v1beta1 unless told otherwise, and shows and explains it.
func TestShown(t *testing.T) {
	plain, _ := open(t)
	find, err := discovery.NewDiscoveryClientForConfig(shared.Cluster(t).Admin())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := find.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == v1beta1.GroupVersion.Group })
	if i < 0 || groups.Groups[i].PreferredVersion.Version != "v1beta1" {
		t.Fatalf("groups %+v; want v1beta1 preferred", groups.Groups)
	}
	o := parse(t, "v1alpha1", objects[0].object)
	if err := plain.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Object["status"] = map[string]any{"phase": "Running", "state": "running"}
	if err := plain.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	get := func(path, accept string) []byte {
		text, err := find.RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var table metav1.Table
	if err := json.Unmarshal(get("/apis/fairway.dev/v1beta1/namespaces/default/trainingjobs/"+o.GetName(), "application/json;as=Table;v=v1;g=meta.k8s.io"), &table); err != nil {
		t.Fatal(err)
	}
	if table.ColumnDefinitions[1].Name != "Phase" || table.Rows[0].Cells[1] != "Running" {
		t.Errorf("column %s is %v; want Phase, Running", table.ColumnDefinitions[1].Name, table.Rows[0].Cells[1])
	}
	if text := get("/openapi/v3/apis/fairway.dev/v1beta1", "application/json"); !bytes.Contains(text, []byte("Finish-time fairness")) {
		t.Error("the API server does not explain metrics.rho of v1beta1")
	}
}

// TestBack: objects that were created as v1beta1 are there after the definitions of a
// version that did not know it are installed again.
func TestBack(t *testing.T) {
	plain, typed := open(t)
	o := parse(t, "v1beta1", objects[0].object)
	if err := plain.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var d apiextensionsv1.CustomResourceDefinition
	at := client.ObjectKey{Name: "trainingjobs.fairway.dev"}
	if err := typed.Get(t.Context(), at, &d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1alpha1"}, d.Status.StoredVersions); diff != "" {
		t.Errorf("stored versions (-want +got):\n%s", diff)
	}
	both := d.Spec.Versions
	d.Spec.Versions = both[:1:1]
	if err := typed.Update(t.Context(), &d); err != nil {
		t.Fatalf("install the definitions of before: %v", err)
	}
	alpha := parse(t, "v1alpha1", "{kind: TrainingJob}")
	if err := plain.Get(t.Context(), client.ObjectKeyFromObject(o), alpha); err != nil || !reflect.DeepEqual(alpha.Object["spec"], o.Object["spec"]) {
		t.Errorf("read it after that: %v, %v; want what was created", alpha.Object["spec"], err)
	}
	if err := typed.Get(t.Context(), at, &d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Versions = both
	if err := typed.Update(t.Context(), &d); err != nil {
		t.Errorf("install the new ones again: %v", err)
	}
}
