// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/kube/volumes"
	"github.com/fairway-gpu/fairway/sched"
)

var rules = Rules{Open: []string{"nvidia.com/gpu", "spot"}}

func required(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}}
}

func term(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func TestSelects(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a", "cpus": "64"}}}
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"anything":         {corev1.PodSpec{}, true},
		"selected":         {corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}, true},
		"not selected":     {corev1.PodSpec{NodeSelector: map[string]string{"zone": "a", "disk": "x"}}, false},
		"one of":           {required(term("zone", corev1.NodeSelectorOpIn, "a", "b")), true},
		"none of":          {required(term("zone", corev1.NodeSelectorOpNotIn, "a", "b")), false},
		"absent":           {required(term("disk", corev1.NodeSelectorOpDoesNotExist)), true},
		"more":             {required(term("cpus", corev1.NodeSelectorOpGt, "32")), true},
		"less":             {required(term("cpus", corev1.NodeSelectorOpLt, "32")), false},
		"either":           {required(term("zone", corev1.NodeSelectorOpIn, "b"), term("cpus", corev1.NodeSelectorOpExists)), true},
		"by name":          {required(named), true},
		"no term":          {required(), false},
		"an empty term":    {required(corev1.NodeSelectorTerm{}), false},
		"a term of no use": {required(term("cpus", "Near", "64")), false},
	} {
		if got := rules.Admits(rules.Of("ns", &c.spec), n); got != c.want {
			t.Errorf("%s: admitted: %t; want %t", name, got, c.want)
		}
	}
}

func TestTolerates(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	for name, c := range map[string]struct {
		taints   []corev1.Taint
		with     []corev1.Toleration
		repels   bool
		admits   bool
		noLabels bool
	}{
		"none":           {admits: true, noLabels: true},
		"not tolerated":  {taints: []corev1.Taint{taint("team", "x", "NoSchedule")}, repels: true, noLabels: true},
		"equal":          {taints: []corev1.Taint{taint("team", "x", "NoSchedule")}, with: []corev1.Toleration{{Key: "team", Value: "x"}}, repels: true, admits: true},
		"another value":  {taints: []corev1.Taint{taint("team", "x", "NoSchedule")}, with: []corev1.Toleration{{Key: "team", Value: "y"}}, repels: true},
		"exists":         {taints: []corev1.Taint{taint("team", "x", "NoExecute")}, with: []corev1.Toleration{{Key: "team", Operator: "Exists"}}, repels: true, admits: true},
		"everything":     {taints: []corev1.Taint{taint("team", "x", "NoExecute")}, with: []corev1.Toleration{{Operator: "Exists"}}, repels: true, admits: true},
		"another effect": {taints: []corev1.Taint{taint("team", "x", "NoExecute")}, with: []corev1.Toleration{{Key: "team", Operator: "Exists", Effect: "NoSchedule"}}, repels: true},
		"one of two":     {taints: []corev1.Taint{taint("team", "x", "NoSchedule"), taint("new", "", "NoSchedule")}, with: []corev1.Toleration{{Key: "team", Operator: "Exists"}}, repels: true},
		"soft":           {taints: []corev1.Taint{taint("team", "x", "PreferNoSchedule")}, with: []corev1.Toleration{{Key: "team", Operator: "Exists", Effect: "PreferNoSchedule"}}, admits: true, noLabels: true},
		"gpu":            {taints: []corev1.Taint{taint("nvidia.com/gpu", "present", "NoSchedule")}, with: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}}, admits: true, noLabels: true},
		"configured":     {taints: []corev1.Taint{taint("spot", "", "NoSchedule")}, admits: true, noLabels: true},
		"a state":        {taints: []corev1.Taint{taint(corev1.TaintNodeUnreachable, "", "NoExecute")}, admits: true, noLabels: true},
	} {
		n := &corev1.Node{Spec: corev1.NodeSpec{Taints: c.taints}}
		of := rules.Of("ns", &corev1.PodSpec{Tolerations: c.with})
		repels := false
		for _, x := range c.taints {
			repels = repels || rules.Repels(x)
		}
		if repels != c.repels || rules.Admits(of, n) != c.admits || (of.Label() == "") != c.noLabels {
			t.Errorf("%s: repels %t, admits %t, label %q; want %t, %t, no label: %t", name, repels, rules.Admits(of, n), of.Label(), c.repels, c.admits, c.noLabels)
		}
	}
}

// TestLabel: what means the same has the same label, and what does not has not.
func TestLabel(t *testing.T) {
	seconds := int64(9)
	same := [][]corev1.PodSpec{
		{required(term("a", corev1.NodeSelectorOpIn, "x", "y"), term("b", corev1.NodeSelectorOpExists)), required(term("b", corev1.NodeSelectorOpExists), term("a", corev1.NodeSelectorOpIn, "y", "x"))},
		{{Tolerations: []corev1.Toleration{{Key: "t", Value: "v", TolerationSeconds: &seconds}, {Key: "nvidia.com/gpu", Operator: "Exists"}}}, {Tolerations: []corev1.Toleration{{Key: "t", Operator: "Equal", Value: "v"}, {Key: "t", Operator: "Equal", Value: "v"}}}},
		{{NodeSelector: map[string]string{"a": "b"}}, {NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "x", Effect: "PreferNoSchedule"}}}},
	}
	seen := map[string]bool{}
	for i, group := range same {
		label := rules.Of("ns", &group[0]).Label()
		if err := sched.CheckLabel(label); err != nil || seen[label] {
			t.Errorf("group %d: label %q: %v; want one of its own", i, label, err)
		}
		seen[label] = true
		for k := range group {
			if got := rules.Of("ns", &group[k]).Label(); got != label {
				t.Errorf("group %d: label of the other form is %q; want %q", i, got, label)
			}
		}
	}
	// The fingerprint is in journals: it must not change.
	if got := rules.Of("ns", &corev1.PodSpec{NodeSelector: map[string]string{"disk": "fast"}}).Label(); got != "c-ee409277c81c" {
		t.Errorf("the label of nodeSelector {disk=fast} is %q", got)
	}
}

// TestDevices: a pod that requests devices goes only to nodes that have as many.
func TestDevices(t *testing.T) {
	asks := func(n string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"rdma/hca": resource.MustParse(n), "nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("64")}}}}}
	}
	four, none := asks("4"), asks("0")
	of := rules.Of("ns", &four)
	if rules.Of("ns", &none).Label() != "" || of.Label() == "" || of.String() != "resources {rdma/hca=4}" {
		t.Errorf("constraints %+v and %q; want none, and four of rdma/hca", rules.Of("ns", &none), of)
	}
	for has, want := range map[string]bool{"": false, "3": false, "4": true} {
		n := &corev1.Node{}
		if has != "" {
			n.Status.Capacity = corev1.ResourceList{"rdma/hca": resource.MustParse(has)}
		}
		if rules.Admits(of, n) != want {
			t.Errorf("a node with %q: admitted %t; want %t", has, !want, want)
		}
	}
}

func TestWords(t *testing.T) {
	pod := required(term("gpu", corev1.NodeSelectorOpIn, "b", "a"), term("big", corev1.NodeSelectorOpExists))
	pod.NodeSelector = map[string]string{"zone": "z1", "disk": "fast"}
	pod.Tolerations = []corev1.Toleration{{Key: "team", Value: "x", Effect: "NoSchedule"}, {Operator: "Exists"}}
	want := "nodeSelector {disk=fast, zone=z1}, affinity [big Exists] or [gpu In (a, b)], tolerations {all, team=x:NoSchedule}"
	if got := rules.Of("ns", &pod).String(); got != want {
		t.Errorf("words:\n got %s\nwant %s", got, want)
	}
	long := corev1.PodSpec{NodeSelector: map[string]string{"a": strings.Repeat("é", 1000)}}
	if got := rules.Of("ns", &long).String(); len(got) > 410 || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes of words; want them cut", len(got))
	}
}

func TestRegistry(t *testing.T) {
	r := NewRegistry(rules)
	with := func(i int) Constraint {
		return rules.Of("ns", &corev1.PodSpec{NodeSelector: map[string]string{"n": fmt.Sprint(i)}})
	}
	for i := range Most {
		if _, err := r.Use(fmt.Sprint("job", i), with(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Use("one more", with(Most)); err == nil {
		t.Errorf("there are more than %d constraints", Most)
	}
	if _, err := r.Use("alike", with(0)); err != nil {
		t.Errorf("a constraint that is known: %v", err)
	}
	r.Drop("job0")
	if label := with(0).Label(); r.Words(label) != "nodeSelector {n=0}" {
		t.Errorf("words of a constraint in use: %q", r.Words(label))
	}
	r.Drop("alike")
	if label := with(0).Label(); r.Words(label) != "" {
		t.Errorf("words of a constraint that nobody uses: %q", r.Words(label))
	}
	label, err := r.Use("one more", with(Most))
	if err != nil {
		t.Fatal(err)
	}
	<-r.Changed()
	done := make(chan struct{})
	go func() {
		r.Await(context.Background(), label)
		close(done)
	}()
	list, version := r.List()
	r.Confirm(version - 1)
	select {
	case <-done:
		t.Error("waited for no labels at all")
	case <-time.After(20 * time.Millisecond):
	}
	r.Confirm(version)
	<-done
	if len(list) != Most {
		t.Errorf("%d constraints; want %d", len(list), Most)
	}
	r.Filled()
	r.Filled()
	r.AwaitFilled(t.Context())
}

// TestClaims: a claim is part of the constraint until it is bound to a volume that all nodes
// can use; a job keeps the form that it was submitted with.
func TestClaims(t *testing.T) {
	r := Rules{Volumes: volumes.New()} // it has no claim, so no node suits one
	pod := &corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}}
	c := r.For("ns", pod, nil)
	if len(c.Claims) != 1 || c.Label() == "" || c.Label() == r.For("other", pod, nil).Label() {
		t.Errorf("a new job: %+v; want its claim, and a label of its own in each namespace", c)
	}
	if r.Admits(c, &corev1.Node{}) || !r.Admits(Constraint{}, &corev1.Node{}) {
		t.Error("a node suits a claim that does not exist, or no node suits a pod without claims")
	}
	label, none := c.Label(), ""
	if got := r.For("ns", pod, &label); got.Label() != label {
		t.Errorf("a job with the claim in its selector: %+v", got)
	}
	if got := r.For("ns", pod, &none); !got.Empty() {
		t.Errorf("a job that was submitted without a selector: %+v", got)
	}
	all := NewRegistry(r)
	if _, err := all.Use("job", Constraint{NodeSelector: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	_, before := all.List()
	all.Recheck()
	if _, now := all.List(); now != before {
		t.Error("nodes are labelled again for volumes that no job has")
	}
	if _, err := all.Use("job", c); err != nil {
		t.Fatal(err)
	}
	_, before = all.List()
	all.Recheck()
	if _, now := all.List(); now == before {
		t.Error("nodes are not labelled again")
	}
	if got, want := all.Words(label), "volume claims {data} (volume claim data: it does not exist)"; got != want {
		t.Errorf("words: %q; want %q", got, want)
	}
}
