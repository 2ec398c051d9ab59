// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is for Go programs that use Fairway's kinds as v1beta1. The versions
// have the same fields (docs/adr/0023-two-versions-one-schema.md), so the types are those
// of v1alpha1. A scheme can hold one of the two packages.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: v1alpha1.GroupVersion.Group, Version: "v1beta1"}

// The kinds that people write. The journal of the operator has only one version.
type (
	TrainingJob          = v1alpha1.TrainingJob
	TrainingJobList      = v1alpha1.TrainingJobList
	App                  = v1alpha1.App
	AppList              = v1alpha1.AppList
	Tenant               = v1alpha1.Tenant
	TenantList           = v1alpha1.TenantList
	SchedulingPolicy     = v1alpha1.SchedulingPolicy
	SchedulingPolicyList = v1alpha1.SchedulingPolicyList
)

// AddToScheme registers the kinds with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&TrainingJob{}, &TrainingJobList{}, &App{}, &AppList{}, &Tenant{}, &TenantList{},
		&SchedulingPolicy{}, &SchedulingPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
