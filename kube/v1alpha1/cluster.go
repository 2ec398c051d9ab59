// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tenant is a group of users with a share of the cluster's GPUs. Jobs in its namespaces
// use its quota.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
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
	// The namespaces that belong to the tenant. A namespace may be listed by several
	// tenants; its jobs must then name one of them. A tenant without any has no jobs of
	// its own: it is there for the tenants below it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// The tenant out of whose quota its own comes, such as the team of a project. All that
	// a tenant holds counts against the bounds of those above it, and what it leaves idle
	// goes to its siblings first.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Parent string `json:"parent,omitempty"`
	// The GPUs that belong to the tenant and those below it. A tenant without a quota is
	// unbounded, but for the tenants above it.
	// Whether borrowed GPUs are given back at once depends on the policy: under antman,
	// philly and quincy they are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Quota *int32 `json:"quota,omitempty"`
	// Allow the tenant to use idle GPUs beyond its quota.
	// +optional
	Borrow bool `json:"borrow,omitempty"`
	// The most GPUs the tenant may use, borrowed ones included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Max *int32 `json:"max,omitempty"`
	// The same for some types of GPU, such as h100: 8. Jobs beyond a bound wait in order of
	// priority and submission.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.size() > 0 && t.size() <= 63 && self[t] >= 0 && self[t] <= 1000000)",message="maxByType has names of types, of 1 to 63 characters, and 0 to 1000000 GPUs of each"
	MaxByType map[string]int32 `json:"maxByType,omitempty"`
	// The most CPUs that the pods of its running jobs may request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	MaxCPUs *int32 `json:"maxCPUs,omitempty"`
	// The most memory that the pods of its running jobs may request, such as 2Ti.
	// +optional
	MaxMemory *resource.Quantity `json:"maxMemory,omitempty"`
	// The tenant's share relative to other tenants of the same parent: a positive number,
	// as text.
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,6})?$`
	Weight string `json:"weight,omitempty"`
	// Its jobs may be stopped for others before they have shown that they can save their
	// work, unless they say otherwise.
	// +optional
	Preemptible bool `json:"preemptible,omitempty"`
	// Its jobs may ask never to be stopped for others.
	// +optional
	NonPreemptible bool `json:"nonPreemptible,omitempty"`
	// The highest priority that its jobs may ask for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxPriority int32 `json:"maxPriority,omitempty"`
	// The PriorityClasses that the pods of its jobs may name, and the priority each
	// stands for. A job that names another is refused; none: classes do not matter to
	// Fairway.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	PriorityClasses []PriorityClass `json:"priorityClasses,omitempty"`
	// How long its jobs may run if they do not say; none: as long as it takes.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	TimeLimit *metav1.Duration `json:"timeLimit,omitempty"`
	// The longest time limit that its jobs may ask for; it is the default too if
	// timeLimit is not set.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	MaxTimeLimit *metav1.Duration `json:"maxTimeLimit,omitempty"`
}

// PriorityClass is the priority that a PriorityClass stands for.
type PriorityClass struct {
	// The name of the PriorityClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The priority of jobs whose pods name it and that have none of their own.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
}

// TenantStatus is the observed state of a tenant.
type TenantStatus struct {
	// +optional
	GPUs int32 `json:"gpus,omitempty"`
	// GPUs that tenants below it hold.
	// +optional
	GPUsBelow int32 `json:"gpusBelow,omitempty"`
	// What it has of its parent's quota, in words.
	// +optional
	Standing string `json:"standing,omitempty"`
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// What was measured, as numbers.
	// +optional
	Metrics TenantMetrics `json:"metrics,omitzero"`
	// metrics.fairShare as text.
	// +optional
	FairShare string `json:"fairShare,omitempty"`
	// metrics.rho as text: a column of "kubectl get".
	// +optional
	Rho string `json:"rho,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TenantMetrics are measurements, to three digits. What is not known is left out.
type TenantMetrics struct {
	// The GPUs it would hold if all tenants with jobs shared the cluster by weight.
	// +optional
	FairShare float64 `json:"fairShare,omitempty"`
	// The largest finish-time fairness (rho) of its jobs.
	// +optional
	Rho float64 `json:"rho,omitempty"`
}

// SchedulingPolicy selects the policy that schedules the cluster. There is one, named
// cluster.
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

// SchedulingPolicySpec names the policy.
type SchedulingPolicySpec struct {
	// The policy with its knobs and layers, as "fairway policies" lists them, such as
	// tiresias, pollux:interval=30s or fifo@defrag@reserve@screen.
	// +kubebuilder:default=fairway
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Policy string `json:"policy"`
}

// SchedulingPolicyStatus is the observed state of the policy.
type SchedulingPolicyStatus struct {
	// The policy in force. It differs from spec.policy while that one is not accepted.
	// +optional
	InForce string `json:"inForce,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JournalPage is a part of the operator's journal, in the operator's own namespace.
// Pages of records are numbered without gaps and never changed, so if two operators
// believe they lead, only one can write the next page. Users do not need them. Deleting
// them makes Fairway forget what jobs have used and measured.
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

	// records; snapshot: everything up to a record; or part: a piece of a page that is
	// too large for one object.
	// +kubebuilder:validation:Enum=records;snapshot;part
	Holds string `json:"holds"`
	// The number of its first record; for a snapshot, of the last record it includes.
	// +kubebuilder:validation:Minimum=0
	First int64 `json:"first"`
	// The number of its records.
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// The operator that wrote it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Leader string `json:"leader,omitempty"`
	// The names of its parts, in order, if it has any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=253
	Parts []string `json:"parts,omitempty"`
	// The compressed content; empty if it has parts.
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
