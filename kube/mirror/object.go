// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// objectOf returns the training job for a request to Fairway's own API, which takes the
// same job file as on one machine. The caller fills in namespace and name.
func objectOf(s *api.Submission, image string) (*v1alpha1.TrainingJob, error) {
	spec, err := specOf(s, image)
	if err != nil {
		return nil, err
	}
	job := &v1alpha1.TrainingJob{Spec: spec}
	predicted := ""
	if s.Predicted != nil {
		text, err := json.Marshal(s.Predicted)
		if err != nil {
			return nil, err
		}
		predicted = string(text)
	}
	for name, text := range map[string]string{v1alpha1.AnnotationGraph: s.Graph, v1alpha1.AnnotationRecipe: s.Recipe, v1alpha1.AnnotationPredicted: predicted} {
		if text != "" {
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, name, text)
		}
	}
	return job, nil
}

func specOf(s *api.Submission, image string) (v1alpha1.TrainingJobSpec, error) {
	gpus := s.GPUs
	if gpus == 0 {
		gpus = max(1, s.MinGPUs)
	}
	pod := max(1, s.TaskGPUs)
	if s.Single {
		if s.MaxGPUs > s.MinGPUs {
			return v1alpha1.TrainingJobSpec{}, api.Errorf(api.Invalid, "is set, and the job is elastic").On("single").Try("leave one of them out: the size of a pod cannot change")
		}
		pod = gpus
	}
	var spec v1alpha1.TrainingJobSpec
	to := reflect.ValueOf(&spec).Elem()
	if err := errors.Join(copyFields(to, reflect.ValueOf(s.Spec)), copyFields(to, reflect.ValueOf(s.Task))); err != nil {
		return spec, err
	}
	spec.GPUs = clip(gpus)
	if s.MaxGPUs == 0 {
		spec.MinGPUs = nil // it means nothing without max_gpus
	}
	if pod > 1 {
		spec.GPUsPerPod = some(pod)
	}
	templateOf := func(task *api.Task) v1alpha1.PodTemplate {
		of := *s
		of.Task = *task
		t := v1alpha1.TemplateOf(corev1.PodSpec{Containers: []corev1.Container{containerOf(&of, pod, image)}})
		if s.Selector != "" {
			t.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: s.Selector}
		}
		return t
	}
	for i := range s.Roles {
		task := s.Play(i)
		spec.Roles[i].Template = templateOf(&task)
	}
	if len(s.Roles) == 0 {
		spec.Template = templateOf(&s.Task)
	}
	if s.Shareable || s.MilliGPU > 0 || s.GPUUtil > 0 {
		spec.Share = &v1alpha1.Share{Allow: s.Shareable}
		if s.MilliGPU > 0 {
			spec.Share.MilliGPU = some(int(s.MilliGPU))
		}
		if util := int(math.Ceil(s.GPUUtil * 100)); util > 0 {
			spec.Share.Utilisation = some(util)
		}
	}
	screen, asked, err := s.ScreenTime()
	if asked && err == nil {
		spec.Screen = &metav1.Duration{Duration: screen.D().Round(time.Millisecond)}
	}
	return spec, err
}

// containerName is the name of the container of a job that was submitted to Fairway's API.
const containerName = "train"

// containerOf returns the container of each pod.
func containerOf(s *api.Submission, gpus int, image string) corev1.Container {
	if s.Image != "" {
		image = s.Image
	}
	c := corev1.Container{Name: containerName, Image: image, WorkingDir: s.Dir}
	for _, arg := range s.Command {
		c.Command = append(c.Command, literal(arg))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: literal(s.Env[name])})
	}
	want := corev1.ResourceList{}
	if s.CPUs > 0 {
		want[corev1.ResourceCPU] = *resource.NewQuantity(times(int64(s.CPUs), int64(gpus)), resource.DecimalSI)
	}
	if s.Memory > 0 {
		want[corev1.ResourceMemory] = *resource.NewQuantity(times(s.Memory, int64(gpus)), resource.BinarySI)
	}
	if len(want) > 0 {
		c.Resources.Requests = want
	}
	return c
}

// literal escapes a text for a pod spec, where $(NAME) is replaced by a variable and $$
// by $.
func literal(text string) string {
	if strings.Contains(text, "$(") || strings.Contains(text, "$$") {
		return strings.ReplaceAll(text, "$", "$$")
	}
	return text
}

// unescape undoes literal.
func unescape(text string) string { return strings.ReplaceAll(text, "$$", "$") }

// times multiplies, and saturates instead of overflowing.
func times(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// clip bounds a number to what a field can hold. The API server rejects one that is too
// large.
func clip(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) }

func some(n int) *int32 {
	v := clip(n)
	return &v
}

// fieldOf translates the name of a field in a job file into its path in the object.
func fieldOf(err *api.Error) string {
	if err.Field == "" || strings.HasPrefix(err.Field, "spec.") {
		return err.Field
	}
	byHand := map[string]string{
		"min_gpus, max_gpus": "minGPUs, spec.maxGPUs", "task_gpus": "gpusPerPod", "milli_gpu": "share.milliGPU", "gpu_util": "share.utilisation",
		"command": "template.spec.containers[0].command", "dir": "template.spec.containers[0].workingDir",
		"cpus, memory, gpu_memory": "template.spec.containers[*].resources or spec.gpuMemory",
	}
	if role, field, found := strings.Cut(err.Field, "]."); found && strings.HasPrefix(role, "roles[") {
		if field == "max_gpus" {
			field = "maxGPUs"
		}
		return "spec." + role + "]." + cmp.Or(byHand[field], field)
	}
	name := byHand[err.Field]
	for _, t := range []reflect.Type{reflect.TypeFor[sched.Spec](), reflect.TypeFor[api.Task]()} {
		for f := range t.Fields() {
			if jsonName(t, f.Name) == err.Field {
				name = cmp.Or(name, jsonName(reflect.TypeFor[v1alpha1.TrainingJobSpec](), f.Name))
			}
		}
	}
	if name == "" {
		return err.Field
	}
	return "spec." + name
}

// refusalText prints a refusal: the field, its value, and what would be right.
func refusalText(err *api.Error) string {
	text := err.Message
	switch field := fieldOf(err); {
	case field == "policy": // the message is a complete sentence
		text = "spec.policy: " + text
	case field != "":
		text = fmt.Sprintf("%s %s", field, text)
	}
	if err.Remedy != "" {
		text += "; " + err.Remedy
	}
	return text
}
