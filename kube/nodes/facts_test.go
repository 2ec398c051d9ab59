// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func quantities(gpus, cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus), corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// nodeOf returns a node of eight GPUs that is ready.
func nodeOf(name string) *corev1.Node {
	list := quantities("8", "64", "512Gi")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Labels: map[string]string{
			labelProduct: "NVIDIA-H200", labelMemory: "143771", "topology.kubernetes.io/rack": "r1", corev1.LabelTopologyZone: "z1",
		}},
		Status: corev1.NodeStatus{
			Capacity: list.DeepCopy(), Allocatable: list.DeepCopy(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}},
		},
	}
}

func TestFacts(t *testing.T) {
	base := sched.Node{Name: "n", GPUs: 8, Type: "h200", GPUMemory: 143771 << 20, CPUs: 64, Memory: 512 << 30, Rack: "r1", Seats: 1}
	for _, c := range []struct {
		name string
		edit func(*corev1.Node)
		want func(*sched.Node) // nil: Fairway may not use it
		grow demand
	}{
		{"plain", func(*corev1.Node) {}, func(*sched.Node) {}, demand{}},
		{"ignored", func(n *corev1.Node) { n.Labels[LabelIgnore] = "true" }, nil, demand{}},
		{"no GPUs", func(n *corev1.Node) { delete(n.Status.Capacity, "nvidia.com/gpu") }, nil, demand{}},
		{"AMD", func(n *corev1.Node) {
			delete(n.Status.Capacity, "nvidia.com/gpu")
			n.Labels = map[string]string{"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
			n.Status.Capacity["amd.com/gpu"], n.Status.Allocatable["amd.com/gpu"] = resource.MustParse("4"), resource.MustParse("4")
		}, func(n *sched.Node) { n.GPUs, n.Type, n.GPUMemory, n.Rack = 4, "mi300x", 0, "" }, demand{}},
		{"zone", func(n *corev1.Node) { delete(n.Labels, "topology.kubernetes.io/rack") }, func(n *sched.Node) { n.Rack = "z1" }, demand{}},
		{"absurd memory", func(n *corev1.Node) { n.Labels[labelMemory] = "99999999999999999" }, func(n *sched.Node) { n.GPUMemory = 0 }, demand{}},
		{"too many GPUs", func(n *corev1.Node) {
			n.Status.Capacity, n.Status.Allocatable = quantities("128", "64", "512Gi"), quantities("128", "64", "512Gi")
		}, func(n *sched.Node) { n.GPUs = 64 }, demand{}},
		{"sick GPUs", func(n *corev1.Node) { n.Status.Allocatable = quantities("6", "64", "512Gi") }, func(n *sched.Node) { n.Others = 0b11 }, demand{}},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, func(n *sched.Node) { n.State = sched.Cordoned }, demand{}},
		{"tainted", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, func(n *sched.Node) { n.Dedicated = true }, demand{}},
		{"GPU taint", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, func(*sched.Node) {}, demand{}},
		{"not ready for a moment", func(n *corev1.Node) {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-39 * time.Second))
		}, func(n *sched.Node) { n.State = sched.Cordoned }, demand{}},
		{"not ready for long", func(n *corev1.Node) {
			n.Status.Conditions[0].Status = corev1.ConditionFalse
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-40 * time.Second))
		}, func(n *sched.Node) { n.State = sched.Down }, demand{}},
		{"others", func(*corev1.Node) {}, func(n *sched.Node) { n.Others, n.CPUs, n.Memory = 0b111, 53, 511<<30 },
			demand{gpus: map[corev1.ResourceName]int64{"nvidia.com/gpu": 3}, cpu: 10_500, memory: 1 << 30}},
		{"others who took all", func(*corev1.Node) {}, func(n *sched.Node) { n.Others, n.CPUs, n.Memory = 0xff, 1, 1 },
			demand{gpus: map[corev1.ResourceName]int64{"nvidia.com/gpu": 30}, cpu: 100_000, memory: 1 << 50}},
		{"replicas", replicated(32, 4), func(n *sched.Node) { n.Seats = 4 }, demand{}},
		{"replicas, and others who may be on any", replicated(32, 4), func(n *sched.Node) { n.Seats, n.Others = 4, 0xff },
			demand{gpus: map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}}},
		{"replicas of some GPUs only", replicated(20, 4), func(n *sched.Node) { n.Seats, n.State = 4, sched.Cordoned }, demand{}},
		{"labels before devices", replicated(8, 4), func(n *sched.Node) { n.Seats, n.State = 4, sched.Cordoned }, demand{}},
		{"replicas by MPS", func(n *corev1.Node) {
			replicated(32, 4)(n)
			n.Labels[labelStrategy] = "mps"
		}, func(n *sched.Node) { n.Seats, n.Dedicated, n.GPUMemory = 4, true, 143771<<20/4 }, demand{}},
		{"absurd replicas", func(n *corev1.Node) { n.Labels[labelReplicas] = "1001" }, func(*sched.Node) {}, demand{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Pin: true}.withDefaults()
			n := nodeOf("n")
			c.edit(n)
			f, ok := cfg.factsOf(n)
			if c.want == nil || !ok {
				if ok == (c.want == nil) {
					t.Fatalf("ours: %t; want %t", ok, c.want != nil)
				}
				return
			}
			want := base
			c.want(&want)
			got, _ := f.with(c.grow, noon, cfg.Grace)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

// replicated turns eight GPUs into so many devices.
func replicated(devices, replicas int) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels[labelReplicas], n.Labels[labelCount] = strconv.Itoa(replicas), "8"
		list := quantities(strconv.Itoa(devices), "64", "512Gi")
		n.Status.Capacity, n.Status.Allocatable = list.DeepCopy(), list.DeepCopy()
	}
}

// TestUnpinned: the device plugin chooses among several GPUs, unless Fairway pins them.
func TestUnpinned(t *testing.T) {
	cfg := Config{}.withDefaults()
	n := nodeOf("n")
	replicated(32, 4)(n)
	if f, _ := cfg.factsOf(n); f.node.State != sched.Cordoned || f.closed == "" {
		t.Errorf("a node of 8 GPUs: state %d, %q; want it to take no work, and why", f.node.State, f.closed)
	}
	n.Labels[labelCount] = "1"
	n.Status.Capacity, n.Status.Allocatable = quantities("4", "64", "512Gi"), quantities("4", "64", "512Gi")
	if f, _ := cfg.factsOf(n); f.node.State != sched.Ready || f.node.GPUs != 1 || f.node.Seats != 4 {
		t.Errorf("a node of one GPU: %+v; want it ready, with four seats", f.node)
	}
}

func podOf(name, node string, gpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		}}}}},
	}
}

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	cpus := func(n string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}
	}
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want int64
	}{
		{"containers", corev1.PodSpec{Containers: []corev1.Container{{Resources: cpus("1")}, {Resources: cpus("250m")}}}, 1250},
		{"a large one first", corev1.PodSpec{InitContainers: []corev1.Container{{Resources: cpus("8")}}, Containers: []corev1.Container{{Resources: cpus("1")}}}, 8000},
		{"a sidecar", corev1.PodSpec{InitContainers: []corev1.Container{{Resources: cpus("2"), RestartPolicy: &always}, {Resources: cpus("1")}}, Containers: []corev1.Container{{Resources: cpus("1")}}}, 3000},
		{"overhead", corev1.PodSpec{Containers: []corev1.Container{{Resources: cpus("1")}}, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}, 1100},
	} {
		if got := demandOf(&corev1.Pod{Spec: c.spec}, nil).cpu; got != c.want {
			t.Errorf("%s: %d thousandths of a CPU; want %d", c.name, got, c.want)
		}
	}
}

// TestSums: whatever happens to pods, in whatever order, the sums match the existing
// pods.
func TestSums(t *testing.T) {
	w := New(Config{Now: func() time.Time { return noon }})
	w.setNode(nodeOf("a"))
	others := func() int {
		list, _, _ := w.list()
		return list[0].Others.Len()
	}
	step := func(want int, do func()) {
		t.Helper()
		do()
		if got := others(); got != want {
			t.Errorf("others hold %d GPUs; want %d", got, want)
		}
	}
	p := podOf("p", "a", 2)
	step(2, func() { w.setPod(p) })
	step(2, func() { w.setPod(p) }) // reported twice
	ours := podOf("ours", "a", 4)
	ours.Spec.SchedulerName = v1alpha1.SchedulerName
	step(2, func() { w.setPod(ours) })
	step(2, func() { w.setPod(podOf("elsewhere", "b", 4)) })
	step(2, func() { w.setPod(podOf("waits", "", 4)) })
	step(5, func() { w.setPod(podOf("q", "a", 3)) })
	grown := podOf("q", "a", 4)
	step(6, func() { w.setPod(grown) })
	over := p.DeepCopy()
	over.Status.Phase = corev1.PodSucceeded
	step(4, func() { w.setPod(over) })
	step(4, func() { w.dropPod(over) })
	step(0, func() { w.dropPod(grown) })
	if len(w.used) != 1 { // b is not known yet, but may be soon
		t.Errorf("sums of %d nodes are kept; want that of b", len(w.used))
	}
	w.dropNode(nodeOf("a"))
	if list, _, _ := w.list(); len(list) != 0 {
		t.Errorf("nodes %v; want none", list)
	}
}

// BenchmarkChange measures a pod that comes and goes in a cluster of 1,000 nodes and
// 10,000 pods, with the list for the state.
func BenchmarkChange(b *testing.B) {
	w := New(Config{Now: func() time.Time { return noon }})
	for i := range 1000 {
		w.setNode(nodeOf(strconv.Itoa(i)))
	}
	for i := range 10_000 {
		w.setPod(podOf("p"+strconv.Itoa(i), strconv.Itoa(i%1000), 0))
	}
	p := podOf("x", "500", 1)
	b.Run("pod", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.setPod(p)
			w.dropPod(p)
		}
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.list()
		}
	})
}

// TestNoSuspend: pods can be suspended where another pod can have their GPUs meanwhile.
func TestNoSuspend(t *testing.T) {
	replicas := func(n, count, strategy string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelReplicas: n, labelCount: count, labelStrategy: strategy}}}
	}
	for _, c := range []struct {
		node *corev1.Node
		pin  bool
		want string
	}{
		{nodeOf("n"), true, "offers 1 replicas"},
		{replicas("2", "1", "time-slicing"), true, "and 3 or more"},
		{replicas("4", "8", "mps"), true, "MPS"},
		{replicas("4", "8", "time-slicing"), false, "nodes.pin"},
		{replicas("4", "8", "time-slicing"), true, ""},
		{replicas("3", "1", "time-slicing"), false, ""},
	} {
		if got := NoSuspend(c.node, c.pin); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%v, pinned %v: %q; want %q", c.node.Labels, c.pin, got, c.want)
		}
	}
	able := true
	w := New(Config{Pin: true, Able: func(string) (bool, string) { return able, "no agent runs there" }})
	n := nodeOf("n")
	n.Labels[labelReplicas], n.Labels[labelCount] = "4", "2"
	w.setNode(n)
	if list, _, _ := w.list(); !list[0].Suspend || w.NoSuspend("n") != "" {
		t.Errorf("%+v, %q; want one that suspends", list[0], w.NoSuspend("n"))
	}
	able = false
	if list, _, _ := w.list(); list[0].Suspend || w.NoSuspend("n") != "no agent runs there" {
		t.Errorf("%+v, %q; want that there is no agent", list[0], w.NoSuspend("n"))
	}
}

// TestLevels: domains come from the labels of the levels, in their order, the rack where
// racks come from, and a label that is missing leaves its level out.
func TestLevels(t *testing.T) {
	c := Config{Levels: []Level{{"zone", corev1.LabelTopologyZone}, {"block", "x/block"}, {"rack", ""}}, RackLabels: defaultRackLabels, Resources: Resources(nil)}
	c = c.withDefaults()
	f, ok := c.factsOf(nodeOf("n"))
	if want := []sched.Domain{{Level: "zone", Name: "z1"}, {Level: "rack", Name: "r1"}}; !ok || !slices.Equal(f.node.Domains, want) {
		t.Errorf("domains are %v; want %v", f.node.Domains, want)
	}
	if got, want := LevelNames(c.Levels), []string{"zone", "block", "slot", "machine", "rack", "cross-rack"}; !slices.Equal(got, want) {
		t.Errorf("jobs may name %v; want %v", got, want)
	}
}
