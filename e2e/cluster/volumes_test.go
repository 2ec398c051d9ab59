// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

const (
	zone       = "test.fairway.dev/zone" // label of nodes: a or b
	late       = "late"                  // class of volumes that are made for a node
	local      = "local"                 // class of volumes that exist
	pretender  = "pretend.test.fairway.dev"
	chosenNode = "volume.kubernetes.io/selected-node"
	fussy      = "fussy" // a claim for which no volume is made on the first node
)

// TestVolumes: jobs go where their volumes are, claims that wait for a node get one, and a
// job whose claim cannot be used waits and says so.
func TestVolumes(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"volumes"}})
	w.zones(t)
	w.classes(t)
	w.operator(t, how{})

	t.Run("made for the node", func(t *testing.T) {
		w.claim(t, "data", late, corev1.ReadWriteMany)
		job := w.claiming(t, training{name: "made", gpus: 16, perPod: 8}, "data")
		w.wait(t, job, api.Running)
		claim := w.bound(t, "data")
		nodes := w.nodesOf(t, job, job.Status.Attempt)
		if chosen := claim.Annotations[chosenNode]; !nodes[chosen] {
			t.Errorf("the claim's volume was made for node %q; want one of %v", chosen, nodes)
		}
		w.end(t, job)
	})
	t.Run("on the nodes of its volume", func(t *testing.T) {
		w.volume(t, "far", local, "b")
		w.claim(t, "disk", local, corev1.ReadWriteOnce)
		for _, name := range []string{"unbound", "bound"} { // the first has the claim bound
			job := w.claiming(t, training{name: name, gpus: 8, perPod: 8}, "disk")
			w.wait(t, job, api.Running)
			if claim := w.bound(t, "disk"); claim.Spec.VolumeName != "far" {
				t.Errorf("%s: the claim has volume %q; want far", name, claim.Spec.VolumeName)
			}
			w.inZone(t, job, "b")
			w.end(t, job)
		}
		job := w.object(training{name: "elsewhere", gpus: 8, perPod: 8})
		job.Spec.Template.Spec.NodeSelector = map[string]string{zone: "a"}
		w.createWith(t, job, "disk")
		w.waitWhy(t, job, "volume claim disk: its volume far is on nodes with "+zone+" In b")
		w.delete(t, job)
	})
	t.Run("a claim that comes later", func(t *testing.T) {
		job := w.claiming(t, training{name: "early", gpus: 1}, "soon")
		w.waitWhy(t, job, "volume claim soon: it does not exist")
		w.claim(t, "soon", late, corev1.ReadWriteOnce)
		w.end(t, job)
	})
	t.Run("a claim for one pod", func(t *testing.T) {
		w.claim(t, "mine", late, corev1.ReadWriteOncePod)
		one := w.claiming(t, training{name: "one", gpus: 1}, "mine")
		w.wait(t, one, api.Running)
		two := w.claiming(t, training{name: "two", gpus: 1}, "mine")
		w.waitWhy(t, two, "waits for volume claim mine: it is ReadWriteOncePod, and pod one-1-0 uses it")
		w.end(t, one)
		w.end(t, two)
	})
	t.Run("a provisioner that cannot", func(t *testing.T) {
		w.claim(t, fussy, late, corev1.ReadWriteOnce)
		job := w.claiming(t, training{name: "turned-away", gpus: 8, perPod: 8}, fussy)
		w.waitWhy(t, job, "waits for volume claim fussy: its provisioner could make no volume for node "+gpuNode)
		w.wait(t, job, api.Running)
		w.end(t, job)
	})
	t.Run("of a batch Job", func(t *testing.T) {
		w.claim(t, "batch", late, corev1.ReadWriteOnce)
		job := w.claimingBatch(t, "plain", "batch")
		eventually(t, "the Job has ended", func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
				return err
			}
			if job.Status.Succeeded != 1 {
				return fmt.Errorf("its status is %+v, and Fairway says %q", job.Status, job.Annotations[v1alpha1.AnnotationWhy])
			}
			return nil
		})
		w.bound(t, "batch")
	})
	t.Run("a claim of one pod", func(t *testing.T) {
		job := w.object(training{name: "scratch", gpus: 2})
		job.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec(late, corev1.ReadWriteOnce)},
		}}}}
		if err := w.admin.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		w.wait(t, job, api.Running)
		for _, p := range w.podsOf(t, job, job.Status.Attempt) {
			if c := w.bound(t, p.Name+"-tmp"); c.Annotations[chosenNode] != p.Spec.NodeName {
				t.Errorf("the claim of pod %s has a volume for node %q; want %s", p.Name, c.Annotations[chosenNode], p.Spec.NodeName)
			}
		}
		w.end(t, job)
	})
	w.waitAll(t)
	w.account(t)
}

// zones puts the racks of the nodes into two zones, until the end of the test.
func (w *world) zones(t *testing.T) {
	t.Helper()
	set := func(value func(i int) string) {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // also at the test's end
		defer cancel()
		for i := range nodeCount {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", gpuNode, i)}}
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, zone, value(i)))
			if err := w.admin.Patch(ctx, n, patch); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { set(func(int) string { return "null" }) })
	set(func(i int) string {
		if i < 8 { // two racks
			return `"a"`
		}
		return `"b"`
	})
}

// classes creates the storage classes, and a provisioner that makes volumes for the zone of a
// node, until the end of the test.
func (w *world) classes(t *testing.T) {
	t.Helper()
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	for name, by := range map[string]string{late: pretender, local: "kubernetes.io/no-provisioner"} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: by, VolumeBindingMode: &mode}
		if err := w.admin.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := w.admin.Delete(ctx, class); err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.admin.DeleteAllOf(ctx, &corev1.PersistentVolume{}, client.MatchingLabels{"test": "volumes"}); err != nil {
			t.Error(err)
		}
	})
	go func() {
		defer close(done)
		var refused string
		for ctx.Err() == nil {
			if err := w.provide(ctx, &refused); err != nil && ctx.Err() == nil {
				t.Errorf("the pretended provisioner: %v", err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// provide makes a volume for each claim that has a node and no volume. For one claim it cannot
// on the node that it is asked for first.
func (w *world) provide(ctx context.Context, refused *string) error {
	var claims corev1.PersistentVolumeClaimList
	if err := w.admin.List(ctx, &claims, client.InNamespace("volumes")); err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		chosen := c.Annotations[chosenNode]
		if chosen == "" || c.Spec.VolumeName != "" || *c.Spec.StorageClassName != late {
			continue
		}
		if c.Name == fussy && (*refused == "" || *refused == chosen) {
			*refused = chosen
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, chosenNode))
			if err := w.admin.Patch(ctx, c, patch); err != nil {
				return err
			}
			continue
		}
		var node corev1.Node
		if err := w.admin.Get(ctx, client.ObjectKey{Name: chosen}, &node); err != nil {
			return err
		}
		if err := w.admin.Create(ctx, volumeOf("made-"+string(c.UID), late, node.Labels[zone], c)); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// volumeOf returns a volume that nodes of a zone can use, for a claim or for any.
func volumeOf(name, class, in string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	p := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "volumes"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: pretender, VolumeHandle: name}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{in}}},
			}}}},
		},
	}
	if claim != nil {
		p.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": pretender}
		p.Spec.AccessModes = claim.Spec.AccessModes
		p.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
	return p
}

// volume creates a volume that any claim may get.
func (w *world) volume(t *testing.T, name, class, in string) {
	t.Helper()
	p := volumeOf(name, class, in, nil)
	if err := w.admin.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func claimSpec(class string, mode corev1.PersistentVolumeAccessMode) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// claim creates a volume claim.
func (w *world) claim(t *testing.T, name, class string, mode corev1.PersistentVolumeAccessMode) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespaces[0], Name: name}, Spec: claimSpec(class, mode)}
	if err := w.admin.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// bound returns a claim, which is bound.
func (w *world) bound(t *testing.T, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespaces[0], Name: name}, c); err != nil {
		t.Fatal(err)
	}
	if c.Status.Phase != corev1.ClaimBound {
		t.Errorf("claim %s is %s although its pods run", name, c.Status.Phase)
	}
	return c
}

// claiming creates a job whose pods use a claim.
func (w *world) claiming(t *testing.T, j training, claim string) *v1alpha1.TrainingJob {
	t.Helper()
	o := w.object(j)
	w.createWith(t, o, claim)
	return o
}

func (w *world) createWith(t *testing.T, job *v1alpha1.TrainingJob, claim string) {
	t.Helper()
	job.Spec.Template.Spec.Volumes = []corev1.Volume{claimed(claim)}
	if err := w.admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// claimingBatch creates a batch Job for Fairway with a pod that uses a claim.
func (w *world) claimingBatch(t *testing.T, name, claim string) *batchv1.Job {
	t.Helper()
	spec := w.object(training{name: name, runFor: time.Second}).Spec.Template.PodTemplateSpec
	spec.Spec.SchedulerName, spec.Spec.RestartPolicy = v1alpha1.SchedulerName, corev1.RestartPolicyNever
	spec.Spec.Containers[0].Resources.Limits = corev1.ResourceList{kubetest.GPU: resource.MustParse("1")}
	spec.Spec.Volumes = []corev1.Volume{claimed(claim)}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespaces[0], Name: name, Labels: map[string]string{v1alpha1.LabelManaged: "true"}},
		Spec:       batchv1.JobSpec{Suspend: new(true), Template: spec},
	}
	if err := w.admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return job
}

// claimed is a volume of a pod that uses a claim.
func claimed(claim string) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// waitWhy waits until a waiting job gives a reason.
func (w *world) waitWhy(t *testing.T, job *v1alpha1.TrainingJob, why string) {
	t.Helper()
	eventually(t, fmt.Sprintf("job %s says %q", job.Name, why), func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.State != api.Waiting || !strings.Contains(job.Status.Why, why) {
			return fmt.Errorf("it is %q: %q", job.Status.State, job.Status.Why)
		}
		return nil
	})
}

// inZone checks where the pods of a job are.
func (w *world) inZone(t *testing.T, job *v1alpha1.TrainingJob, want string) {
	t.Helper()
	for name := range w.nodesOf(t, job, job.Status.Attempt) {
		var n corev1.Node
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
			t.Fatal(err)
		}
		if n.Labels[zone] != want {
			t.Errorf("job %s runs on node %s in zone %q; want %q", job.Name, name, n.Labels[zone], want)
		}
	}
}

func (w *world) delete(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.admin.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}
