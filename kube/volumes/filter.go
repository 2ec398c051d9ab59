// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// Unmet says why a pod on a node cannot use a claim; empty: it can, or the claim could get a
// volume for that node. A volume that is being made for some node does not count: that is
// over soon, and nodes would have to be labelled twice.
func (v *View) Unmet(key string, n *corev1.Node) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if why := v.pending(key); why != "" {
		return why
	}
	c := v.claims[key]
	if c.Spec.VolumeName != "" {
		return outside(v.volumes[c.Spec.VolumeName], n)
	}
	return v.unavailable(c, n)
}

// unavailable says why an unbound claim can get no volume for a node; empty: it can.
func (v *View) unavailable(c *corev1.PersistentVolumeClaim, n *corev1.Node) string {
	if v.match(c, n, nil) != nil {
		return ""
	}
	class := v.classes[volume.GetPersistentVolumeClaimClass(c)]
	switch {
	case !provides(class):
		return fmt.Sprintf("no free volume of class %s suits node %s, and the class makes none", class.Name, n.Name)
	case !allows(class, n):
		return fmt.Sprintf("class %s makes no volumes for node %s", class.Name, n.Name)
	}
	return ""
}

// match returns the free volume that a claim should get on a node; nil: there is none.
func (v *View) match(c *corev1.PersistentVolumeClaim, n *corev1.Node, but map[string]*corev1.PersistentVolume) *corev1.PersistentVolume {
	free := v.free[volume.GetPersistentVolumeClaimClass(c)]
	list := make([]*corev1.PersistentVolume, 0, len(free)+1)
	if p := v.kept[Key(c.Namespace, c.Name)]; p != nil && volume.IsVolumeBoundToClaim(p, c) {
		list = append(list, p) // no other comes into question
	}
	for _, name := range slices.Sorted(maps.Keys(free)) { // the same volume each time
		if outside(free[name], n) == "" {
			list = append(list, free[name])
		}
	}
	p, err := volume.FindMatchingVolume(c, list, n, but, true, true)
	if err != nil { // its selector is invalid: it matches no volume
		return nil
	}
	return p
}

// provides reports whether a class makes volumes.
func provides(class *storagev1.StorageClass) bool {
	return class.Provisioner != "" && class.Provisioner != volume.NotSupportedProvisioner
}

// allows reports whether a class makes volumes for a node: one of its topologies matches.
func allows(class *storagev1.StorageClass, n *corev1.Node) bool {
	if len(class.AllowedTopologies) == 0 {
		return true
	}
	return slices.ContainsFunc(class.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
		for _, q := range t.MatchLabelExpressions {
			if value, has := n.Labels[q.Key]; !has || !slices.Contains(q.Values, value) {
				return false
			}
		}
		return len(t.MatchLabelExpressions) > 0
	})
}

// outside says why a node cannot use a volume; empty: it can.
func outside(p *corev1.PersistentVolume, n *corev1.Node) string {
	if volume.CheckNodeAffinity(p, n.Labels) != nil {
		return fmt.Sprintf("node %s cannot use its volume %s, which needs %s", n.Name, p.Name, affinityWords(p))
	}
	zones := zonesOf(p)
	if !slices.ContainsFunc(zoneLabels, func(l string) bool { return n.Labels[l] != "" }) {
		return "" // a cluster without zones
	}
	for label, in := range zones {
		if !slices.Contains(in, labelOf(n, label)) {
			return fmt.Sprintf("node %s cannot use its volume %s, which is in %s", n.Name, p.Name, strings.Join(in, " or "))
		}
	}
	return ""
}

// zoneLabels are the labels of volumes and nodes that say where they are, with their older
// names.
var zoneLabels = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion}

var otherName = map[string]string{
	corev1.LabelTopologyZone: corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion: corev1.LabelFailureDomainBetaRegion, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
}

func labelOf(n *corev1.Node, label string) string {
	if v := n.Labels[label]; v != "" {
		return v
	}
	return n.Labels[otherName[label]]
}

// zonesOf returns the zones and regions that a volume's labels name, by label. A volume in
// several zones has their names in one label, with __ in between.
func zonesOf(p *corev1.PersistentVolume) map[string][]string {
	var out map[string][]string
	for _, l := range zoneLabels {
		if v := p.Labels[l]; v != "" {
			if out == nil {
				out = map[string][]string{}
			}
			out[l] = strings.Split(v, "__")
		}
	}
	return out
}
