// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SchedulerName is the scheduler of the pods that Fairway binds.
const SchedulerName = "fairway"

// Labels of the pods of a gang. Pods that others make, such as those of batch Jobs, get
// LabelID and LabelAttempt as annotations when they are bound.
const (
	LabelJob     = "fairway.dev/job"     // name of the TrainingJob
	LabelID      = "fairway.dev/id"      // by which the fairway command knows the job
	LabelAttempt = "fairway.dev/attempt" // number of the start, from 1
	LabelRank    = "fairway.dev/rank"    // of the pod in the gang, from 0
	// LabelManaged, on a batch Job or a TrainJob, gives it to Fairway to schedule: its
	// value is the tenant, or "true" for the only one of the namespace.
	LabelManaged = "fairway.dev/managed"
)

// LabelPool, on a node, names a pool that it belongs to.
const LabelPool = "fairway.dev/pool"

// Annotations of the pods of a gang.
const (
	AnnotationGPUs = "fairway.dev/gpus" // indexes of the node's GPUs that were chosen, such as 0-3; the device plugin may choose others
)

// Annotations of training jobs.
const (
	// AnnotationUser says who submitted a job through Fairway's own API. It is for
	// people: whoever may create the object may write what they like.
	AnnotationUser = "fairway.dev/user"
	// AnnotationKey is the key by which a request to that API is known if it is sent
	// twice.
	AnnotationKey = "fairway.dev/key"
	// AnnotationWhy, on a batch Job that was given to Fairway, says how it is.
	AnnotationWhy = "fairway.dev/why"
	// AnnotationGraph names the file that use and memory were predicted from.
	AnnotationGraph = "fairway.dev/graph"
)
