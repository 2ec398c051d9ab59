// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Progress is how far a claim is from being bound for the nodes of a gang. Without any of
// its fields set, it is bound.
type Progress struct {
	Waits string // for what, if it only takes time
	Step  *Step  // what to do
	Unfit string // why one of the nodes cannot use it
	Node  string // that node
}

// Step is a request that gets an unbound claim a volume: it reserves a free one for it, or
// asks for a new one for a node.
type Step struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume // nil: a new one
	node   string
}

// Do makes the request. It fails with a conflict if the object has changed in the meantime.
func (s *Step) Do(ctx context.Context, c client.Client) error {
	if s.volume != nil {
		next, _, err := volume.GetBindVolumeToClaim(s.volume, s.claim)
		if err != nil {
			return err
		}
		return c.Patch(ctx, next, client.MergeFromWithOptions(s.volume, client.MergeFromWithOptimisticLock{}))
	}
	next := s.claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnSelectedNode, s.node)
	return c.Patch(ctx, next, client.MergeFromWithOptions(s.claim, client.MergeFromWithOptimisticLock{}))
}

// Taken are the volumes that steps of the same gang reserve.
type Taken map[string]*corev1.PersistentVolume

// Next returns how far a claim is from being bound for the nodes whose pods use it. A new
// volume is made for the first of them.
func (v *View) Next(key string, nodes []*corev1.Node, taken Taken) Progress {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if why := v.pending(key); why != "" {
		return Progress{Waits: why}
	}
	c := v.claims[key]
	if p := v.volumes[c.Spec.VolumeName]; p != nil {
		for _, n := range nodes {
			if why := outside(p, n); why != "" {
				return Progress{Unfit: why, Node: n.Name}
			}
		}
		if !metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted) {
			return Progress{Waits: fmt.Sprintf("it is being bound to its volume %s", p.Name)}
		}
		return Progress{}
	}
	if chosen := c.Annotations[volume.AnnSelectedNode]; chosen != "" {
		for _, n := range nodes {
			if n.Name == chosen {
				return Progress{Waits: "its provisioner has made no volume for node " + chosen + " yet"}
			}
		}
		return Progress{Unfit: "a volume is being made for node " + chosen, Node: nodes[0].Name}
	}
	if p := v.match(c, nodes[0], taken); p != nil {
		for _, n := range nodes[1:] {
			if why := outside(p, n); why != "" {
				return Progress{Unfit: fmt.Sprintf("no free volume suits both node %s and node %s", nodes[0].Name, n.Name), Node: n.Name}
			}
		}
		if volume.IsVolumeBoundToClaim(p, c) && p.Spec.ClaimRef.UID != "" {
			return Progress{Waits: fmt.Sprintf("volume %s is reserved for it", p.Name)}
		}
		taken[p.Name] = p
		return Progress{Step: &Step{claim: c, volume: p}}
	}
	for _, n := range nodes {
		if why := v.unavailable(c, n); why != "" {
			return Progress{Unfit: why, Node: n.Name}
		}
	}
	class := v.classes[volume.GetPersistentVolumeClaimClass(c)]
	if !provides(class) { // taken by another claim of the same pods
		return Progress{Unfit: fmt.Sprintf("node %s has too few free volumes of class %s", nodes[0].Name, class.Name), Node: nodes[0].Name}
	}
	return Progress{Step: &Step{claim: c, node: nodes[0].Name}}
}

// Chosen returns the node for which a volume of an unbound claim is being made; empty: for
// none.
func (v *View) Chosen(key string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if c := v.claims[key]; c != nil && c.Spec.VolumeName == "" {
		return c.Annotations[volume.AnnSelectedNode]
	}
	return ""
}
