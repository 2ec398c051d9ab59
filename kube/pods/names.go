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

// The pod names of a gang's service are written here, once, when all pods have an
// address. Kubernetes follows every pod and keeps two lists per service, which
// would be a third of the API server's work.

// perSlice is how many addresses Kubernetes allows in one list.
const perSlice = 1000

// firstAlone is how long the names of a gang wait for its last pod; after that,
// running pods can find the first, and each other.
const firstAlone = 2 * time.Second

// publish writes the new addresses of a gang whose pods are bound, if any, and
// reports whether it does.
func (e *Executor) publish(ctx context.Context, r *run, pods map[int]*corev1.Pod, now time.Time) bool {
	if pods[0].Spec.Subdomain == "" || r.named == len(pods) {
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
	if known == r.named || known < len(pods) && now.Sub(r.addressed) < firstAlone {
		return false
	}
	slices := addressesOf(pods)
	e.background(r, func() func() {
		err := e.parallel(ctx, later, len(slices), func(ctx context.Context, i int) error { return e.writeAddresses(ctx, slices[i]) })
		return func() {
			switch {
			case err == nil:
				r.named, r.addressed, r.tries = known, e.Now(), 0
			case ctx.Err() != nil:
			case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !errors.Is(err, errTaken):
				e.retry(r, "write the addresses of its pods down", err)
			case r.created.IsZero():
				// An earlier leader started it: its pods may have met already.
				e.Log.Warn("the addresses of an attempt cannot be written down", "job", r.id.Job, "attempt", r.id.Number, "err", err)
				r.named = known
			default:
				e.end(r, refused("its pods cannot find each other by name: "+err.Error()))
			}
		}
	})
	return true
}

// addressesOf returns the lists of a gang's addresses. They go with its job, and
// the next attempt takes them over.
func addressesOf(pods map[int]*corev1.Pod) []*discoveryv1.EndpointSlice {
	first := pods[0]
	var out []*discoveryv1.EndpointSlice
	for rank := range len(pods) {
		p := pods[rank]
		if rank%perSlice == 0 {
			out = append(out, &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: first.Namespace, Name: fmt.Sprintf("%s-%d", first.Spec.Subdomain, rank/perSlice),
					Labels: map[string]string{
						discoveryv1.LabelServiceName: first.Spec.Subdomain, discoveryv1.LabelManagedBy: v1alpha1.GroupVersion.Group,
						v1alpha1.LabelJob: first.Labels[v1alpha1.LabelJob],
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
			// As soon as it has one: the pods of a gang wait for each other.
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

// writeAddresses makes a list of addresses, or updates that of an earlier attempt.
func (e *Executor) writeAddresses(ctx context.Context, list *discoveryv1.EndpointSlice) error {
	err := e.Client.Create(ctx, list.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &discoveryv1.EndpointSlice{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(list), there); err != nil {
		return err
	}
	if there.Labels[discoveryv1.LabelManagedBy] != v1alpha1.GroupVersion.Group {
		return fmt.Errorf("endpoint slice %s/%s is not Fairway's: %w", list.Namespace, list.Name, errTaken)
	}
	if owner := metav1.GetControllerOf(there); owner != nil && owner.UID != list.OwnerReferences[0].UID {
		return leftover("endpointslices", list.Name) // it goes with its owner
	}
	patch, err := json.Marshal(map[string]any{"endpoints": list.Endpoints})
	if err != nil {
		return fmt.Errorf("write addresses: %w", err)
	}
	return e.Client.Patch(ctx, there, client.RawPatch(types.MergePatchType, patch))
}
