// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload holds what kube/mirror, which reads the objects of users, tells
// kube/pods, which runs them.
package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
)

// Pod is what the pods of an attempt are made from.
type Pod struct {
	Templates   []corev1.PodTemplateSpec // one for each role of the job; without roles, one
	Owner       metav1.OwnerReference    // the controller of the pods
	Namespace   string
	Name        string // of the job: pods are named after it
	GPUResource corev1.ResourceName
}

// External is the progress of an attempt of an external workload, whose pods a
// controller other than Fairway creates.
type External struct {
	Up   bool      // all of its pods run
	Gone bool      // none of its pods is left that could hold a GPU
	Exit *api.Exit // how it ended by itself; nil: it did not
	// Waits is one of its pods that wait to be bound, which are alike; nil: none does.
	Waits *corev1.PodSpec
	// Missing is how many of its pods do not exist yet, after its start.
	Missing int
	// Idle is how many of its pods exist and have no container that runs yet.
	Idle int
}
