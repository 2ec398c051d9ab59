// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tenant is a group of users with a share of the cluster's GPUs. Their namespaces
// belong to it: what runs there uses its quota.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Quota",type=integer,JSONPath=`.spec.quota`
// +kubebuilder:printcolumn:name="Weight",type=string,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="GPUs",type=integer,JSONPath=`.status.gpus`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Rho",type=string,JSONPath=`.status.rho`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TenantSpec `json:"spec"`
	// Only the operator writes it.
	// +optional
	Status TenantStatus `json:"status,omitempty"`
}

// TenantList is a list of tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tenant `json:"items"`
}

// TenantSpec is a tenant's share.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.quota) || self.max >= self.quota",message="max must be at least quota"
type TenantSpec struct {
	// The namespaces that belong to the tenant. One that two tenants name belongs to both,
	// and its jobs say which they mean.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces"`
	// The GPUs that are its own; none: it has no quota, and shares what there is. Whether
	// those who borrowed them give them back at once is up to the policy: antman, philly
	// and quincy make them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Quota *int32 `json:"quota,omitempty"`
	// It may use more than its quota while others leave GPUs idle.
	// +optional
	Borrow bool `json:"borrow,omitempty"`
	// Never more GPUs than this, borrowed ones included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Max *int32 `json:"max,omitempty"`
	// Its share against other tenants: a positive number, as text.
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,6})?$`
	Weight string `json:"weight,omitempty"`
}

// TenantStatus is what a tenant holds.
type TenantStatus struct {
	// +optional
	GPUs int32 `json:"gpus,omitempty"`
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// GPUs it would have if all tenants with jobs shared by weight.
	// +optional
	FairShare string `json:"fairShare,omitempty"`
	// The largest finish-time fairness of its jobs.
	// +optional
	Rho string `json:"rho,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SchedulingPolicy is how the cluster is scheduled. There is one, named cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one scheduling policy: name it cluster"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="In-Force",type=string,JSONPath=`.status.inForce`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].message`
type SchedulingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SchedulingPolicySpec `json:"spec"`
	// Only the operator writes it.
	// +optional
	Status SchedulingPolicyStatus `json:"status,omitempty"`
}

// SchedulingPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type SchedulingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SchedulingPolicy `json:"items"`
}

// SchedulingPolicySpec says how the cluster is scheduled.
type SchedulingPolicySpec struct {
	// The policy with its knobs and layers, as "fairway policies" lists them, such as
	// tiresias, pollux:interval=30s or fifo@defrag@reserve@screen.
	// +kubebuilder:default=themis
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Policy string `json:"policy"`
}

// SchedulingPolicyStatus says what is in force.
type SchedulingPolicyStatus struct {
	// The policy that schedules now. It differs from the one that was asked for while
	// that cannot be had.
	// +optional
	InForce string `json:"inForce,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JournalPage is a part of what happened, in the operator's own namespace. Pages of
// records are numbered without gaps and never changed, so of two operators that
// believe to be the leader only one can write the next. People need not look at
// them; deleting them makes Fairway forget what the jobs have used and measured.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Holds",type=string,JSONPath=`.holds`
// +kubebuilder:printcolumn:name="First",type=integer,JSONPath=`.first`
// +kubebuilder:printcolumn:name="Records",type=integer,JSONPath=`.count`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.leader`
// +kubebuilder:validation:XValidation:rule="self.holds == oldSelf.holds && self.first == oldSelf.first && self.count == oldSelf.count && has(self.data) == has(oldSelf.data) && (!has(self.data) || self.data == oldSelf.data) && has(self.parts) == has(oldSelf.parts) && (!has(self.parts) || self.parts == oldSelf.parts)",message="a page is never changed"
type JournalPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// records; snapshot, of everything up to a record; or part, of another page that is
	// too large for one object.
	// +kubebuilder:validation:Enum=records;snapshot;part
	Holds string `json:"holds"`
	// The number of its first record; of a snapshot, of the last record in it.
	// +kubebuilder:validation:Minimum=0
	First int64 `json:"first"`
	// The number of its records.
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// Who wrote it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Leader string `json:"leader,omitempty"`
	// The names of its parts, in order, if it has any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=253
	Parts []string `json:"parts,omitempty"`
	// What it holds, compressed, unless it has parts.
	// +optional
	Data []byte `json:"data,omitempty"`
}

// JournalPageList is a list of pages.
//
// +kubebuilder:object:root=true
type JournalPageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []JournalPage `json:"items"`
}
