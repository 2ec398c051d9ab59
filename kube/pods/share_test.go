// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// decide lets a real policy decide once.
func (w *world) decide() {
	w.t.Helper()
	p, err := policy.Builtin().New("fifo")
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.now().Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.now().Apply(w.t.Context(), loop.Decision{Policy: "fifo", Snapshot: s, Actions: actions, Plan: plan}); err != nil {
		w.t.Fatal(err)
	}
}

// running waits until n of the jobs run, and returns the only pod of each.
func (w *world) running(jobs []sched.JobID, n int) []*corev1.Pod {
	w.t.Helper()
	var out []*corev1.Pod
	w.wait("they run", func() bool {
		out = nil
		for _, id := range jobs {
			if w.job(id).State == api.Running {
				out = append(out, w.of(id)...)
			}
		}
		return len(out) == n
	})
	return out
}

func (w *world) submitAll(n int, spec sched.Spec) []sched.JobID {
	var out []sched.JobID
	for range n {
		out = append(out, w.submit(spec, nil))
	}
	return out
}

func devices(p *corev1.Pod) int64 {
	q := p.Spec.Containers[0].Resources.Limits[kubetest.GPU]
	return q.Value()
}

// replicated is a node with 2 GPUs and 3 replicas of each.
func replicated(strategy string) kubetest.NodeSpec {
	return kubetest.NodeSpec{Count: 1, GPUs: 6, Labels: map[string]string{
		"nvidia.com/gpu.replicas": "3", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.sharing-strategy": strategy,
		"nvidia.com/gpu.memory": "30000", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
	}}
}

// TestTimeSlicing: on a node with replicas, as many jobs share a GPU as it has
// replicas, and none shares a GPU that another job has whole.
func TestTimeSlicing(t *testing.T) {
	w := newWorld(t, replicated("time-slicing"), nil)
	small := w.submitAll(3, sched.Spec{GPUs: 1, MilliGPU: 200, Shareable: true})
	whole := w.submitAll(1, sched.Spec{GPUs: 1})
	more := w.submitAll(2, sched.Spec{GPUs: 1, MilliGPU: 200, Shareable: true})
	w.decide()
	pods := w.running(append(small, more...), 3)
	pods = append(pods, w.running(whole, 1)...)
	sum := int64(0)
	for i, p := range pods {
		gpu, want := "0", int64(1)
		if i == 3 {
			gpu, want = "1", 3
		}
		sum += devices(p)
		if devices(p) != want || env(p, "NVIDIA_VISIBLE_DEVICES") != gpu || p.Annotations[v1alpha1.AnnotationGPUs] != gpu {
			t.Errorf("pod %s asks for %d devices and gets GPU %q, chosen was %q; want %d and %q",
				p.Name, devices(p), env(p, "NVIDIA_VISIBLE_DEVICES"), p.Annotations[v1alpha1.AnnotationGPUs], want, gpu)
		}
	}
	if sum > 6 {
		t.Errorf("pods ask for %d devices together; there are 6", sum)
	}
}

// TestStrangersOnReplicas: a node with replicas takes no new jobs while another
// scheduler's pod is there, because it is unknown which GPU that pod got.
func TestStrangersOnReplicas(t *testing.T) {
	w := newWorld(t, replicated("time-slicing"), nil)
	if err := w.client.Create(t.Context(), w.externalPod("other", 0, 1)); err != nil {
		t.Fatal(err)
	}
	w.wait("the state knows of it", func() bool {
		all, err := w.now().Nodes(admin)
		return err == nil && len(all) == 1 && all[0].Others.Len() == 2
	})
	id := w.submit(sched.Spec{GPUs: 1, MilliGPU: 200, Shareable: true}, nil)
	w.decide()
	if j := w.job(id); j.State != api.Waiting {
		t.Errorf("it is %v; want it to wait", j.State)
	}
}

// TestOfferedOnce: without replicas, each GPU has one job, which gets it whole.
func TestOfferedOnce(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 2}, nil)
	jobs := w.submitAll(3, sched.Spec{GPUs: 1, MilliGPU: 200, Shareable: true})
	w.decide()
	seen := map[string]bool{}
	for _, p := range w.running(jobs, 2) {
		seen[p.Annotations[v1alpha1.AnnotationGPUs]] = true
		if devices(p) != 1 || env(p, "NVIDIA_VISIBLE_DEVICES") != "" {
			t.Errorf("pod %s asks for %d devices and is told %q; want 1 and nothing", p.Name, devices(p), env(p, "NVIDIA_VISIBLE_DEVICES"))
		}
	}
	if len(seen) != 2 {
		t.Errorf("they are on GPUs %v; want two", seen)
	}
}

// TestMPS: replicas of MPS are parts of a GPU, of which a pod gets at most one. Only
// jobs that need no more run there, with the same limits as on one machine.
func TestMPS(t *testing.T) {
	w := newWorld(t, replicated("mps"), nil)
	small := &corev1.PodSpec{Tolerations: constraint.PartsTolerations(300)}
	mark, err := w.constraints.Use("test", w.constraints.Of("ns", small))
	if err != nil || mark == "" {
		t.Fatalf("mark %q, %v; want one", mark, err)
	}
	w.wait("the node bears the mark", func() bool {
		all, err := w.now().Nodes(admin)
		return err == nil && len(all) == 1 && slices.Contains(all[0].Labels, mark)
	})
	const mib = 1 << 20
	jobs := w.submitAll(3, sched.Spec{GPUs: 1, MilliGPU: 300, Shareable: true, Selector: mark, GPUMemory: 1000 * mib})
	w.decide()
	for _, p := range w.running(jobs, 3) {
		if devices(p) != 1 || env(p, "NVIDIA_VISIBLE_DEVICES") != "0" || env(p, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") != "0=1164M" || env(p, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") != "30" {
			t.Errorf("pod %s asks for %d devices, GPU %q, memory %q, threads %q; want 1, 0, 0=1164M and 30", p.Name, devices(p),
				env(p, "NVIDIA_VISIBLE_DEVICES"), env(p, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), env(p, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
		}
	}
	whole := w.submitAll(1, sched.Spec{GPUs: 1})
	w.decide()
	if j := w.job(whole[0]); j.State != api.Waiting {
		t.Errorf("a job that needs a whole GPU is %v; want it to wait", j.State)
	}
}
