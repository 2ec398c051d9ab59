// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// The scheduler places a gang of roles as one: every node that it is given must suit the pods
// of all roles, and each GPU comes with as much as the pod that needs most.

// gangPod returns a pod that stands for those of all roles of a job: it needs the most that
// one of them does, and the volumes of all.
func gangPod(spec *v1alpha1.TrainingJobSpec) *corev1.PodSpec {
	templates := spec.Templates()
	if len(templates) == 1 {
		return &templates[0].Spec
	}
	out := templates[0].Spec
	out.Volumes, out.InitContainers = slices.Clone(out.Volumes), slices.Clone(out.InitContainers)
	for _, t := range templates[1:] {
		out.Volumes = append(out.Volumes, t.Spec.Volumes...)
		// A pod needs what its largest init container does, if that is more than its
		// containers together.
		out.InitContainers = append(out.InitContainers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: peaks(&t.Spec)}})
	}
	return &out
}

// peaks returns what the containers of a pod need of each resource that they name.
func peaks(of *corev1.PodSpec) corev1.ResourceList {
	out, pod := corev1.ResourceList{}, *of
	pod.Overhead = nil
	add := func(names corev1.ResourceList) {
		for name := range names {
			n := request.Peak(&pod, name)
			out[name] = *resource.NewQuantity(n, resource.DecimalSI)
			if name == corev1.ResourceCPU {
				out[name] = *resource.NewMilliQuantity(n, resource.DecimalSI)
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			add(list[i].Resources.Requests)
			add(list[i].Resources.Limits)
		}
	}
	if pod.Resources != nil {
		add(pod.Resources.Requests)
		add(pod.Resources.Limits)
	}
	return out
}

// sameNodes refuses roles whose pods may run on other nodes than those of the first.
func sameNodes(spec *v1alpha1.TrainingJobSpec, field string) error {
	templates := spec.Templates()
	for i, t := range templates {
		for _, c := range []struct {
			field     string
			own, that any
		}{
			{"nodeSelector", t.Spec.NodeSelector, templates[0].Spec.NodeSelector},
			{"affinity", t.Spec.Affinity, templates[0].Spec.Affinity},
			{"tolerations", t.Spec.Tolerations, templates[0].Spec.Tolerations},
			{"runtimeClassName", t.Spec.RuntimeClassName, templates[0].Spec.RuntimeClassName},
			{"priorityClassName", t.Spec.PriorityClassName, templates[0].Spec.PriorityClassName},
		} {
			if !equality.Semantic.DeepEqual(c.own, c.that) {
				return &refusal{"Unsupported", fmt.Sprintf("%s.roles[%d].template.spec.%s is not that of the first role: a gang is placed as one; use the same in all roles", field, i, c.field)}
			}
		}
	}
	return nil
}
