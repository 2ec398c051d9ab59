// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// The kinds of objects that jobs are made from, as spelled in api.Task.Origin.
const (
	kindTrainingJob = "TrainingJob"
	kindApp         = "App"
	kindJob         = "Job"
	kindTrainJob    = "TrainJob"
)

// origin is the name of an object in the state.
func origin(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// appOf puts the namespace into the name of an app, so that namespaces cannot mix.
func appOf(namespace, app string) sched.AppID {
	if app == "" {
		return ""
	}
	return sched.AppID(namespace + "." + app)
}

// submissionOf returns what a training job asks for. The tenant is not filled in.
func submissionOf(job *v1alpha1.TrainingJob) (api.Submission, error) {
	s, err := submissionOfSpec(&job.Spec, "spec")
	if err != nil {
		return s, err
	}
	s.Name = job.Name
	s.App = appOf(job.Namespace, job.Spec.App)
	s.Origin = origin(kindTrainingJob, job.Namespace, job.Name)
	s.Graph = job.Annotations[v1alpha1.AnnotationGraph]
	s.Recipe = job.Annotations[v1alpha1.AnnotationRecipe]
	s.MovedFrom = job.Annotations[v1alpha1.AnnotationMovedFrom]
	if text := job.Annotations[v1alpha1.AnnotationPredicted]; text != "" {
		s.Predicted = &api.PredictedUse{}
		if err := json.Unmarshal([]byte(text), s.Predicted); err != nil {
			return s, &refusal{"Invalid", "metadata.annotations[" + v1alpha1.AnnotationPredicted + "]: " + err.Error()}
		}
	}
	s.Key = string(job.UID)
	return s, nil
}

// submissionOfSpec converts the part of a spec that does not depend on the object
// around it. Errors name fields relative to field, the path of the spec in that object.
func submissionOfSpec(spec *v1alpha1.TrainingJobSpec, field string) (api.Submission, error) {
	templates := spec.Templates()
	for i, t := range templates {
		at := field
		if t != &spec.Template {
			at += fmt.Sprintf(".roles[%d]", i)
		}
		if t.Problem != "" {
			return api.Submission{}, &refusal{"Invalid", at + "." + t.Problem}
		}
		if f := v1alpha1.UnsupportedField(&t.Spec, true); f != nil {
			return api.Submission{}, &refusal{"Unsupported", fmt.Sprintf("%s.template.spec.%s must be left out: %s", at, f.Path, f.Note)}
		}
	}
	if err := sameNodes(spec, field); err != nil {
		return api.Submission{}, err
	}
	var s api.Submission
	from := reflect.ValueOf(spec).Elem()
	if err := errors.Join(copyFields(reflect.ValueOf(&s.Spec).Elem(), from), copyFields(reflect.ValueOf(&s.Task).Elem(), from)); err != nil {
		return s, &refusal{"Invalid", field + "." + err.Error()}
	}
	s.App, s.Tenant, s.TaskGPUs = "", "", int(perPod(spec)) // app and tenant depend on the namespace
	if sh := spec.Share; sh != nil {
		s.Shareable, s.MilliGPU = sh.Allow, int32(intOf(sh.MilliGPU))
		s.GPUUtil = float64(intOf(sh.Utilisation)) / 100
	}
	if spec.Screen != nil {
		s.Screen = api.ScreenOff
		if spec.Screen.Duration > 0 {
			s.Screen = sched.Duration(spec.Screen.Duration).String()
		}
	}
	fromTemplate(&s, gangPod(spec), int64(perPod(spec)))
	if p := spec.Plans; p != nil && len(p.List) > 0 && spec.GPUs == 1 && spec.MinGPUs == nil {
		s.GPUs = 0 // as a job that does not say it: the sizes of the plans
	}
	for i := range spec.Roles {
		s.GPUs = 0 // it follows from the roles
		s.Roles[i].Command = commandOf(&templates[i].Spec)
	}
	return s, nil
}

// fromTemplate copies from the pod template what the scheduler and people need: CPUs
// and memory per GPU, and the image and command of the first container.
func fromTemplate(s *api.Submission, pod *corev1.PodSpec, gpus int64) {
	s.CPUs, s.Memory = perGPU(pod, gpus)
	if len(pod.Containers) == 0 {
		return
	}
	s.Image, s.Dir = pod.Containers[0].Image, pod.Containers[0].WorkingDir
	s.Command = commandOf(pod)
}

// commandOf returns the command of a pod's first container, for people.
func commandOf(pod *corev1.PodSpec) (out []string) {
	if len(pod.Containers) > 0 {
		for _, arg := range slices.Concat(pod.Containers[0].Command, pod.Containers[0].Args) {
			out = append(out, unescape(arg))
		}
	}
	if len(out) == 0 || out[0] == "" {
		return []string{"(the image's own command)"}
	}
	return out
}

// perGPU returns the CPUs, rounded up, and the bytes of memory that a pod requests for
// each of its GPUs. A limit without a request counts as a request.
func perGPU(pod *corev1.PodSpec, gpus int64) (cpus int, memory int64) {
	milli, bytes := request.Peak(pod, corev1.ResourceCPU), request.Peak(pod, corev1.ResourceMemory)
	gpus = max(1, gpus)
	return int(roundUp(milli, 1000*gpus)), roundUp(bytes, gpus)
}

func roundUp(a, b int64) int64 {
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

// perPod returns the GPUs of one pod.
func perPod(spec *v1alpha1.TrainingJobSpec) int32 {
	if spec.GPUsPerPod == nil {
		return 1
	}
	return max(1, *spec.GPUsPerPod)
}

func intOf(p *int32) int {
	if p == nil {
		return 0
	}
	return int(*p)
}

// searchOf returns the search of an app.
func searchOf(app *v1alpha1.App) (api.SearchSpec, error) {
	search := app.Spec.Search
	if search.Trial.TTLSecondsAfterFinished != nil {
		return api.SearchSpec{}, &refusal{"Unsupported", "spec.search.trial.ttlSecondsAfterFinished must be left out: trials have no objects of their own; delete the App"}
	}
	s := api.SearchSpec{
		ID: searchID(app), Method: search.Method, Key: string(app.UID),
		Metric: api.Metric{Name: search.Metric, Goal: search.Goal},
		Trials: int(search.Trials), AtOnce: int(search.AtOnce), Seed: uint64(search.Seed),
		Parameters: make(map[string]api.Parameter, len(search.Parameters)),
	}
	if r := search.Stopping; r != nil {
		s.Stopping = api.StopRule{Rule: r.Rule, Min: float64(r.Min), Max: float64(r.Max), Eta: float64(r.Eta)}
		if err := number(r.Target, &s.Stopping.Target, "spec.search.stopping.target"); err != nil {
			return s, err
		}
	}
	for name, p := range search.Parameters {
		to := api.Parameter{Log: p.Log, Int: p.Int, Steps: int(p.Steps), Values: p.Values}
		field := "spec.search.parameters." + name
		if err := number(p.Min, &to.Min, field+".min"); err != nil {
			return s, err
		}
		if err := number(p.Max, &to.Max, field+".max"); err != nil {
			return s, err
		}
		s.Parameters[name] = to
	}
	trial, err := submissionOfSpec(&search.Trial, "spec.search.trial")
	if err != nil {
		return s, err
	}
	trial.Name = app.Name
	trial.Origin = origin(kindApp, app.Namespace, app.Name)
	s.Trial = trial
	return s, nil
}

// number parses an optional number.
func number(text *string, to **float64, field string) error {
	if text == nil {
		return nil
	}
	v, err := strconv.ParseFloat(*text, 64)
	if err != nil {
		return api.Errorf(api.Invalid, "is %.40q", *text).On(field).Try("use a number")
	}
	*to = &v
	return nil
}

// searchID is the name of an app's search in the state. The state never reuses the name
// of a search, but a new app may reuse the name of a deleted one, so the name contains
// a part of the object's UID.
func searchID(app *v1alpha1.App) sched.AppID {
	uid := string(app.UID)
	return appOf(app.Namespace, app.Name+"-"+uid[:min(8, len(uid))])
}
