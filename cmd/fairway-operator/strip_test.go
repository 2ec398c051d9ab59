// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// claimed is a volume that matters to placement.
var claimed = corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}

func somePod(scheduler string) *corev1.Pod {
	two := resource.MustParse("2")
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", UID: "u", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"fairway.dev/gpus": "0", "huge": "text"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", SchedulerName: scheduler, Hostname: "h", Subdomain: "s", Volumes: []corev1.Volume{{Name: "v"}, claimed},
			Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 1, HostPort: 2}}, Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}, Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"nvidia.com/gpu": two}, Limits: corev1.ResourceList{"nvidia.com/gpu": two},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}},
	}
}

// TestStripPod: of others' pods only what they use of a node is kept, of those that
// Fairway has made also how they are, and all of those that it only places.
func TestStripPod(t *testing.T) {
	got, err := stripPod(somePod("default-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	want := somePod("default-scheduler")
	want.ManagedFields, want.Annotations = nil, map[string]string{"fairway.dev/gpus": "0"}
	want.Spec.Volumes, want.Spec.Containers[0].Image, want.Spec.Containers[0].Env = []corev1.Volume{claimed}, "", nil
	want.Spec.Hostname, want.Spec.Subdomain = "", ""
	want.Status.ContainerStatuses = nil
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Error(diff)
	}
	placed := somePod(v1alpha1.SchedulerName)
	placed.ManagedFields = nil
	if got, _ = stripPod(somePod(v1alpha1.SchedulerName)); cmp.Diff(any(placed), got) != "" {
		t.Error(cmp.Diff(any(placed), got))
	}
	own, made := somePod(v1alpha1.SchedulerName), somePod(v1alpha1.SchedulerName)
	own.Labels[v1alpha1.LabelID], made.Labels[v1alpha1.LabelID] = "x-1", "x-1"
	own.ManagedFields = nil
	own.Spec.Volumes, own.Spec.Containers[0].Image, own.Spec.Containers[0].Env = []corev1.Volume{claimed}, "", nil
	if got, _ = stripPod(made); cmp.Diff(any(own), got) != "" {
		t.Error(cmp.Diff(any(own), got))
	}
}

func TestReadKey(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "key")
	if key, err := readKey(path, log); err != nil || len(key) != keySize {
		t.Errorf("no file: %d bytes, %v; want a new key", len(key), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readKey(path, log); err == nil {
		t.Error("a key of 5 bytes was taken")
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("k"), 40), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := readKey(path, log)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readKey(path, log)
	if err != nil || !bytes.Equal(first, again) || len(first) != keySize {
		t.Errorf("got %x, then %x, %v; want the same %d bytes", first, again, err, keySize)
	}
	if bytes.Equal(derive(first, "a"), derive(first, "b")) {
		t.Error("keys for two purposes are the same")
	}
}
