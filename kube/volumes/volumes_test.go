// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

const bayLabel = "example.test/bay"

func node(name, bay, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{bayLabel: bay}}}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	return n
}

func class(name, provisioner string, mode storagev1.VolumeBindingMode, bays ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	if len(bays) > 0 {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: bayLabel, Values: bays}}}}
	}
	return c
}

func claim(name, class, bound string, edit ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeName: bound, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if bound != "" {
		c.Annotations = map[string]string{volume.AnnBindCompleted: "yes"}
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

func existing(name, class string, edit ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	p := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func inBay(bay string) func(*corev1.PersistentVolume) {
	return func(p *corev1.PersistentVolume) {
		p.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: bayLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{bay}}},
		}}}}
	}
}

func inZone(zone string) func(*corev1.PersistentVolume) {
	return func(p *corev1.PersistentVolume) {
		p.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: zone}
	}
}

// heldFor reserves a volume for a claim, as Step.Do does.
func heldFor(c *corev1.PersistentVolumeClaim) func(*corev1.PersistentVolume) {
	return func(p *corev1.PersistentVolume) {
		p.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
		p.Status.Phase = corev1.VolumeBound
	}
}

func chosenFor(node string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, node)
	}
}

func small(p *corev1.PersistentVolume) {
	p.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
}

// someView is a cluster with a claim of each kind.
func someView() *View {
	v := New()
	wait, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	for _, c := range []*storagev1.StorageClass{
		class("dynamic", "example.test/p", wait), class("bay-1-only", "example.test/p", wait, "1"), class("static", volume.NotSupportedProvisioner, wait), class("eager", "example.test/p", now),
	} {
		v.setClass(c)
	}
	deleted := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }
	mine := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	unfinished := func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }
	reserved := claim("reserved", "static", "")
	for _, c := range []*corev1.PersistentVolumeClaim{
		claim("shared", "eager", "nfs"), claim("bay-1", "eager", "disk-1"), claim("zone-a", "eager", "disk-a"), claim("dangling", "eager", "none"),
		claim("deleted", "eager", "nfs", deleted), claim("lost", "eager", "nfs", lost), claim("eager", "eager", ""), claim("classless", "", ""), claim("unknown", "nowhere", ""),
		claim("dynamic", "dynamic", ""), claim("bay-1-only", "bay-1-only", ""), claim("static", "static", ""), claim("static-2", "static", ""), reserved,
		claim("chosen", "dynamic", "", chosenFor("n1")), claim("mine", "dynamic", "", mine), claim("unfinished", "eager", "nfs", unfinished),
	} {
		v.setClaim(c)
	}
	for _, p := range []*corev1.PersistentVolume{
		existing("nfs", "eager", func(p *corev1.PersistentVolume) { p.Status.Phase = corev1.VolumeBound }), existing("disk-1", "eager", inBay("1")), existing("disk-a", "eager", inZone("a__c")),
		existing("free-1", "static", inBay("1")), existing("tiny", "static", small), existing("kept", "static", inBay("2"), heldFor(reserved)),
	} {
		v.setVolume(p)
	}
	return v
}

// TestUnmet: which of two nodes can use a claim, and if neither why.
func TestUnmet(t *testing.T) {
	v := someView()
	one, two := node("n1", "1", "a"), node("n2", "2", "b")
	for _, c := range []struct{ claim, one, two string }{
		{"shared", "", ""},
		{"bay-1", "", "node n2 cannot use its volume disk-1, which needs example.test/bay In 1"},
		{"zone-a", "", "node n2 cannot use its volume disk-a, which is in a or c"},
		{"dangling", "its volume none does not exist", ""},
		{"deleted", "it is being deleted", ""},
		{"lost", "its volume nfs is lost", ""},
		{"eager", "it has no volume yet", ""},
		{"classless", "it has no volume yet", ""},
		{"unknown", "it has no volume, and its class nowhere does not exist", ""},
		{"absent", "it does not exist", ""},
		{"dynamic", "", ""},
		{"bay-1-only", "", "class bay-1-only makes no volumes for node n2"},
		{"static", "", "no free volume of class static suits node n2, and the class makes none"},
		{"reserved", "no free volume of class static suits node n1, and the class makes none", ""},
		{"chosen", "", ""},
	} {
		key := Key("ns", c.claim)
		if why := v.Pending(key); why != "" { // on whatever node
			c.two = why
		}
		if got := v.Unmet(key, one); got != c.one {
			t.Errorf("%s on n1: %q; want %q", c.claim, got, c.one)
		}
		if got := v.Unmet(key, two); got != c.two {
			t.Errorf("%s on n2: %q; want %q", c.claim, got, c.two)
		}
		if got, want := v.Anywhere(key), c.claim == "shared"; got != want {
			t.Errorf("%s: anywhere: %v; want %v", c.claim, got, want)
		}
	}
	if why := v.Unmet(Key("ns", "zone-a"), node("n3", "3", "")); why != "" {
		t.Errorf("a volume in a zone on a node without one: %q; want that it can be used", why)
	}
	if !v.Exclusive(Key("ns", "mine")) || v.Exclusive(Key("ns", "shared")) {
		t.Error("exclusive is not the claim for one pod")
	}
}

// TestNext: what is left to do for a claim of a gang on some nodes.
func TestNext(t *testing.T) {
	v := someView()
	one, two := node("n1", "1", "a"), node("n2", "2", "b")
	both, other := []*corev1.Node{one, two}, []*corev1.Node{two, one}
	text := func(p Progress) string {
		switch {
		case p.Step != nil && p.Step.volume != nil:
			return "reserve " + p.Step.volume.Name
		case p.Step != nil:
			return "make one for " + p.Step.node
		case p.Unfit != "":
			return "unfit " + p.Node + ": " + p.Unfit
		case p.Waits != "":
			return "wait: " + p.Waits
		}
		return "bound"
	}
	for _, c := range []struct {
		claim string
		nodes []*corev1.Node
		want  string
	}{
		{"shared", both, "bound"},
		{"unfinished", both, "wait: it is being bound to its volume nfs"},
		{"bay-1", both, "unfit n2: node n2 cannot use its volume disk-1, which needs example.test/bay In 1"},
		{"bay-1", both[:1], "bound"},
		{"dynamic", both, "make one for n1"},
		{"dynamic", other, "make one for n2"},
		{"bay-1-only", both, "unfit n2: class bay-1-only makes no volumes for node n2"},
		{"static", both[:1], "reserve free-1"},
		{"static", both, "unfit n2: no free volume suits both node n1 and node n2"},
		{"static", other[:1], "unfit n2: no free volume of class static suits node n2, and the class makes none"},
		{"reserved", other[:1], "wait: volume kept is reserved for it"},
		{"chosen", both, "wait: its provisioner has made no volume for node n1 yet"},
		{"chosen", other[:1], "unfit n2: a volume is being made for node n1"},
		{"absent", both, "wait: it does not exist"},
	} {
		if got := text(v.Next(Key("ns", c.claim), c.nodes, Taken{})); got != c.want {
			t.Errorf("%s on %s: %s; want %s", c.claim, c.nodes[0].Name, got, c.want)
		}
	}
	taken := Taken{}
	v.Next(Key("ns", "static"), both[:1], taken)
	if got, want := text(v.Next(Key("ns", "static-2"), both[:1], taken)), "unfit n1: node n1 has too few free volumes of class static"; got != want {
		t.Errorf("two claims for one volume: %s; want %s", got, want)
	}
}

// TestForget: a volume that is gone, or is another's now, is not offered.
func TestForget(t *testing.T) {
	one := node("n1", "1", "")
	for name, change := range map[string]func(*View, *corev1.PersistentVolume){
		"gone": func(v *View, p *corev1.PersistentVolume) { v.dropVolume(p) },
		"reserved": func(v *View, p *corev1.PersistentVolume) {
			v.setVolume(existing(p.Name, "static", heldFor(claim("x", "static", ""))))
		},
		"of another class": func(v *View, p *corev1.PersistentVolume) {
			v.setVolume(existing(p.Name, "dynamic"))
		},
	} {
		v := someView()
		calls := 0
		v.Changed = func() { calls++ }
		change(v, v.volumes["free-1"])
		if why := v.Unmet(Key("ns", "static"), one); why == "" || calls != 1 {
			t.Errorf("%s: the claim can still get it, or %d changes were told; want one", name, calls)
		}
	}
}

// TestWords: what people read about a claim.
func TestWords(t *testing.T) {
	v := someView()
	for name, want := range map[string]string{
		"shared": "", "absent": "it does not exist", "dynamic": "it gets a volume of class dynamic",
		"bay-1":  "its volume disk-1 is on nodes with example.test/bay In 1",
		"zone-a": "its volume disk-a is on nodes with a or c",
		"static": "it waits for a free volume of class static, which makes none",
		"chosen": "a volume is being made for node n1",
	} {
		if got := v.Words(Key("ns", name)); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
}

// TestClaims: the claims of a pod, and what the cache keeps of its volumes.
func TestClaims(t *testing.T) {
	named := func(volume, claim string) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		named("v2", "b"), {Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}, named("v1", "a"), named("v3", "b"),
		{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}},
	}}}
	for range 2 {
		got, tmp := Named("ns", &p.Spec), Ephemeral(p)
		if len(got) != 2 || got[0] != "ns/a" || got[1] != "ns/b" || len(tmp) != 1 || tmp[0] != "ns/pod-tmp" {
			t.Errorf("the pod names %q and has %q; want ns/a, ns/b and ns/pod-tmp", got, tmp)
		}
		p.Spec.Volumes = Strip(p.Spec.Volumes)
	}
	if len(p.Spec.Volumes) != 4 {
		t.Errorf("%d volumes are kept; want 4", len(p.Spec.Volumes))
	}
}
