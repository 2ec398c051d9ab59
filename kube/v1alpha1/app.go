// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// App is a group of training jobs with one goal: fairness is between apps. With a
// search in it, Fairway creates the jobs itself, one for each trial, and stops
// those early that are not worth going on with.
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

// AppSpec says what an app is. A training job joins it by spec.app.
//
// +kubebuilder:validation:XValidation:rule="has(self.search) == has(oldSelf.search) && (!has(self.search) || self.search == oldSelf.search)",message="a search cannot be changed; delete the app and create another"
type AppSpec struct {
	// A search for hyper-parameters; none: the app is only a name that jobs share.
	// +optional
	Search *Search `json:"search,omitempty"`
	// Take all its jobs off their GPUs until this is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Search is a search for hyper-parameters.
type Search struct {
	// What each parameter may be, by name. {name} in the command, the arguments and the
	// environment of the trial's pods stands for its value, which is in the variable
	// FAIRWAY_PARAM_NAME too.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Parameters map[string]Parameter `json:"parameters"`
	// How the next trial is chosen.
	// +optional
	// +kubebuilder:default=random
	// +kubebuilder:validation:Enum=random;grid;tpe
	Method string `json:"method,omitempty"`
	// What trials are compared by, as their agents report it.
	// +optional
	// +kubebuilder:default=loss
	// +kubebuilder:validation:MaxLength=63
	Metric string `json:"metric,omitempty"`
	// Whether less or more of it is better.
	// +optional
	// +kubebuilder:default=minimise
	// +kubebuilder:validation:Enum=minimise;maximise
	Goal string `json:"goal,omitempty"`
	// When a trial is not worth going on with.
	// +optional
	Stopping *StopRule `json:"stopping,omitempty"`
	// The number of trials; 0: all of a grid.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Trials int32 `json:"trials,omitempty"`
	// The trials that run or wait at a time.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	AtOnce int32 `json:"atOnce,omitempty"`
	// The same seed and results give the same trials.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Seed int64 `json:"seed,omitempty"`
	// What each trial runs.
	Trial TrainingJobSpec `json:"trial"`
}

// Parameter is what a hyper-parameter may be: a range, or a list of values.
//
// +kubebuilder:validation:XValidation:rule="has(self.values) != (has(self.min) && has(self.max))",message="a parameter has either values, or min and max"
type Parameter struct {
	// A number, as text, such as "0.001".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$`
	Min *string `json:"min,omitempty"`
	// A number, as text.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$`
	Max *string `json:"max,omitempty"`
	// Search in the logarithm.
	// +optional
	Log bool `json:"log,omitempty"`
	// Whole numbers only.
	// +optional
	Int bool `json:"int,omitempty"`
	// Values of the range that a grid tries.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Steps int32 `json:"steps,omitempty"`
	// The values there are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Values []string `json:"values,omitempty"`
}

// StopRule says when a trial is not worth going on with. Min and max count work in
// the unit that the job reports.
type StopRule struct {
	// +kubebuilder:validation:Enum=none;median;halving;hyperband;asha;pop
	Rule string `json:"rule"`
	// None is stopped before; the first rung.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Min int64 `json:"min,omitempty"`
	// The work of a whole trial.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Max int64 `json:"max,omitempty"`
	// One trial of so many goes on at a rung.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	Eta int32 `json:"eta,omitempty"`
	// A value of the metric that is good enough: a number, as text.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?$`
	Target *string `json:"target,omitempty"`
}

// AppStatus is what has become of an app.
type AppStatus struct {
	// running, paused, finished, failed or killed; of an app without a search, running
	// while it has jobs.
	// +optional
	State string `json:"state,omitempty"`
	// The name by which the fairway command knows the app.
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// +optional
	Ended int32 `json:"ended,omitempty"`
	// The largest finish-time fairness of its jobs.
	// +optional
	Rho string `json:"rho,omitempty"`
	// The best trial so far, with its parameters.
	// +optional
	Best string `json:"best,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
