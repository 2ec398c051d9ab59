// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// hostile is an absurd or malicious job.
type hostile struct {
	name string
	spec string // of the object, as JSON; TEMPLATE stands for a valid template
	// says is a part of the API server's error, or of Fairway's refusal; empty: the job
	// may be accepted, and does no harm.
	says string
}

const goodTemplate = `{"spec":{"containers":[{"name":"c","image":"x"}]}}`

func hostiles() []hostile {
	env := make([]string, 10_000)
	for i := range env {
		env[i] = fmt.Sprintf(`{"name":"V%d","value":"x"}`, i)
	}
	template := func(container string) string {
		return `{"gpus":1,"template":{"spec":{"containers":[{"name":"c","image":"x"` + container + `}]}}}`
	}
	with := func(fields string) string { return `{"template":TEMPLATE,` + fields + `}` }
	return []hostile{
		{"a billion GPUs", with(`"gpus":1000000000`), "65536"},
		{"no GPUs", with(`"gpus":0`), "gpus"},
		{"fewer than none", with(`"gpus":-4`), "gpus"},
		{"half a GPU", with(`"gpus":1.5`), "gpus"},
		{"a text for GPUs", with(`"gpus":"NaN"`), "gpus"},
		{"more than an int64", with(`"gpus":99999999999999999999999`), "gpus"},
		{"no number for work", with(`"gpus":1,"work":"NaN"`), "work"},
		{"infinite work", with(`"gpus":1,"work":"1e309"`), "work"},
		{"a notice of 290 years", with(`"gpus":1,"notice":"99999h"`), "notice"},
		{"a negative notice", with(`"gpus":1,"notice":"-5s"`), "notice"},
		{"an estimate that is none", with(`"gpus":1,"estimate":"soon"`), "estimate"},
		{"a priority out of range", with(`"gpus":1,"priority":2147483647`), "priority"},
		{"pods larger than nodes", with(`"gpus":65536,"gpusPerPod":64`), ""},
		{"sizes upside down", with(`"gpus":4,"minGPUs":1,"maxGPUs":8,"sizes":[8,4,2]`), "ascending"},
		{"least above most", with(`"gpus":4,"minGPUs":8,"maxGPUs":2`), "minGPUs"},
		{"memory beyond counting", with(`"gpus":1,"gpuMemory":"999999999999Ei"`), "gpuMemory"},
		{"less memory than none", with(`"gpus":1,"gpuMemory":"-1"`), "gpuMemory"},
		{"a node of its choice", `{"gpus":1,"template":{"spec":{"nodeName":"gpu-0","containers":[{"name":"c","image":"x"}]}}}`, "nodeName"},
		{"no containers", `{"gpus":1,"template":{"spec":{"containers":[]}}}`, "container"},
		{"no template", `{"gpus":1}`, "template"},
		{"ten thousand variables", template(`,"env":[` + strings.Join(env, ",") + `]`), ""},
		{"CPUs beyond counting", template(`,"resources":{"requests":{"cpu":"1E","memory":"8Ei"}}`), "cpu"},
		{"its own number of GPUs", template(`,"resources":{"limits":{"nvidia.com/gpu":"8"},"requests":{"nvidia.com/gpu":"8"}}`), ""},
		{"a command of 900 kB", template(`,"args":["` + strings.Repeat("x", 900_000) + `"]`), ""},
		{"1.6 MB", template(`,"args":["` + strings.Repeat("x", 1_600_000) + `"]`), "large"},
		{"a deep object", with(`"gpus":1,"deep":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000)), ""},
		{"a name for an app that is a path", with(`"gpus":1,"app":"../../etc"`), "app"},
		{"a resource that is none", with(`"gpus":1,"gpuResource":"cpu"`), ""},
		{"all of the machine", `{"gpus":1,"template":{"spec":{"hostNetwork":true,"hostPID":true,"containers":[{"name":"c","image":"x","securityContext":{"privileged":true}}]}}}`, ""},
		{"a label that is Fairway's", `{"gpus":1,"template":{"metadata":{"labels":{"fairway.dev/id":"other-1","fairway.dev/rank":"99","fairway.dev/attempt":"77"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}`, ""},
	}
}

// TestHostileJobs: absurd jobs are refused with a reason that names the problem, or do
// no harm, and the operator stays as fast as before.
func TestHostileJobs(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"hostile", "decent"}})
	p := w.operator(t, how{})
	try := func(name string) (*v1alpha1.TrainingJob, time.Duration) {
		begin := time.Now()
		job := w.create(t, training{name: name, namespace: "decent", runFor: time.Second})
		w.wait(t, job, api.Running, api.Finished)
		return job, time.Since(begin)
	}
	_, before := try("before")
	taken, refused := 0, 0
	for i, h := range hostiles() {
		err := w.createRaw(t, fmt.Sprintf("hostile-%d", i), strings.ReplaceAll(h.spec, "TEMPLATE", goodTemplate))
		if err != nil {
			refused++
			if h.says == "" && !strings.Contains(err.Error(), "too large") || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(h.says)) {
				t.Errorf("%s: refused with %.300v; want a word of %q", h.name, err, h.says)
			}
			continue
		}
		taken++
		if h.says == "" {
			continue
		}
		job := &v1alpha1.TrainingJob{}
		job.Namespace, job.Name = "hostile", fmt.Sprintf("hostile-%d", i)
		w.wait(t, job, v1alpha1.Refused)
		if !strings.Contains(job.Status.Why, h.says) {
			t.Errorf("%s: Fairway refused it because %q; want a word of %q", h.name, job.Status.Why, h.says)
		}
	}
	longest := strings.Repeat("n", 51)
	if err := w.createRaw(t, longest, strings.ReplaceAll(`{"gpus":1,"template":TEMPLATE}`, "TEMPLATE", goodTemplate)); err == nil || !strings.Contains(err.Error(), "50 letters") {
		t.Errorf("a name of 51 letters: %v; want it refused with the bound", err)
	}
	fits := w.create(t, training{name: strings.Repeat("n", 50), namespace: "decent", gpus: 2, runFor: time.Second})
	small, took := try("small")
	t.Logf("%d hostile jobs were taken and %d refused; a decent one ran after %v, and before them after %v", taken, refused, took.Round(time.Millisecond), before.Round(time.Millisecond))
	if most := max(15*time.Second, 10*before); took > most {
		t.Errorf("a decent job ran after %v; want at most %v", took, most)
	}
	w.wait(t, fits, api.Finished)
	w.wait(t, small, api.Finished)
	if !p.Running() || strings.Contains(p.log(), "panic") {
		t.Error("the operator did not survive")
	}
	w.checkHarmless(t)
}

// createRaw creates a training job from JSON, as it is.
func (w *world) createRaw(t *testing.T, name, spec string) error {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":"TrainingJob","metadata":{"namespace":"hostile","name":%q},"spec":%s}`, v1alpha1.GroupVersion.String(), name, spec)
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	err := w.admin.Create(t.Context(), u)
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsRequestEntityTooLargeError(err) && !apierrors.IsForbidden(err) {
		t.Logf("%s: an unusual refusal: %.200v", name, err)
	}
	return err
}

// checkHarmless: the pods of hostile jobs have the GPUs that Fairway gave them, and
// its labels.
func (w *world) checkHarmless(t *testing.T) {
	t.Helper()
	w.ledger.catchUp(t)
	var pods corev1.PodList
	if err := w.admin.List(t.Context(), &pods, client.InNamespace("hostile")); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Labels[v1alpha1.LabelRank] == "99" || p.Labels[v1alpha1.LabelID] == "other-1" {
			t.Errorf("pod %s has the labels %v of its template; want Fairway's own", p.Name, p.Labels)
		}
	}
}
