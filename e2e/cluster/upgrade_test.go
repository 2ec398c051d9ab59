// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// definition reads the CRD of training jobs.
func definition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	root, err := kubetest.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/chart/crds/fairway.dev_trainingjobs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// newer returns the CRD as a later version might have it: with another field and
// another column.
func newer(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := definition(t)
	versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	v := versions[0].(map[string]any)
	field := map[string]any{"type": "string", "description": "A field of a later version."}
	if err := unstructured.SetNestedMap(v, field, "schema", "openAPIV3Schema", "properties", "spec", "properties", "later"); err != nil {
		t.Fatal(err)
	}
	columns, _, _ := unstructured.NestedSlice(v, "additionalPrinterColumns")
	column := map[string]any{"name": "Later", "type": "string", "jsonPath": ".spec.later"}
	if err := unstructured.SetNestedSlice(v, append(columns, column), "additionalPrinterColumns"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	return u
}

func (w *world) apply(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	eventually(t, "apply "+u.GetName(), func() error {
		ctx := context.WithoutCancel(t.Context()) // it is also called at the end of the test
		return w.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("install"), client.ForceOwnership)
	})
}

// later returns a job's field of the later version, as the API server returns it.
func (w *world) later(t *testing.T, job *v1alpha1.TrainingJob) (string, error) {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TrainingJob"))
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), u); err != nil {
		return "", err
	}
	text, _, err := unstructured.NestedString(u.Object, "spec", "later")
	return text, err
}

// createLater creates a job with the field of the later version.
func (w *world) createLater(t *testing.T, j training) *v1alpha1.TrainingJob {
	t.Helper()
	o := w.object(j)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TrainingJob"))
	unstructured.RemoveNestedField(u.Object, "status")
	if err := unstructured.SetNestedField(u.Object, "yes", "spec", "later"); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestDefinitionsUpgraded: the CRDs are upgraded and downgraded while the operator and
// jobs run.
func TestDefinitionsUpgraded(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"upgrade"}})
	t.Cleanup(func() { w.apply(t, definition(t)) })
	first := w.operator(t, how{})
	old := w.create(t, training{name: "old", gpus: 8})
	w.wait(t, old, api.Running)
	w.apply(t, newer(t))
	var job *v1alpha1.TrainingJob
	n := 0
	eventually(t, "the later field is kept", func() error { // the API server takes a moment to apply it
		n++
		job = w.createLater(t, training{name: fmt.Sprintf("later-%d", n), gpus: 2, runFor: time.Second})
		if text, err := w.later(t, job); err != nil || text != "yes" {
			return fmt.Errorf("it is %q, %w", text, err)
		}
		return nil
	})
	w.wait(t, job, api.Finished)
	if text, err := w.later(t, job); err != nil || text != "yes" {
		t.Errorf("after the operator's writes the later field is %q, %v; want it untouched", text, err)
	}
	w.wait(t, old, api.Running, api.Finished)
	first.Kill()
	second := w.operator(t, how{})
	again := w.createLater(t, training{name: "again", gpus: 2})
	w.wait(t, again, api.Running)

	w.apply(t, definition(t))
	eventually(t, "the later field is left out", func() error {
		if text, err := w.later(t, again); err != nil || text != "" {
			return fmt.Errorf("it is %q, %w", text, err)
		}
		return nil
	})
	pruned := w.createLater(t, training{name: "pruned", gpus: 2, runFor: time.Second})
	w.wait(t, pruned, api.Finished)
	second.Kill()
	w.operator(t, how{})
	w.end(t, again)
	w.end(t, old)
	w.waitAll(t)
	w.account(t)
	w.wait(t, old, api.Finished)
	if old.Status.Attempt != 1 {
		t.Errorf("the old job needed %d attempts; want 1", old.Status.Attempt)
	}
}

// TestUninstalled: Fairway is removed while jobs run, and installed again. Jobs that
// ended meanwhile do not run again, running jobs are taken over, and waiting jobs
// start.
func TestUninstalled(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"uninstall"}})
	p := w.operator(t, how{})
	short := w.create(t, training{name: "short", gpus: 40})
	long := w.create(t, training{name: "long", gpus: 60})
	w.wait(t, short, api.Running)
	w.wait(t, long, api.Running)
	waits := w.create(t, training{name: "waits", gpus: 30, runFor: time.Second})
	w.wait(t, waits, api.Waiting)
	p.Stop(10 * time.Second)
	w.uninstall(t)
	w.end(t, short) // its status, which nothing updates now, says that it runs
	late := w.create(t, training{name: "late", gpus: 2, runFor: time.Second})
	eventually(t, "the pods go on and end", func() error {
		for _, pod := range w.podsOf(t, short, 1) {
			if pod.Status.Phase != "Succeeded" {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
	for _, pod := range w.podsOf(t, long, 1) {
		if pod.Status.Phase != "Running" || pod.DeletionTimestamp != nil {
			t.Errorf("pod %s is %s; want it to run without an operator", pod.Name, pod.Status.Phase)
		}
	}
	if err := operator.Install(t.Context(), w.Cluster); err != nil {
		t.Fatal(err)
	}
	w.operator(t, how{})
	w.wait(t, short, api.Finished)
	w.wait(t, waits, api.Finished)
	w.wait(t, late, api.Finished)
	w.end(t, long)
	w.wait(t, long, api.Finished)
	w.account(t)
	for _, job := range []*v1alpha1.TrainingJob{short, long, waits, late} {
		if job.Status.Attempt != 1 {
			t.Errorf("job %s needed %d attempts; want 1", job.Name, job.Status.Attempt)
		}
	}
}

// uninstall removes what Helm removes: everything except the CRDs, and the namespace
// with what the operator created in it.
func (w *world) uninstall(t *testing.T) {
	t.Helper()
	objects, err := operator.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, u := range objects {
		if kind := u.GetKind(); kind == "CustomResourceDefinition" || kind == "Namespace" {
			continue
		}
		if err := client.IgnoreNotFound(w.admin.Delete(t.Context(), u)); err != nil {
			t.Fatal(err)
		}
		removed++
	}
	if removed < 5 {
		t.Fatal(errors.New("the manifests have fewer than five objects to remove"))
	}
}
