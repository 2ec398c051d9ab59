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
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.why`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.status.tenant`,priority=1
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.app`,priority=1
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",message="metadata.name has more than 50 letters: the names of its pods would be too long"
type TrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to run and what it needs.
	Spec TrainingJobSpec `json:"spec"`
	// What has become of it. Only the operator writes it.
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
// afterwards.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxGPUs) || has(self.minGPUs)",message="maxGPUs needs minGPUs: together they make the job elastic"
// +kubebuilder:validation:XValidation:rule="!has(self.minGPUs) || (has(self.maxGPUs) && self.minGPUs <= self.maxGPUs)",message="minGPUs must be at most maxGPUs"
// +kubebuilder:validation:XValidation:rule="!has(self.minGPUs) || !has(self.maxGPUs) || (self.gpus >= self.minGPUs && self.gpus <= self.maxGPUs)",message="gpus must lie between minGPUs and maxGPUs"
// +kubebuilder:validation:XValidation:rule="self.gpus % (has(self.gpusPerPod) && self.gpusPerPod > 0 ? self.gpusPerPod : 1) == 0",message="gpus must be a multiple of gpusPerPod"
// +kubebuilder:validation:XValidation:rule="!has(self.sizes) || has(self.maxGPUs)",message="sizes need minGPUs and maxGPUs"
// +kubebuilder:validation:XValidation:rule="!has(self.sizes) || self.gpus in self.sizes",message="gpus must be one of sizes"
// +kubebuilder:validation:XValidation:rule="!has(self.sizes) || self.sizes.isSorted()",message="sizes must be in ascending order"
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && size(self.template.spec.containers) >= 1",message="template.spec.containers must name at least one container"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || !has(self.template.spec.nodeName)",message="template.spec.nodeName must be left out: Fairway chooses the nodes; use nodeSelector or affinity"
type TrainingJobSpec struct {
	// The number of GPUs of the gang: all of them at once, or none. Of an elastic
	// job, the number a person would have guessed, which policies that do not resize
	// give it.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	GPUs int32 `json:"gpus"`
	// The fewest GPUs an elastic job can run on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MinGPUs *int32 `json:"minGPUs,omitempty"`
	// The most GPUs an elastic job can run on. It is resized through a checkpoint:
	// asked to save its work, stopped, and started again at the new size.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MaxGPUs *int32 `json:"maxGPUs,omitempty"`
	// The sizes that are of use to an elastic job, ascending, such as 1, 2, 4, 8; none:
	// every multiple of gpusPerPod in its range.
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
	// Acceptable types of GPU, best first, as the nodes' labels name them in lower
	// case, such as h200 or a100; none: any. A gang never mixes types.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	GPUTypes []string `json:"gpuTypes,omitempty"`
	// The memory that the job needs on each GPU. Nodes whose GPUs have less are left
	// out, and jobs share a GPU only if both fit.
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`
	// The resource that a pod asks for to get a GPU.
	// +optional
	// +kubebuilder:default="nvidia.com/gpu"
	// +kubebuilder:validation:MaxLength=63
	GPUResource string `json:"gpuResource,omitempty"`
	// How far apart its GPUs may be: slot (one NVLink island), machine, rack or
	// cross-rack (the default).
	// +optional
	// +kubebuilder:validation:Enum=slot;machine;rack;cross-rack
	MaxSpread string `json:"widest,omitempty"`

	// The batch sizes that co-adaptation may choose; none: the batch stays as it is.
	// +optional
	Batch *Batch `json:"batch,omitempty"`
	// Let the policy put the job on GPUs that others use too, where the predicted
	// slowdown is small and the cluster can share GPUs.
	// +optional
	Share *Share `json:"share,omitempty"`

	// The app the job belongs to: jobs with one goal, such as the trials of a search.
	// Fairness is between apps. Default: an app of its own.
	// +optional
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`
	App string `json:"app,omitempty"`
	// The tenant whose quota the job uses. It must be one that its namespace belongs
	// to; default: the only one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Tenant string `json:"tenant,omitempty"`
	// Larger goes first, where the policy looks at it.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
	// Never stop the job for others.
	// +optional
	NonPreemptible bool `json:"nonPreemptible,omitempty"`
	// The run time that is expected at gpus; it helps policies and forecasts, and may be
	// wrong.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	Estimate *metav1.Duration `json:"estimate,omitempty"`
	// The time between the request to save its work and the kill; it is the grace period
	// of the pods. Default: that of the cluster.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	GracePeriod *metav1.Duration `json:"notice,omitempty"`
	// How often to try again after an error of the job. What retrying cannot fix is not
	// tried again; what the cluster lost does not count.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Retries int32 `json:"retries,omitempty"`
	// Which failures are tried again: those that trying again can mend (adaptive, the
	// default), all (always), or none (never).
	// +optional
	// +kubebuilder:validation:Enum=adaptive;always;never
	Retry string `json:"retry,omitempty"`
	// How long to run on one pod first, where new jobs are screened; 0s: not at all.
	// Default: that of the cluster, and 0s for jobs like ones that have worked.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	Screen *metav1.Duration `json:"screen,omitempty"`
	// Take the job off its GPUs, and keep it off, until this is false again. It may save
	// its work first.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// What the job trains, for people and for the experience with past jobs.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// The work of the whole job in its own unit, such as steps or epochs: a number, as
	// text. Default: as its agent says.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]{1,15}(\.[0-9]{1,9})?$`
	Work string `json:"work,omitempty"`
	// The model loses speed when its GPUs are spread over nodes, and the policy may know
	// better than to spread it.
	// +optional
	Consolidate bool `json:"consolidate,omitempty"`

	// The pods of the gang, all alike. Fairway adds the number of GPUs, the node and
	// the environment that torchrun would set; fields that say where a pod may run
	// (nodeSelector, node affinity, tolerations) are respected.
	// +structType=atomic
	Template PodTemplate `json:"template"`
}

// Batch bounds what co-adaptation may do to the batch size.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.initial) || self.max >= self.initial",message="max must be at least initial"
type Batch struct {
	// The batch size, of all GPUs together, that the learning rate is meant for.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Initial int32 `json:"initial,omitempty"`
	// The largest batch size of all GPUs together.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Max int32 `json:"max,omitempty"`
	// The smallest batch size of one GPU.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LocalMin int32 `json:"localMin,omitempty"`
	// The largest batch size of one GPU, which its memory bounds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LocalMax int32 `json:"localMax,omitempty"`
	// Opt in: the batch size and the learning rate may change during training.
	// +optional
	Adapt bool `json:"adapt,omitempty"`
}

// Share allows sharing GPUs.
type Share struct {
	// Other jobs may be on the same GPUs.
	Allow bool `json:"allow"`
	// The utilisation of a GPU, in percent, that the job has alone, as "fairway predict"
	// prints it; unknown: it does not share.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Utilisation *int32 `json:"utilisation,omitempty"`
	// How much of each GPU it needs, in thousandths. Default: all of it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MilliGPU *int32 `json:"milliGPU,omitempty"`
}

// TrainingJobStatus is what has become of a training job.
type TrainingJobStatus struct {
	// waiting, starting, running, paused, stopping, finished, killed or failed; refused
	// if Fairway did not take the job on, with the reason in why.
	// +optional
	State string `json:"state,omitempty"`
	// GPUs held and asked for, such as 4/1-8.
	// +optional
	Size string `json:"size,omitempty"`
	// Useful work each second, as its agent last measured, in samples that count as much
	// as those at the initial batch size.
	// +optional
	Goodput string `json:"goodput,omitempty"`
	// Finish-time fairness: the time it takes here over the time it would take with its
	// fair share. 1 is fair, more is late.
	// +optional
	Rho string `json:"rho,omitempty"`
	// Why it does not run, or how it ended.
	// +optional
	Why string `json:"why,omitempty"`
	// When it is expected to start.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// The nodes that host it, with their GPUs.
	// +optional
	Nodes string `json:"nodes,omitempty"`
	// The tenant whose quota it uses.
	// +optional
	Tenant string `json:"tenant,omitempty"`
	// The name by which the fairway command knows the job.
	// +optional
	ID string `json:"id,omitempty"`
	// The number of its present or last start.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// How often the scheduler stopped it to wait.
	// +optional
	Preemptions int32 `json:"preemptions,omitempty"`
	// Attempts that ended with an error.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Accepted, Running, and Finished or Failed, with reasons a person can act on.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Refused is the state of a training job that was not taken on.
const Refused = "refused"

// The conditions of a training job.
const (
	// Accepted is true once Fairway has taken the job on; false says what is wrong
	// with it.
	Accepted = "Accepted"
	// Running is true while its pods are up; false says why it waits.
	Running = "Running"
	// Finished is true when it has ended as it should.
	Finished = "Finished"
	// Failed is true when it has ended otherwise, and says why.
	Failed = "Failed"
	// Sharing, of a job that allows it and of the scheduling policy, is true where
	// some nodes let jobs share GPUs; false says why not.
	Sharing = "Sharing"
)
