// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Key names a claim.
func Key(namespace, name string) string { return namespace + "/" + name }

// Name returns the name of a claim without its namespace.
func Name(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return name
}

// Named returns the claims that a pod names, in order.
func Named(namespace string, pod *corev1.PodSpec) []string {
	var out []string
	for i := range pod.Volumes {
		if c := pod.Volumes[i].PersistentVolumeClaim; c != nil {
			out = append(out, Key(namespace, c.ClaimName))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Ephemeral returns the claims that are made for a pod and deleted with it, in order.
func Ephemeral(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Ephemeral != nil {
			out = append(out, Key(p.Namespace, ephemeral.VolumeClaimName(p, v)))
		}
	}
	slices.Sort(out)
	return out
}

// Strip returns of a pod's volumes what this package looks at.
func Strip(all []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range all {
		kept := corev1.Volume{Name: v.Name}
		switch {
		case v.PersistentVolumeClaim != nil:
			kept.PersistentVolumeClaim = v.PersistentVolumeClaim
		case v.Ephemeral != nil:
			kept.Ephemeral = &corev1.EphemeralVolumeSource{}
		default:
			continue
		}
		out = append(out, kept)
	}
	return out
}
