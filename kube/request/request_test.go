// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPeak: what a pod may use at a time is what its node reserves for it.
func TestPeak(t *testing.T) {
	list := func(gpus string) corev1.ResourceList {
		return corev1.ResourceList{UsualGPU: resource.MustParse(gpus), corev1.ResourceCPU: resource.MustParse("500m")}
	}
	of := func(gpus string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(gpus)}}
	}
	stays := of("1")
	always := corev1.ContainerRestartPolicyAlways
	stays.RestartPolicy = &always
	limit := corev1.Container{Resources: corev1.ResourceRequirements{Limits: list("3")}}
	for name, c := range map[string]struct {
		pod        corev1.PodSpec
		gpus, cpus int64
	}{
		"nothing":             {corev1.PodSpec{Containers: []corev1.Container{{}}}, 0, 0},
		"together":            {corev1.PodSpec{Containers: []corev1.Container{of("1"), of("2")}}, 3, 1000},
		"a limit alone":       {corev1.PodSpec{Containers: []corev1.Container{limit}}, 3, 500},
		"more before":         {corev1.PodSpec{InitContainers: []corev1.Container{of("2"), of("4")}, Containers: []corev1.Container{of("1")}}, 4, 500},
		"one that stays":      {corev1.PodSpec{InitContainers: []corev1.Container{stays}, Containers: []corev1.Container{of("2")}}, 3, 1000},
		"before, beside it":   {corev1.PodSpec{InitContainers: []corev1.Container{stays, of("4")}, Containers: []corev1.Container{of("2")}}, 5, 1000},
		"of the pod as whole": {corev1.PodSpec{Containers: []corev1.Container{of("1")}, Resources: &corev1.ResourceRequirements{Requests: list("6")}}, 6, 500},
		"overhead":            {corev1.PodSpec{Containers: []corev1.Container{of("1")}, Overhead: list("1")}, 2, 1000},
		"absurd":              {corev1.PodSpec{Containers: []corev1.Container{of("9e18"), of("9e18")}}, math.MaxInt64, 1000},
		"negative":            {corev1.PodSpec{Containers: []corev1.Container{of("-2"), of("1")}}, 1, 1000},
	} {
		if gpus, cpus := Peak(&c.pod, UsualGPU), Peak(&c.pod, corev1.ResourceCPU); gpus != c.gpus || cpus != c.cpus {
			t.Errorf("%s: %d GPUs and %d thousandths of CPUs; want %d and %d", name, gpus, cpus, c.gpus, c.cpus)
		}
	}
}
