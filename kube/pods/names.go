// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// Fairway writes the endpoints of a gang's service itself, once, when all pods have an
// address. Kubernetes' own controllers would follow every pod and keep two lists per
// service: a third of the API server's work.

// perSlice is how many addresses Kubernetes allows in one EndpointSlice.
const perSlice = 1000

// firstAlone is how long publishing waits for the last pod of a gang. After that, the
// addresses known so far are published, for trainers that begin without the others.
const firstAlone = 5 * time.Second

// publish writes the new addresses of a gang whose pods are bound, and reports whether
// there were any.
func (e *Executor) publish(ctx context.Context, r *run, pods map[int]*corev1.Pod, now time.Time) bool {
	if pods[0].Spec.Subdomain == "" || r.published == len(pods) {
		return false
	}
	known := 0
	for _, p := range pods {
		if p.Status.PodIP != "" {
			known++
		}
	}
	if known > 0 && r.addressed.IsZero() {
		r.addressed = now
	}
	if known == r.published || known < len(pods) && now.Sub(r.addressed) < firstAlone {
		return false
	}
	slices, again := addressesOf(pods), r.published > 0
	e.background(r, func() func() {
		err := e.parallel(ctx, later, len(slices), func(ctx context.Context, i int) error { return e.writeAddresses(ctx, slices[i], again) })
		return func() {
			switch {
			case err == nil:
				r.published, r.addressed, r.tries = known, e.Now(), 0
			case ctx.Err() != nil:
			case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !errors.Is(err, errTaken):
				e.retry(r, "write the addresses of its pods", err)
			case r.created.IsZero():
				// An earlier leader started it, so its pods may have found each other
				// already.
				e.Log.Warn("write pod addresses", "job", r.id.Job, "attempt", r.id.Number, "err", err)
				r.published = known
			default:
				e.end(r, refused("its pods cannot find each other by name: "+err.Error()))
			}
		}
	})
	return true
}

// addressesOf returns the EndpointSlices of a gang. They are deleted with its job; the
// next attempt updates them.
func addressesOf(pods map[int]*corev1.Pod) []*discoveryv1.EndpointSlice {
	first := pods[0]
	job := first.Labels[v1alpha1.LabelJob]
	var out []*discoveryv1.EndpointSlice
	for rank := range len(pods) {
		p := pods[rank]
		if rank%perSlice == 0 {
			out = append(out, &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: first.Namespace, Name: fmt.Sprintf("%s-%d", job, rank/perSlice),
					Labels: map[string]string{
						discoveryv1.LabelServiceName: first.Spec.Subdomain, discoveryv1.LabelManagedBy: v1alpha1.GroupVersion.Group,
						v1alpha1.LabelJob: job,
					},
					OwnerReferences: first.OwnerReferences,
				},
				AddressType: familyOf(first.Status.PodIP), Endpoints: []discoveryv1.Endpoint{},
			})
		}
		if p.Status.PodIP == "" {
			continue
		}
		list, ready := out[len(out)-1], true
		list.Endpoints = append(list.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.Status.PodIP}, Hostname: &p.Spec.Hostname, NodeName: &p.Spec.NodeName,
			// A pod is ready as soon as it has an address, because the pods of a gang
			// wait for each other.
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		})
	}
	return out
}

func familyOf(address string) discoveryv1.AddressType {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// writeAddresses creates an EndpointSlice, or updates that of an earlier attempt or, again,
// that of this one.
func (e *Executor) writeAddresses(ctx context.Context, list *discoveryv1.EndpointSlice, again bool) error {
	if !again {
		if err := e.Client.Create(ctx, list.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	there := &discoveryv1.EndpointSlice{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(list), there); apierrors.IsNotFound(err) {
		return e.Client.Create(ctx, list.DeepCopy()) // somebody has deleted it
	} else if err != nil {
		return err
	}
	if there.Labels[discoveryv1.LabelManagedBy] != v1alpha1.GroupVersion.Group {
		return fmt.Errorf("endpoint slice %s/%s is not Fairway's: %w", list.Namespace, list.Name, errTaken)
	}
	if owner := metav1.GetControllerOf(there); owner != nil && owner.UID != list.OwnerReferences[0].UID {
		return leftover("endpointslices", list.Name) // it will be deleted with its owner
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": list.Labels}, "endpoints": list.Endpoints})
	if err != nil {
		return fmt.Errorf("write addresses: %w", err)
	}
	return e.Client.Patch(ctx, there, client.RawPatch(types.MergePatchType, patch))
}
