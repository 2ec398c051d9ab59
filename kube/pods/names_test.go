// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestNames: pods of a gang are found by name: in the first attempt, in the next, and
// after the EndpointSlice was deleted while the operator was down.
func TestNames(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, nil)
	id := w.submit(sched.Spec{GPUs: 3}, nil)
	w.plan(wants{id: {w.on(0, 0b11), w.on(1, 0b1)}})
	w.waitState(id, api.Running)
	list := w.waitNames(id, 1)
	if owner := metav1.GetControllerOf(list); owner == nil || list.Labels[discoveryv1.LabelServiceName] != "fairway-gangs" {
		t.Errorf("owner %v, labels %v; want those of the job", owner, list.Labels)
	}
	w.plan(wants{id: {w.on(1, 0b1110)}})
	w.waitNames(id, 2)

	if err := w.client.Delete(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	w.Restart(t)
	w.waitNames(id, 2)
}

// TestNamesTaken: a gang whose EndpointSlice name is taken fails and says so; a gang
// that runs already keeps running.
func TestNamesTaken(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, nil)
	external := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "job0-0"}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	if err := w.client.Create(t.Context(), external); err != nil {
		t.Fatal(err)
	}
	first := w.submit(sched.Spec{GPUs: 2}, nil)
	w.plan(wants{first: {w.on(0, 0b11)}})
	w.waitState(first, api.Failed)
	if why := w.job(first).Exit.Text(); !strings.Contains(why, "cannot find each other by name") || !strings.Contains(why, "job0-0 is not Fairway's") {
		t.Errorf("it failed because %q; want the endpoint slice named", why)
	}

	second := w.submit(sched.Spec{GPUs: 2}, nil)
	w.plan(wants{second: {w.on(0, 0b11)}})
	w.waitState(second, api.Running)
	list := &discoveryv1.EndpointSlice{}
	w.wait("the names of the second", func() bool {
		return w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "job1-0"}, list) == nil
	})
	list.Labels[discoveryv1.LabelManagedBy] = "somebody"
	if err := w.client.Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	w.Restart(t)
	w.End(t, second, 0)
	w.waitState(second, api.Finished)
}

// TestServiceTaken: where somebody else has a Service of the name at which gangs meet, gangs
// are refused, say why and what would help, and leave the Service and the GPUs alone. A single
// pod needs no Service, and a Service named like a job is in nobody's way.
func TestServiceTaken(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, nil)
	var theirs []*corev1.Service
	for _, name := range []string{"fairway-gangs", "job2"} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		if err := w.client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, s)
	}
	gang, single := w.submit(sched.Spec{GPUs: 2}, nil), w.submit(sched.Spec{GPUs: 1}, nil)
	w.plan(wants{gang: {w.on(0, 0b11)}, single: {w.on(0, 0b100)}})
	w.waitState(gang, api.Failed)
	for _, want := range []string{"could not be started", w.namespace + "/fairway-gangs is not Fairway's", "rename the service"} {
		if why := w.job(gang).Exit.Text(); !strings.Contains(why, want) {
			t.Errorf("it failed because %q; want %q in it", why, want)
		}
	}
	w.waitState(single, api.Running)
	if w.Starts(gang) != 0 {
		t.Error("a pod of the gang was bound")
	}
	if err := w.client.Delete(t.Context(), theirs[0]); err != nil {
		t.Fatal(err)
	}
	next := w.submit(sched.Spec{GPUs: 2}, nil)
	w.plan(wants{next: {w.on(0, 0b11)}, single: {w.on(0, 0b100)}})
	w.waitState(next, api.Running)
	var services corev1.ServiceList
	if err := w.client.List(t.Context(), &services, client.InNamespace(w.namespace)); err != nil || len(services.Items) != 2 {
		t.Errorf("there are %d services, %v; want that of the gangs, and theirs", len(services.Items), err)
	}
}

// waitNames waits until exactly the pods of an attempt are found by name.
func (w *world) waitNames(id sched.JobID, attempt int) *discoveryv1.EndpointSlice {
	w.t.Helper()
	list := &discoveryv1.EndpointSlice{}
	w.wait("names of the pods", func() bool {
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "job0-0"}, list); err != nil {
			return false
		}
		var got, want []string
		for _, e := range list.Endpoints {
			got = append(got, fmt.Sprintf("%s: %s on %s", *e.Hostname, e.Addresses[0], *e.NodeName))
		}
		for rank, p := range sorted(w.of(id)) {
			want = append(want, fmt.Sprintf("job0-%d-%d: %s on %s", attempt, rank, p.Status.PodIP, p.Spec.NodeName))
		}
		return len(want) == 3 && slices.Equal(want, got)
	})
	return list
}
