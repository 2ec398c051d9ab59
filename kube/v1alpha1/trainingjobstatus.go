// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrainingJobStatus is the observed state of a training job.
type TrainingJobStatus struct {
	// Waiting, Starting, Running, Paused, Stopping, Finished, Failed, Killed (cancelled),
	// or Refused: Fairway did not accept the job, for the reason in why.
	// +optional
	Phase string `json:"phase,omitempty"`
	// The phase in small letters, for clients from before there was a phase.
	// +optional
	State string `json:"state,omitempty"`
	// The GPUs that the job holds; none: 0.
	// +optional
	GPUs int32 `json:"gpus,omitempty"`
	// The GPUs that the job holds, and those that it asks for, such as 4/1-8: a column of
	// "kubectl get".
	// +optional
	Size string `json:"size,omitempty"`
	// What was measured, as numbers.
	// +optional
	Metrics TrainingJobMetrics `json:"metrics,omitzero"`
	// How its GPUs are divided among its roles, such as trainer 1, rollout 3 (1 to 6).
	// +optional
	Roles string `json:"roles,omitempty"`
	// The execution plan of its last attempt, if it has several. "fairway explain" says how
	// fast others would be.
	// +optional
	Plan string `json:"plan,omitempty"`
	// metrics.goodput as text: a column of "kubectl get".
	// +optional
	Goodput string `json:"goodput,omitempty"`
	// metrics.rho as text: a column of "kubectl get".
	// +optional
	Rho string `json:"rho,omitempty"`
	// Why the job does not run, or how it ended.
	// +optional
	Why string `json:"why,omitempty"`
	// Why, in 40 letters at most: a column of "kubectl get".
	// +optional
	Brief string `json:"brief,omitempty"`
	// When the job is expected to start.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// The nodes that it runs on, with the GPUs it holds there.
	// +optional
	Nodes string `json:"nodes,omitempty"`
	// The tenant whose quota it uses.
	// +optional
	Tenant string `json:"tenant,omitempty"`
	// The ID of the job in the fairway command.
	// +optional
	ID string `json:"id,omitempty"`
	// The number of its current or last attempt.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// How often it was preempted.
	// +optional
	Preemptions int32 `json:"preemptions,omitempty"`
	// How many of its attempts failed.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Accepted, Running, and Finished or Failed, with reasons that a user can act on.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TrainingJobMetrics are measurements, to three digits. What is not known is left out.
type TrainingJobMetrics struct {
	// Throughput times statistical efficiency, as its agent last measured it: examples
	// per second, counted as at the initial batch size.
	// +optional
	Goodput float64 `json:"goodput,omitempty"`
	// Finish-time fairness: the job's completion time here, over its time alone on its
	// fair share. At most 1: sharing cost it nothing.
	// +optional
	Rho float64 `json:"rho,omitempty"`
}

// Refused is the state of a training job that was not accepted.
const Refused = "refused"

// The conditions of a training job.
const (
	// Accepted is true when Fairway has accepted the job. If false, it says what is
	// wrong.
	Accepted = "Accepted"
	// Running is true while its pods run. If false, it says why the job waits.
	Running = "Running"
	// Finished is true when the job has succeeded.
	Finished = "Finished"
	// Failed is true when the job has failed or was cancelled, and says why.
	Failed = "Failed"
	// Sharing, on a job that allows it and on the scheduling policy, is true if jobs
	// can share GPUs on some nodes. If false, it says why not.
	Sharing = "Sharing"
)
