// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/sched"
)

var shared kubetest.Shared

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

// definition has the fields of Cluster Autoscaler's ProvisioningRequest that matter here,
// with its bounds and its rule that a request is not changed.
const definition = `
metadata: {name: provisioningrequests.autoscaling.x-k8s.io}
spec:
  group: autoscaling.x-k8s.io
  names: {kind: ProvisioningRequest, listKind: ProvisioningRequestList, plural: provisioningrequests, singular: provisioningrequest}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [podSets, provisioningClassName]
              properties:
                provisioningClassName:
                  {type: string, maxLength: 253, x-kubernetes-validations: [{rule: self == oldSelf, message: it cannot be changed}]}
                parameters: {type: object, maxProperties: 100, additionalProperties: {type: string, maxLength: 255}}
                podSets:
                  type: array
                  minItems: 1
                  maxItems: 32
                  x-kubernetes-validations: [{rule: self == oldSelf, message: it cannot be changed}]
                  items:
                    type: object
                    required: [count, podTemplateRef]
                    properties:
                      count: {type: integer, format: int32, minimum: 1}
                      podTemplateRef: {type: object, required: [name], properties: {name: {type: string, maxLength: 253}}}
            status:
              type: object
              properties:
                conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// wanted is a scaler that says what the test tells it.
type wanted struct {
	nodes, seen int
	world       *sched.Snapshot
}

func (w *wanted) Desired(s *sched.Snapshot, nodes int) int {
	w.world, w.seen = s, nodes
	return w.nodes
}

// open returns a pool in a namespace of its own, and what decides about it.
func open(t *testing.T, namespace, by string) (*Pool, *wanted) {
	t.Helper()
	c := shared.Cluster(t)
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(definition), d); err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(c.Admin(), envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{d}}); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	k, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}); err != nil {
		t.Fatal(err)
	}
	if err := k.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	w := &wanted{}
	p := &Pool{Config{
		Client: k, Nodes: k, Namespace: namespace, By: by, Class: "best-effort-atomic-scale-up.autoscaling.x-k8s.io", Max: 4,
		Labels: map[string]string{"pool": namespace}, Type: "h200", GPUs: 8, Resource: "nvidia.com/gpu", Tolerated: []string{"team"},
		Scaler: w, Snapshot: func() *sched.Snapshot { return world(t, job("waits", 16)) }, Log: slog.New(slog.DiscardHandler),
		Imagine: func(n *corev1.Node) (sched.Node, bool) {
			q := n.Status.Capacity["nvidia.com/gpu"]
			return sched.Node{Name: n.Name, GPUs: int(q.Value())}, true
		},
	}}
	return p, w
}

func job(id string, gpus int) *sched.Job {
	return &sched.Job{Spec: sched.Spec{ID: sched.JobID(id), GPUs: gpus}}
}

// world has three nodes, of which inside-0 and inside-1 are those of a pool.
func world(t *testing.T, jobs ...*sched.Job) *sched.Snapshot {
	t.Helper()
	c, err := sched.NewCluster([]sched.Node{{Name: "outside", GPUs: 4}, {Name: "inside-0", GPUs: 8, Type: "h200"}, {Name: "inside-1", GPUs: 8, Type: "h200"}})
	if err != nil {
		t.Fatal(err)
	}
	return &sched.Snapshot{Now: time.Unix(1e9, 0), Cluster: c, Jobs: jobs}
}

// addNode makes a node of the pool, as an autoscaler does.
func (p *Pool) addNode(t *testing.T, name string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace + "-" + name, Labels: p.Labels}}
	if err := p.Client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Client.Delete(t.Context(), n) })
}

// TestPendingPods: there is one pending pod for each node that should come and is not
// there, as an autoscaler expects it, and no more.
func TestPendingPods(t *testing.T) {
	p, w := open(t, "pending", ByPods)
	check := func(want, pods int) []corev1.Pod {
		t.Helper()
		w.nodes = want
		if err := p.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		var list corev1.PodList
		if err := p.Client.List(t.Context(), &list, client.InNamespace(p.Namespace)); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != pods {
			t.Errorf("%d nodes are wanted: %d pods; want %d", want, len(list.Items), pods)
		}
		return list.Items
	}
	check(0, 0)
	for _, pod := range check(3, 3) {
		c := pod.Status.Conditions
		if len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionFalse || c[0].Reason != corev1.PodReasonUnschedulable {
			t.Errorf("conditions %+v; want one that says it cannot be scheduled", c)
		}
		gpus := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		if gpus.Value() != 8 || pod.Spec.NodeSelector["pool"] != "pending" || pod.Spec.NodeName != "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
			t.Errorf("pod %+v; want one with 8 GPUs for the pool that nobody schedules", pod.Spec)
		}
		if keys := tolerated(pod.Spec.Tolerations); !slices.Contains(keys, "nvidia.com/gpu") || !slices.Contains(keys, "team") {
			t.Errorf("it tolerates %v; want what pods of jobs tolerate", keys)
		}
	}
	check(3, 3)
	if w.seen != 3 {
		t.Errorf("the scaler was told of %d nodes; want the 3 that were asked for", w.seen)
	}
	p.addNode(t, "a")
	p.addNode(t, "b")
	check(3, 1)
	check(4, 2)
	check(9, 2) // no more than the most
	check(2, 0)
	check(4, 2)
	p.Snapshot = func() *sched.Snapshot { return world(t) }
	check(4, 0) // without jobs nobody asks
	p.Min = 3
	check(0, 1)
}

func tolerated(list []corev1.Toleration) (keys []string) {
	for _, t := range list {
		keys = append(keys, t.Key)
	}
	return keys
}

// TestRequests: requests name what is missing, are taken back when it is there or no
// longer wanted, and replaced when they fail.
func TestRequests(t *testing.T) {
	p, w := open(t, "requests", ByRequests)
	check := func(want int, counts ...int64) []unstructured.Unstructured {
		t.Helper()
		w.nodes = want
		if err := p.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := requests{p}.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for i := range list {
			sets, _, _ := unstructured.NestedSlice(list[i].Object, "spec", "podSets")
			got = append(got, sets[0].(map[string]any)["count"].(int64))
		}
		slices.Sort(got)
		if diff := cmp.Diff(counts, got); diff != "" {
			t.Errorf("%d nodes are wanted: requests for (-want +got):\n%s", want, diff)
		}
		return list
	}
	check(0)
	one := check(2, 2)[0]
	if class, _, _ := unstructured.NestedString(one.Object, "spec", "provisioningClassName"); class != p.Class {
		t.Errorf("its class is %s; want %s", class, p.Class)
	}
	var template corev1.PodTemplate
	if err := p.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: templateName}, &template); err != nil {
		t.Fatal(err)
	}
	if gpus := template.Template.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]; gpus.Value() != 8 {
		t.Errorf("the template has %s GPUs; want 8", gpus.String())
	}
	check(2, 2)
	check(3, 1, 2)
	if check(3, 1, 2); w.seen != 3 {
		t.Errorf("the scaler was told of %d nodes; want the 3 that were asked for", w.seen)
	}
	p.addNode(t, "a")
	check(3, 1, 2)
	p.addNode(t, "b")
	last := check(3, 1)[0] // the one for two nodes is fulfilled
	if err := unstructured.SetNestedSlice(last.Object, []any{map[string]any{"type": "Failed", "status": "True"}}, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if err := p.Client.Status().Update(t.Context(), &last); err != nil {
		t.Fatal(err)
	}
	if next := check(3, 1)[0]; next.GetUID() == last.GetUID() {
		t.Error("the request that failed is still there; want another")
	}
	check(4, 1, 1)
	p.GPUs = 4 // the operator was configured anew
	check(3, 1)
	check(4, 1, 1)
	if err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(&template), &template); err != nil {
		t.Fatal(err)
	}
	if gpus := template.Template.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]; gpus.Value() != 4 {
		t.Errorf("the template has %s GPUs; want 4", gpus.String())
	}
	check(2)
}

// TestWorld: the scaler sees the nodes of the pool, those that may come, and the jobs that
// are for them.
func TestWorld(t *testing.T) {
	placed := func(id string, node int32) *sched.Job {
		j := job(id, 1)
		j.Placement = sched.Placement{{Node: node, GPUs: sched.FirstGPUs(1)}}
		return j
	}
	paused, other, far := job("paused", 1), job("other", 1), job("far", 1)
	paused.Paused, other.GPUTypes, far.Selector = true, []sched.GPUType{"t4"}, "elsewhere"
	all := []*sched.Job{job("waits", 16), paused, other, far, placed("outside", 0), placed("inside", 2)}
	p := &Pool{Config{Max: 3, Type: "h200", GPUs: 8, Resource: "nvidia.com/gpu", Snapshot: func() *sched.Snapshot { return world(t, all...) },
		Imagine: func(n *corev1.Node) (sched.Node, bool) { return sched.Node{GPUs: 8}, true }}}
	s, err := p.world(map[string]bool{"inside-0": true, "inside-1": true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, j := range s.Jobs {
		on := "none"
		if len(j.Placement) > 0 {
			on = s.Cluster.Nodes[j.Placement[0].Node].Name
		}
		got[string(j.ID)] = on
	}
	if want := map[string]string{"waits": "none", "inside": "inside-1"}; !maps.Equal(got, want) {
		t.Errorf("jobs %v; want %v", got, want)
	}
	if c := s.Cluster; c.GPUs() != 16 || c.MaxGPUs() != 8 || len(c.Nodes) != 3 || c.Nodes[2].State != sched.Down {
		t.Errorf("nodes %+v; want two of the pool and one to come", c.Nodes)
	}
	if all[5].Placement[0].Node != 2 {
		t.Error("the state's own job was changed")
	}
	p.Imagine = func(*corev1.Node) (sched.Node, bool) { return sched.Node{}, false }
	if _, err := p.world(nil); err == nil {
		t.Error("a node that Fairway does not use is taken; want an error")
	}
}
