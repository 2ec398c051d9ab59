// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds that Fairway adds to Kubernetes: TrainingJob, App,
// Tenant and SchedulingPolicy, which people write, and JournalPage, which holds the
// operator's journal. "kubectl explain" shows the comments of the fields. The API
// server checks the bounds and rules of fields by schema and CEL, so Fairway needs no
// webhook.
//
// +kubebuilder:object:generate=true
// +groupName=fairway.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "fairway.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&TrainingJob{}, &TrainingJobList{}, &App{}, &AppList{}, &Tenant{}, &TenantList{},
		&SchedulingPolicy{}, &SchedulingPolicyList{}, &JournalPage{}, &JournalPageList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
