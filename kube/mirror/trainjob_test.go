// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// realTrainJobs is Kubeflow's own CRD in its Go module, which "go mod download
// github.com/kubeflow/trainer/v2@v2.0.0" fetches.
const realTrainJobs = "github.com/kubeflow/trainer/v2@v2.0.0/manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml"

// trainJobs installs the CRD of TrainJobs: Kubeflow's own if its module is available,
// otherwise one whose schema accepts anything.
func trainJobs(t *testing.T) {
	t.Helper()
	modules := os.Getenv("GOMODCACHE")
	if modules == "" {
		modules = filepath.Join(build.Default.GOPATH, "pkg", "mod")
	}
	real := filepath.Join(modules, filepath.FromSlash(realTrainJobs))
	if _, err := os.Stat(real); err == nil {
		t.Log("with Kubeflow's own schema")
		if _, err := envtest.InstallCRDs(shared.Cluster(t).Admin(), envtest.CRDInstallOptions{Paths: []string{real}}); err != nil {
			t.Fatal(err)
		}
		return
	}
	installAnything(t, trainJobKind)
}

// installAnything installs a CRD whose schema accepts anything.
func installAnything(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	singular := strings.ToLower(kind.Kind)
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind.Kind, ListKind: kind.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr(true)}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	if _, err := envtest.InstallCRDs(shared.Cluster(t).Admin(), envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		t.Fatal(err)
	}
}

func trainJobObject(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return managedObject(trainJobKind, namespace, name, spec)
}

func managedObject(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{v1alpha1.LabelManaged: "true"})
	return u
}

// TestTrainJob: a TrainJob of Kubeflow is accepted and started, and its pods are bound.
// The test stands in for Kubeflow's controller, which creates its Jobs.
func TestTrainJob(t *testing.T) {
	trainJobs(t)
	w := open(t, func(c *Config) { c.Suspended = []string{kindTrainJob} })
	ns := w.namespace("kubeflow")
	trainer := map[string]any{"numNodes": int64(2), "image": "trainer:2", "resourcesPerNode": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "2"}}}
	job := trainJobObject(ns, "llm", map[string]any{"suspend": true, "runtimeRef": map[string]any{"name": "torch"}, "trainer": trainer})
	w.create(job)
	w.until("has GPUs", job, func() bool { return strings.HasPrefix(job.GetAnnotations()[v1alpha1.AnnotationWhy], "starting") })
	if got := w.jobs(ns); len(got) != 1 || got[0].Origin != "TrainJob/kubeflow/llm" || got[0].GPUs != 4 || got[0].TaskGPUs != 2 || got[0].Image != "trainer:2" {
		t.Errorf("the state has %+v; want 2 pods of 2 GPUs", got)
	}
	a := w.state.Attempts()[0]
	f := External{Mirror: w.mirror, Now: time.Now}
	nodes := []string{"node-1", "node-1"}
	if err := f.Start(t.Context(), a, nodes); err != nil {
		t.Fatal(err)
	}
	w.until("is begun", job, func() bool {
		suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
		return !suspended
	})
	gpus := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}
	w.create(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "llm-node-0"},
		Spec: batchv1.JobSpec{Parallelism: ptr(int32(2)), Completions: ptr(int32(2)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{jobSetLabel: "llm"}, Annotations: map[string]string{kubetest.RunFor: "1h"}},
			Spec:       corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "node", Image: "trainer:2", Resources: gpus}}},
		}},
	})
	w.until("is up", nil, func() bool {
		if err := f.Start(t.Context(), a, nodes); err != nil {
			t.Fatal(err)
		}
		return f.State(a.AttemptID).Up
	})
	w.until("its status is written", job, func() bool {
		if err := unstructured.SetNestedSlice(job.Object, []any{map[string]any{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "took too long", "lastTransitionTime": "2026-01-01T00:00:00Z"}}, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		err := w.client.Status().Update(t.Context(), job)
		if err != nil && !apierrors.IsConflict(err) { // the mirror writes to it too
			t.Fatal(err)
		}
		return err == nil
	})
	w.until("has failed", nil, func() bool { return f.State(a.AttemptID).Exit != nil })
	if e := f.State(a.AttemptID).Exit; e.Code == 0 || e.Why != "DeadlineExceeded: took too long" {
		t.Errorf("it ended with %+v; want a failure with its reason", e)
	}
	if err := w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	w.until("is cancelled", nil, func() bool { return w.jobs(ns)[0].State == api.Cancelled })

	for want, spec := range map[string]map[string]any{
		"spec.trainer.numNodes is missing": {"suspend": true, "trainer": map[string]any{"image": "x", "resourcesPerNode": trainer["resourcesPerNode"]}},
		"spec.suspend is not true":         {"trainer": trainer},
		"requests 0 GPUs":                  {"suspend": true, "trainer": map[string]any{"numNodes": int64(1)}},
		"cannot be read":                   {"suspend": true, "trainer": "all of it"},
		"limits.cpu is \"1e999999999\"":    {"suspend": true, "trainer": map[string]any{"numNodes": int64(1), "resourcesPerNode": map[string]any{"limits": map[string]any{"cpu": "1e999999999"}}}},
	} {
		_, err := trainJobWorkload(trainJobObject(ns, "bad", spec)).submission()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", spec, err, want)
		}
	}
}

// TestTrainJobWhere: the overrides for the training pods of a TrainJob decide where
// they run.
func TestTrainJobWhere(t *testing.T) {
	at := func(name string, where map[string]any) map[string]any {
		where["targetJobs"] = []any{map[string]any{"name": name}}
		return where
	}
	fast := map[string]any{"disk": "fast"}
	tolerates := []any{map[string]any{"key": "team", "operator": "Exists"}}
	job := trainJobWorkload(trainJobObject("ns", "llm", map[string]any{
		"podSpecOverrides": []any{
			at("node", map[string]any{"nodeSelector": map[string]any{"disk": "slow"}}),
			at("node", map[string]any{"nodeSelector": fast}),
			at("dataset-initializer", map[string]any{"nodeSelector": map[string]any{"disk": "none"}}),
		},
		"podTemplateOverrides": []any{at("node", map[string]any{"spec": map[string]any{"tolerations": tolerates}})},
	}))
	want := `nodeSelector {disk=fast}, tolerations {team}`
	if got := (constraint.Rules{}).Of("ns", job.pod).String(); got != want {
		t.Errorf("its pods ask for %s; want %s", got, want)
	}
}
