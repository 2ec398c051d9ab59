// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SchedulerName is the schedulerName of the pods that Fairway binds.
const SchedulerName = "fairway"

// Labels of the pods of a gang. Pods of external workloads, such as batch Jobs, get
// LabelID and LabelAttempt as annotations when they are bound.
const (
	LabelJob     = "fairway.dev/job"     // name of the TrainingJob
	LabelID      = "fairway.dev/id"      // ID of the job in the fairway command
	LabelAttempt = "fairway.dev/attempt" // number of the attempt, from 1
	LabelRank    = "fairway.dev/rank"    // of the pod in the gang, from 0
	LabelRole    = "fairway.dev/role"    // of the pod, in a job with roles
	// LabelManaged, on a batch Job, TrainJob or PodGroup, makes Fairway schedule it.
	// Its value is the tenant, or "true" for the only tenant of the namespace.
	LabelManaged = "fairway.dev/managed"
)

// LabelPool, on a node, names a pool that it belongs to.
const LabelPool = "fairway.dev/pool"

// Annotations of the pods of a gang.
const (
	AnnotationGPUs = "fairway.dev/gpus" // indexes of the GPUs that Fairway chose on the node, such as 0-3; the device plugin may choose others
)

// Annotations of training jobs.
const (
	// AnnotationUser says who submitted a job through Fairway's own API. It is
	// informative only: anybody who can create the object can write anything here.
	AnnotationUser = "fairway.dev/user"
	// AnnotationKey is the idempotency key of the request to that API.
	AnnotationKey = "fairway.dev/key"
	// AnnotationMovedFrom, on a copy of a job of another cluster, names that job. The copy
	// is paused until that job was handed over.
	AnnotationMovedFrom = "fairway.dev/moved-from"
	// AnnotationWhy, on an external workload that Fairway schedules, says what state it
	// is in and why.
	AnnotationWhy = "fairway.dev/why"
	// AnnotationPreemptible, on a batch Job or a TrainJob that was given to Fairway, is
	// the field preemptible of a training job: true or false.
	AnnotationPreemptible = "fairway.dev/preemptible"
	// AnnotationGraph names the file from which utilisation and memory were predicted.
	AnnotationGraph = "fairway.dev/graph"
	// AnnotationRecipe says how the model is trained, for that prediction.
	AnnotationRecipe = "fairway.dev/recipe"
	// AnnotationPredicted holds the distribution that was predicted, as JSON.
	AnnotationPredicted = "fairway.dev/predicted"
)
