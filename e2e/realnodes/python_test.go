// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// python is an interpreter of this machine, of which pods mount all that it needs.
const python = "/usr/bin/python3"

// mounted are the folders of this machine that such pods mount, read-only.
var mounted = []string{"/usr", "/lib", "/lib64", "/etc/alternatives"}

// boss returns an administrator's token.
func (w *world) boss(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "boss"}}
	for _, o := range []client.Object{account, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "boss"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairway-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "boss"}},
	}} {
		if err := w.admin.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	q := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"fairway"}}}
	err := w.admin.SubResource("token").Create(ctx, account, q)
	return q.Status.Token, err
}

// gpusPerPod is the number of GPUs of a node, so each pod of a gang is on another node.
const gpusPerPod = 2

// script returns a gang of two pods that run a Python script of the module.
func (w *world) script(t *testing.T, name string, args ...string) *v1alpha1.TrainingJob {
	t.Helper()
	root, err := kubetest.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	job := w.job(t, name)
	job.Spec.GPUs = nodes * gpusPerPod
	per := int32(gpusPerPod)
	job.Spec.GPUsPerPod = &per
	spec := &job.Spec.Template.Spec
	k := &spec.Containers[0]
	k.Image, k.Command = kubetest.PodImage, append([]string{python}, args...)
	k.Env = append(k.Env, corev1.EnvVar{Name: "PYTHONPATH", Value: "/fairway/python/src"}, corev1.EnvVar{Name: "OMP_NUM_THREADS", Value: "1"},
		corev1.EnvVar{Name: "PYTHONDONTWRITEBYTECODE", Value: "1"}, corev1.EnvVar{Name: "PYTHONUNBUFFERED", Value: "1"})
	add := func(name, from, to string) {
		kind := corev1.HostPathDirectory
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: from, Type: &kind}}})
		k.VolumeMounts = append(k.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: to, ReadOnly: true})
	}
	for i, folder := range mounted {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			add(fmt.Sprintf("system-%d", i), real, folder)
		}
	}
	add("examples", filepath.Join(root, "examples"), "/fairway/examples")
	add("python", filepath.Join(root, "python"), "/fairway/python")
	return job
}

// interrupt waits until a gang has saved some work or made enough progress, suspends
// it, and resumes it.
func (w *world) interrupt(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	set := func(to bool) {
		before := job.DeepCopy()
		job.Spec.Suspend = to
		if err := w.admin.Patch(within(t, patience), job, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	set(true)
	eventually(t, "job "+job.Name+" is paused, and its pods are gone", func(ctx context.Context) error {
		if err := w.get(ctx, job); err != nil {
			return err
		}
		var pods corev1.PodList
		if err := w.admin.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: job.Name}); err != nil {
			return err
		}
		if job.Status.State != api.Paused || len(pods.Items) > 0 {
			return fmt.Errorf("it is %s with %d pods", job.Status.State, len(pods.Items))
		}
		return nil
	})
	set(false)
}

// waitUp waits until a job runs.
func (w *world) waitUp(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	eventually(t, "job "+job.Name+" runs", func(ctx context.Context) error {
		if err := w.get(ctx, job); err != nil {
			return err
		}
		if job.Status.State != api.Running {
			return fmt.Errorf("it is %s: %s", job.Status.State, job.Status.Why)
		}
		return nil
	})
}

// log returns what rank 0 of the last attempt has written.
func (w *world) log(t *testing.T, job *v1alpha1.TrainingJob) string {
	t.Helper()
	pod := client.ObjectKey{Namespace: job.Namespace, Name: fmt.Sprintf("%s-%d-0", job.Name, job.Status.Attempt)}
	text, err := w.PodLogs(within(t, patience), pod)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// testPython: a gang without PyTorch connects over TCP with a key from the operator,
// saves its work when asked to stop, and resumes.
func (w *world) testPython(t *testing.T) {
	if err := exec.Command(python, "--version").Run(); err != nil {
		t.Skipf("no %s: %v", python, err)
	}
	job := w.script(t, "stdlib", "/fairway/examples/stdlib_train.py", "--steps", "400", "--sleep-gradient", "0.05", "--checkpoint-every", "1")
	w.submit(t, job)
	w.waitUp(t, job)
	eventually(t, "it trains", func(ctx context.Context) error {
		if err := w.get(ctx, job); err != nil {
			return err
		}
		saved, err := filepath.Glob(filepath.Join(w.folder("stdlib"), "fairway", "*"))
		if len(saved) == 0 {
			return fmt.Errorf("it has saved nothing, %w; its log says %q", err, w.log(t, job))
		}
		return nil
	})
	w.interrupt(t, job)
	w.waitUp(t, job)
	w.waitFinished(t, job)
	text := w.log(t, job)
	if job.Status.Attempt != 2 || job.Status.Failures != 0 || !strings.Contains(text, "resumed after") || !strings.Contains(text, "done: loss") {
		t.Errorf("attempt %d, %d failures; want 2 and none, and in its log that it resumed and is done:\n%s", job.Status.Attempt, job.Status.Failures, text)
	}
}

// testTorch: a gang with PyTorch's DDP is interrupted, resumes, sees all its data in
// order, and ends with the loss of an undisturbed training. The launcher, if there is
// one, starts the ranks of a pod.
func (w *world) testTorch(t *testing.T, name string, ranks int, launcher ...string) {
	if err := exec.Command(python, "-c", "import torch.distributed").Run(); err != nil {
		t.Skipf("%s has no PyTorch: %v", python, err)
	}
	root, err := kubetest.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	alone := exec.CommandContext(within(t, patience), python, filepath.Join(root, "python/tests/torch_job.py"), "elastic", t.TempDir(), "0")
	alone.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python/src"), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1")
	out, err := alone.CombinedOutput()
	if err != nil {
		t.Fatalf("train alone: %v: %s", err, out)
	}
	want := resultOf(t, string(out))
	job := w.script(t, name, append(launcher, "/fairway/python/tests/torch_job.py", "elastic", "/work", "0.05")...)
	w.submit(t, job)
	w.waitUp(t, job)
	eventually(t, "it trains", func(ctx context.Context) error {
		if err := w.get(ctx, job); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(w.folder(name), "seen-1-0"))
		if n := strings.Count(string(text), "\n"); n < 10 {
			return fmt.Errorf("it has made %d steps, %w; its log says %q", n, err, w.log(t, job))
		}
		return nil
	})
	w.interrupt(t, job)
	w.waitUp(t, job)
	w.hurry(t, name)
	w.waitFinished(t, job)
	text := w.log(t, job)
	got := resultOf(t, text)
	if job.Status.Attempt != 2 || job.Status.Failures != 0 || !got.Resumed || math.Abs(got.Loss-want.Loss) > 1e-4*want.Loss {
		t.Errorf("attempt %d, %d failures, resumed %v, loss %g; want attempt 2, no failure, and the loss %g of a training that nobody disturbed\n%s",
			job.Status.Attempt, job.Status.Failures, got.Resumed, got.Loss, want.Loss, text)
	}
	checkOrder(t, w.folder(name), ranks)
}

// result is what the script with PyTorch prints at its end.
type result struct {
	Loss    float64
	Resumed bool
}

func resultOf(t *testing.T, text string) (r result) {
	t.Helper()
	for line := range strings.Lines(text) { // each rank prints one; torchrun puts the rank before it
		if _, found, ok := strings.Cut(line, "result "); ok {
			if err := json.NewDecoder(strings.NewReader(found)).Decode(&r); err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatalf("there is no result in %q", text)
	return r
}

// checkOrder checks that every example of an epoch was seen once: the interruption
// skipped none, and none that counted was seen twice.
func checkOrder(t *testing.T, folder string, ranks int) {
	t.Helper()
	const examples, epochs = 480, 4
	at := map[int]int{} // index of the example, by its place in the stream
	for attempt := 1; attempt <= 2; attempt++ {
		for rank := range ranks {
			text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("seen-%d-%d", attempt, rank)))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				var place int
				var indices []int
				if err := json.Unmarshal([]byte(line), &[]any{&place, &indices}); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				for i, example := range indices {
					if old, seen := at[place+i]; seen {
						t.Errorf("place %d of the data was taken twice: examples %d and %d", place+i, old, example)
					}
					at[place+i] = example
				}
			}
		}
	}
	count := map[int]int{}
	for place := range examples * epochs {
		example, seen := at[place]
		if !seen {
			t.Fatalf("place %d of the data was skipped", place)
		}
		count[example]++
	}
	for example, n := range count {
		if n != epochs {
			t.Errorf("example %d was seen %d times in %d epochs", example, n, epochs)
		}
	}
}
