// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// App is a group of training jobs with one goal. Fairness is measured between apps. If
// the app has a search, Fairway creates the jobs, one for each trial, and stops weak
// trials early.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=all
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 34",message="metadata.name has more than 34 letters: the names of its pods would be too long"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Ended",type=integer,JSONPath=`.status.ended`
// +kubebuilder:printcolumn:name="Rho",type=string,JSONPath=`.status.rho`
// +kubebuilder:printcolumn:name="Best",type=string,JSONPath=`.status.best`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec AppSpec `json:"spec,omitempty"`
	// Only the operator writes it.
	// +optional
	Status AppStatus `json:"status,omitempty"`
}

// AppList is a list of apps.
//
// +kubebuilder:object:root=true
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []App `json:"items"`
}

// AppSpec describes an app. A training job joins it with spec.app.
//
// +kubebuilder:validation:XValidation:rule="has(self.search) == has(oldSelf.search) && (!has(self.search) || self.search == oldSelf.search)",message="a search cannot be changed; delete the app and create another"
type AppSpec struct {
	// A hyper-parameter search. Without one, the app only groups jobs.
	// +optional
	Search *Search `json:"search,omitempty"`
	// Pause all its jobs, and free their GPUs, until this is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Search is a hyper-parameter search.
type Search struct {
	// The parameters and their possible values, by name. In the command, the arguments
	// and the environment of the trial's pods, {name} is replaced by the value. The
	// variable FAIRWAY_PARAM_NAME has it, too.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Parameters map[string]Parameter `json:"parameters"`
	// How the parameters of the next trial are chosen.
	// +optional
	// +kubebuilder:default=random
	// +kubebuilder:validation:Enum=random;grid;tpe
	Method string `json:"method,omitempty"`
	// The metric that trials are compared by, as their agents report it.
	// +optional
	// +kubebuilder:default=loss
	// +kubebuilder:validation:MaxLength=63
	Metric string `json:"metric,omitempty"`
	// Whether a smaller or a larger metric is better.
	// +optional
	// +kubebuilder:default=minimise
	// +kubebuilder:validation:Enum=minimise;maximise
	Goal string `json:"goal,omitempty"`
	// The rule that stops weak trials early.
	// +optional
	Stopping *StopRule `json:"stopping,omitempty"`
	// The number of trials; 0: the whole grid.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Trials int32 `json:"trials,omitempty"`
	// How many trials run or wait at a time.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	AtOnce int32 `json:"atOnce,omitempty"`
	// The seed of the random choices. The same seed and the same results give the same
	// trials.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Seed int64 `json:"seed,omitempty"`
	// The training job of each trial.
	Trial TrainingJobSpec `json:"trial"`
}

// Parameter defines the values of a hyper-parameter: a range, or a list.
//
// +kubebuilder:validation:XValidation:rule="has(self.values) != (has(self.min) && has(self.max))",message="a parameter has either values, or min and max"
type Parameter struct {
	// The lower end of the range: a number, as text, such as "0.001".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$`
	Min *string `json:"min,omitempty"`
	// The upper end of the range: a number, as text.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$`
	Max *string `json:"max,omitempty"`
	// Sample the range on a logarithmic scale.
	// +optional
	Log bool `json:"log,omitempty"`
	// Whole numbers only.
	// +optional
	Int bool `json:"int,omitempty"`
	// How many values of the range a grid tries.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Steps int32 `json:"steps,omitempty"`
	// The list of values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Values []string `json:"values,omitempty"`
}

// StopRule decides when to stop a weak trial. Min and max count work in the unit that
// the job reports.
type StopRule struct {
	// +kubebuilder:validation:Enum=none;median;halving;hyperband;asha;pop
	Rule string `json:"rule"`
	// The work before which no trial is stopped; the first rung.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Min int64 `json:"min,omitempty"`
	// The work of a complete trial.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Max int64 `json:"max,omitempty"`
	// One in eta trials continues at each rung.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	Eta int32 `json:"eta,omitempty"`
	// A value of the metric that is good enough to end the search: a number, as text.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$`
	Target *string `json:"target,omitempty"`
}

// AppStatus is the observed state of an app.
type AppStatus struct {
	// Running, Paused, Finished, Failed or Killed (cancelled). An app without a search
	// is Running while it has active jobs.
	// +optional
	Phase string `json:"phase,omitempty"`
	// The phase in small letters, for clients from before there was a phase.
	// +optional
	State string `json:"state,omitempty"`
	// The ID of the app in the fairway command.
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// +optional
	Ended int32 `json:"ended,omitempty"`
	// What was measured, as numbers.
	// +optional
	Metrics AppMetrics `json:"metrics,omitzero"`
	// metrics.rho as text: a column of "kubectl get".
	// +optional
	Rho string `json:"rho,omitempty"`
	// The best trial so far.
	// +optional
	BestTrial *BestTrial `json:"bestTrial,omitempty"`
	// The best trial as text: a column of "kubectl get".
	// +optional
	Best string `json:"best,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AppMetrics are measurements, to three digits. What is not known is left out.
type AppMetrics struct {
	// The largest finish-time fairness (rho) of its jobs.
	// +optional
	Rho float64 `json:"rho,omitempty"`
}

// BestTrial is a trial with its result.
type BestTrial struct {
	// The number of the trial.
	Number int32 `json:"number"`
	// The metric that the trials are compared by.
	// +optional
	Value *float64 `json:"value,omitempty"`
	// The values of its parameters, by name.
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}
