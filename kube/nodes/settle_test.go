// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSettle: a small pod of others that comes and goes changes the node once; what stays free
// counts after a while, and much of it, or a GPU, at once.
func TestSettle(t *testing.T) {
	now := noon
	w := New(Config{Now: func() time.Time { return now }})
	w.setNode(nodeOf("n")) // 64 CPUs, 512 GiB, 8 GPUs
	pod := func(name, cpu, memory, gpus string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "nvidia.com/gpu": resource.MustParse(gpus)}},
		}}}}
	}
	cron, large, daemon := pod("cron", "2", "4Gi", "0"), pod("large", "32", "64Gi", "2"), pod("daemon", "1", "1Gi", "0")
	for _, x := range []struct {
		what   string
		do     func()
		after  time.Duration
		cpus   int
		memory int64 // GiB
		others int
		again  bool // it changes by itself
	}{
		{"nobody is there", func() {}, 0, 64, 512, 0, false},
		{"a daemon", func() { w.setPod(daemon) }, 0, 63, 511, 0, false},
		{"a small pod comes", func() { w.setPod(cron) }, 0, 61, 507, 0, false},
		{"it goes", func() { w.dropPod(cron) }, time.Minute, 61, 507, 0, true},
		{"it comes again", func() { w.setPod(cron) }, time.Minute, 61, 507, 0, false},
		{"it goes again", func() { w.dropPod(cron) }, time.Minute, 61, 507, 0, true},
		{"nothing happens", func() {}, 5 * time.Minute, 61, 507, 0, true},
		{"nothing happens for long", func() {}, 5 * time.Minute, 63, 511, 0, false},
		{"a large pod comes", func() { w.setPod(large) }, 0, 31, 447, 2, false},
		{"it goes", func() { w.dropPod(large) }, 0, 63, 511, 0, false},
		{"all go", func() { w.dropPod(daemon) }, 20 * time.Minute, 63, 511, 0, true},
		{"nothing happens for long", func() {}, 20 * time.Minute, 64, 512, 0, false},
	} {
		now = now.Add(x.after)
		x.do()
		list, again, _ := w.list()
		if n := list[0]; n.CPUs != x.cpus || n.Memory>>30 != x.memory || n.Others.Len() != x.others || again.IsZero() == x.again {
			t.Errorf("%s: %d CPUs, %d GiB, %d GPUs of others, again at %v; want %d, %d, %d, again: %v",
				x.what, n.CPUs, n.Memory>>30, n.Others.Len(), again, x.cpus, x.memory, x.others, x.again)
		}
	}
}
