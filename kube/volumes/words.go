// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

// Words says where a claim's volume can be used, or why no pod can use it; empty: anywhere.
func (v *View) Words(key string) string {
	if v.Anywhere(key) {
		return ""
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if why := v.pending(key); why != "" {
		return why
	}
	c := v.claims[key]
	if p := v.volumes[c.Spec.VolumeName]; p != nil {
		words := affinityWords(p)
		for _, l := range zoneLabels {
			if in := zonesOf(p)[l]; len(in) > 0 {
				words = strings.TrimPrefix(words+", "+strings.Join(in, " or "), ", ")
			}
		}
		return fmt.Sprintf("its volume %s is on nodes with %s", p.Name, words)
	}
	if chosen := c.Annotations[volume.AnnSelectedNode]; chosen != "" {
		return "a volume is being made for node " + chosen
	}
	class := v.classes[volume.GetPersistentVolumeClaimClass(c)]
	if !provides(class) {
		return fmt.Sprintf("it waits for a free volume of class %s, which makes none", class.Name)
	}
	return "it gets a volume of class " + class.Name
}

// affinityWords prints the nodes of a volume.
func affinityWords(p *corev1.PersistentVolume) string {
	if p.Spec.NodeAffinity == nil || p.Spec.NodeAffinity.Required == nil {
		return ""
	}
	var terms []string
	for _, t := range p.Spec.NodeAffinity.Required.NodeSelectorTerms {
		var all []string
		for _, q := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", q.Key, q.Operator, strings.Join(q.Values, ", "))))
		}
		terms = append(terms, strings.Join(all, " and "))
	}
	return strings.Join(terms, ", or ")
}
