// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrainingJob is a gang of pods that train one model together. Fairway decides
// when it runs, on which nodes and, if it is elastic, on how many GPUs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tj,categories=all
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="GPUs",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Goodput",type=string,JSONPath=`.status.goodput`
// +kubebuilder:printcolumn:name="Rho",type=string,JSONPath=`.status.rho`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.brief`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.status.tenant`,priority=1
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.app`,priority=1
// +kubebuilder:printcolumn:name="Roles",type=string,JSONPath=`.status.roles`,priority=1
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.plan`,priority=1
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes`,priority=1
// +kubebuilder:printcolumn:name="Details",type=string,JSONPath=`.status.why`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",message="metadata.name has more than 50 letters: the names of its pods would be too long"
type TrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to run and what it needs.
	Spec TrainingJobSpec `json:"spec"`
	// The observed state. Only the operator writes it.
	// +optional
	Status TrainingJobStatus `json:"status,omitempty"`
}

// TrainingJobList is a list of training jobs.
//
// +kubebuilder:object:root=true
type TrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainingJob `json:"items"`
}

// TrainingJobSpec says what to run and what it needs. Only suspend can be changed
// later.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxGPUs) || has(self.minGPUs)",message="maxGPUs needs minGPUs: together they make the job elastic"
// +kubebuilder:validation:XValidation:rule="!has(self.minGPUs) || (has(self.maxGPUs) && self.minGPUs <= self.maxGPUs)",message="minGPUs must be at most maxGPUs"
// +kubebuilder:validation:XValidation:rule="!has(self.minGPUs) || !has(self.maxGPUs) || (self.gpus >= self.minGPUs && self.gpus <= self.maxGPUs)",message="gpus must lie between minGPUs and maxGPUs"
// +kubebuilder:validation:XValidation:rule="self.gpus % (has(self.gpusPerPod) && self.gpusPerPod > 0 ? self.gpusPerPod : 1) == 0",message="gpus must be a multiple of gpusPerPod"
// +kubebuilder:validation:XValidation:rule="!has(self.sizes) || has(self.maxGPUs)",message="sizes need minGPUs and maxGPUs"
// +kubebuilder:validation:XValidation:rule="!has(self.sizes) || self.gpus in self.sizes",message="gpus must be one of sizes"
// +kubebuilder:validation:XValidation:rule="!has(self.sizes) || self.sizes.isSorted()",message="sizes must be in ascending order"
// +kubebuilder:validation:XValidation:rule="!has(self.preemptible) || !self.preemptible || !has(self.nonPreemptible) || !self.nonPreemptible",message="preemptible and nonPreemptible contradict each other"
// +kubebuilder:validation:XValidation:rule="has(self.template) || (has(self.roles) && self.roles.all(r, has(r.template)))",message="template is missing: it, or every role, says what the pods are"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || (has(self.template.spec) && size(self.template.spec.containers) >= 1)",message="template.spec.containers must name at least one container"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || (self.gpus == 1 && !has(self.minGPUs) && !has(self.maxGPUs) && !has(self.sizes))",message="gpus, minGPUs, maxGPUs and sizes must be left out: the size of the job is the sum of its roles'"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.gpusPerPod) || self.gpusPerPod == 1",message="gpusPerPod must be left out: each pod of a role has one GPU"
// +kubebuilder:validation:XValidation:rule="!has(self.plans) || !has(self.roles)",message="plans must be left out beside roles: plans are for one program on all GPUs"
// +kubebuilder:validation:XValidation:rule="!has(self.plans) || ((!has(self.batch) || !has(self.batch.adapt) || !self.batch.adapt) && !has(self.share))",message="batch.adapt and share must be left out beside plans: these are for whole GPUs and the batch size of plans.model"
type TrainingJobSpec struct {
	// The GPUs of the gang, which are allocated all at once or not at all. For an
	// elastic job, the size that it gets under policies that do not resize jobs. It is
	// left out if there are roles: then it is the sum of theirs.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	GPUs int32 `json:"gpus"`
	// The minimum number of GPUs of an elastic job.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MinGPUs *int32 `json:"minGPUs,omitempty"`
	// The maximum number of GPUs of an elastic job. To resize a job, Fairway asks it to
	// save a checkpoint, stops it, and starts it again at the new size.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MaxGPUs *int32 `json:"maxGPUs,omitempty"`
	// The sizes that an elastic job can use, in ascending order, such as 1, 2, 4, 8.
	// Default: every multiple of gpusPerPod from minGPUs to maxGPUs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65536
	Sizes []int32 `json:"sizes,omitempty"`
	// The GPUs of one pod. The gang has gpus / gpusPerPod pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	GPUsPerPod *int32 `json:"gpusPerPod,omitempty"`
	// The acceptable GPU types, best first, as the labels of the nodes name them, in
	// lower case, such as h200 or a100. Default: any. A gang never mixes types.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	GPUTypes []string `json:"gpuTypes,omitempty"`
	// The memory that the job needs on each GPU. It runs only on GPUs with at least that
	// much, and shares a GPU only with jobs that fit beside it.
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`
	// The resource name under which pods request GPUs.
	// +optional
	// +kubebuilder:default="nvidia.com/gpu"
	// +kubebuilder:validation:MaxLength=63
	GPUResource string `json:"gpuResource,omitempty"`
	// How far apart its GPUs may be: slot (one NVLink island), machine, rack or
	// cross-rack (the default).
	// +optional
	// +kubebuilder:validation:Enum=slot;machine;rack;cross-rack
	MaxSpread string `json:"widest,omitempty"`
	// Where in the cluster's topology its GPUs are: all of them, or every segment of them,
	// in one domain of a level. All rules hold.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Topology []TopologyRule `json:"topology,omitempty"`

	// The batch sizes that co-adaptation may choose. Default: the batch size stays as
	// it is.
	// +optional
	Batch *Batch `json:"batch,omitempty"`
	// Sharing of GPUs with other jobs, if the cluster can share GPUs and the policy
	// predicts a small slowdown.
	// +optional
	Share *Share `json:"share,omitempty"`

	// The app that the job belongs to: jobs with one goal, such as the trials of a
	// search. Fairness is measured between apps. Default: an app of its own.
	// +optional
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`
	App string `json:"app,omitempty"`
	// The training jobs of this namespace that have to finish before the job queues for
	// GPUs, by name; NAME:any if any end of it will do. One that does not exist yet is
	// waited for. If one can no longer finish, the job is cancelled.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=204
	DependsOn []string `json:"dependsOn,omitempty"`
	// The tenant whose quota the job uses. The tenant must list the job's namespace.
	// Default: the only tenant that does.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Tenant string `json:"tenant,omitempty"`
	// The priority; a larger one goes first, if the policy uses priorities.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
	// Never preempt the job. Its tenant must allow it.
	// +optional
	NonPreemptible bool `json:"nonPreemptible,omitempty"`
	// Whether the job may be stopped for others. Default: once its agent has reported
	// that it saves its work when asked, unless the tenant has another default. true:
	// from the start; false: never, like nonPreemptible.
	// +optional
	Preemptible *bool `json:"preemptible,omitempty"`
	// How long the job may run, all its attempts together. Then it is asked to save its
	// work, and fails. Default: that of the tenant.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	TimeLimit *metav1.Duration `json:"timeLimit,omitempty"`
	// The expected run time on the number of GPUs in gpus. Policies and forecasts use
	// it; it may be wrong.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	Estimate *metav1.Duration `json:"estimate,omitempty"`
	// The grace period of the pods: the time between the request to stop (SIGTERM),
	// when the job may save a checkpoint, and SIGKILL. Default: the cluster's.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	GracePeriod *metav1.Duration `json:"notice,omitempty"`
	// How often the job is retried after it failed. Failures that a retry cannot fix
	// are not retried. Failures of the infrastructure do not count.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Retries int32 `json:"retries,omitempty"`
	// Which failures are retried: those that a retry may fix (adaptive, the default),
	// all (always), or none (never).
	// +optional
	// +kubebuilder:validation:Enum=adaptive;always;never
	Retry string `json:"retry,omitempty"`
	// How long the job is screened on one pod first, if the policy screens new jobs;
	// 0s: not at all. Default: the cluster's, and 0s if a similar job has run well.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	Screen *metav1.Duration `json:"screen,omitempty"`
	// Pause the job, and free its GPUs, until this is false again. The job may save a
	// checkpoint first.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// When the job has ended, delete it this many seconds later, with its pods and their
	// logs; 0: at once. Default: it stays until somebody deletes it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// The name of the model. It is shown to users, and identifies past jobs of the same
	// kind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// The total work of the job in its own unit, such as steps or epochs: a number, as
	// text. Default: as its agent reports.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]{1,15}(\.[0-9]{1,9})?$`
	Work string `json:"work,omitempty"`
	// The model slows down when its GPUs are spread over several nodes, so policies
	// avoid spreading it.
	// +optional
	Consolidate bool `json:"consolidate,omitempty"`

	// The execution plans that a large model can be trained under. Each start is under the
	// fastest for its GPUs, which its pods find in FAIRWAY_PLAN. With a list and neither
	// minGPUs nor another number of gpus than 1, the job has the sizes of the listed plans.
	// +optional
	Plans *Plans `json:"plans,omitempty"`
	// The parts of the gang, each with its own pods and size, such as a trainer and rollout
	// workers. All start together at their smallest sizes or not at all, and one of them may
	// be elastic. The first leads: the job has finished when all its pods have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(s, s.name == r.name))",message="each role needs its own name"
	// +kubebuilder:validation:XValidation:rule="self.filter(r, has(r.maxGPUs) && r.maxGPUs > r.gpus).size() <= 1",message="only one role can be elastic; leave out maxGPUs of the others"
	Roles []JobRole `json:"roles,omitempty"`

	// The template of the gang's pods, which are identical, or of those of its roles that
	// have none. Fairway adds the number of GPUs, the node, and the environment that
	// torchrun would set. It respects nodeSelector, node affinity and tolerations.
	// +optional
	// +structType=atomic
	Template PodTemplate `json:"template,omitzero"`
}

// Plans are the execution plans of a large model.
//
// +kubebuilder:validation:XValidation:rule="has(self.list) || has(self.generate)",message="list names of plans such as fsdp4, or kinds of plans to generate such as fsdp"
type Plans struct {
	// The shape of the transformer and the batch it is trained with, from which speed and
	// memory are predicted.
	Model PlanModel `json:"model"`
	// Kinds of plans to make for every size of the job: fsdp, zero, zero-offload, tp, pp, or
	// with a bound such as tp<=8; accumulate and recompute where memory is short. Those that
	// do not fit in memory are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Generate []string `json:"generate,omitempty"`
	// Names of plans, such as dp4, fsdp2-tp2 or fsdp4+recompute. Whether they fit in memory
	// is not checked.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	List []string `json:"list,omitempty"`
}

// PlanModel is the shape of a transformer.
type PlanModel struct {
	// Parameters: a number, as text, such as 6.7e9.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]{1,16}(\.[0-9]{1,9})?([eE]\+?[0-9]{1,2})?$`
	Parameters string `json:"parameters"`
	// Layers.
	// +kubebuilder:validation:Minimum=1
	Layers int32 `json:"layers"`
	// Hidden size.
	// +kubebuilder:validation:Minimum=1
	Hidden int32 `json:"hidden"`
	// Attention heads.
	// +kubebuilder:validation:Minimum=1
	Heads int32 `json:"heads"`
	// Tokens of an example.
	// +kubebuilder:validation:Minimum=1
	Sequence int32 `json:"sequence"`
	// Words.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Vocabulary int32 `json:"vocabulary,omitempty"`
	// Examples of a step, on all GPUs together.
	// +kubebuilder:validation:Minimum=1
	Batch int32 `json:"batch"`
	// The matrix of attention is kept in memory, as by code without flash attention.
	// +optional
	Explicit bool `json:"explicitAttention,omitempty"`
}

// JobRole is a part of a gang.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxGPUs) || self.maxGPUs >= self.gpus",message="maxGPUs must be at least gpus"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || (has(self.template.spec) && size(self.template.spec.containers) >= 1)",message="template.spec.containers must name at least one container"
type JobRole struct {
	// Small letters, digits and dashes.
	// +kubebuilder:validation:MaxLength=31
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`
	// The GPUs of the role, with a pod for each.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	GPUs int32 `json:"gpus"`
	// The maximum number of GPUs, if the role is elastic. To resize the job, Fairway asks it
	// to save a checkpoint, stops it, and starts it again with more or fewer pods of the
	// role.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MaxGPUs *int32 `json:"maxGPUs,omitempty"`
	// The template of the role's pods. Default: that of the job. The pods of all roles
	// must be content with the same nodes.
	// +optional
	// +structType=atomic
	Template PodTemplate `json:"template,omitzero"`
}

// TopologyRule asks for one domain of a level. The levels are slot, machine, rack and
// those that the operator's configuration names (nodes.levels), such as zone.
//
// +kubebuilder:validation:XValidation:rule="has(self.required) != has(self.preferred)",message="one of required and preferred names the level"
// +kubebuilder:validation:XValidation:rule="!(has(self.required) && self.required == 'slot' && has(self.segment)) && !(has(self.preferred) && self.preferred == 'slot')",message="slot can only be required, and only of the whole gang"
type TopologyRule struct {
	// How many GPUs, counted by rank, are in one domain: a multiple of gpusPerPod.
	// Default: the whole gang.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	Segment int32 `json:"segment,omitempty"`
	// The level, without which the job does not start.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Required string `json:"required,omitempty"`
	// The level, as far as there is room; else the next wider one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Preferred string `json:"preferred,omitempty"`
}

// Batch bounds the batch sizes that co-adaptation may choose.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.initial) || self.max >= self.initial",message="max must be at least initial"
type Batch struct {
	// The total batch size, over all GPUs, for which the learning rate was chosen.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Initial int32 `json:"initial,omitempty"`
	// The largest total batch size, over all GPUs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Max int32 `json:"max,omitempty"`
	// The smallest batch size per GPU.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LocalMin int32 `json:"localMin,omitempty"`
	// The largest batch size per GPU, which its memory limits.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LocalMax int32 `json:"localMax,omitempty"`
	// Allow changes of the batch size and the learning rate during training.
	// +optional
	Adapt bool `json:"adapt,omitempty"`
}

// Share says whether and how a job shares GPUs.
type Share struct {
	// Allow other jobs on the same GPUs.
	Allow bool `json:"allow"`
	// The GPU utilisation of the job when it runs alone, in percent, as "fairway
	// predict" prints it. Without it, the job does not share.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Utilisation *int32 `json:"utilisation,omitempty"`
	// The part of each GPU that the job needs, in thousandths. Default: the whole GPU.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MilliGPU *int32 `json:"milliGPU,omitempty"`
}
