// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// trainJobKind is the kind of Kubeflow's training jobs.
var trainJobKind = schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: kindTrainJob}

// jobSetLabel names the JobSet of a pod. A TrainJob and its JobSet have the same name.
const jobSetLabel = "jobset.sigs.k8s.io/jobset-name"

// trainJob is the part of Kubeflow's TrainJob that Fairway reads.
type trainJob struct {
	Spec struct {
		Suspend bool `json:"suspend"`
		Trainer struct {
			Image            string                      `json:"image"`
			Command          []string                    `json:"command"`
			Args             []string                    `json:"args"`
			NumNodes         *int32                      `json:"numNodes"`
			ResourcesPerNode corev1.ResourceRequirements `json:"resourcesPerNode"`
		} `json:"trainer"`
		PodSpecOverrides     []podOverride `json:"podSpecOverrides"`
		PodTemplateOverrides []podOverride `json:"podTemplateOverrides"` // replaces podSpecOverrides in later versions
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// podOverride says where some pods of a TrainJob may run. Fairway does not read the
// template of the runtime, which may say more.
type podOverride struct {
	TargetJobs []struct {
		Name string `json:"name"`
	} `json:"targetJobs"`
	where
	Spec where `json:"spec"` // of podTemplateOverrides
}

type where struct {
	NodeSelector map[string]string   `json:"nodeSelector"`
	Affinity     *corev1.Affinity    `json:"affinity"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
}

// trainerPods is the name that runtimes give to the pods that train.
const trainerPods = "node"

// pod returns where the training pods may run. A later override replaces an earlier
// one.
func (j *trainJob) pod() *corev1.PodSpec {
	var pod corev1.PodSpec
	for _, o := range slices.Concat(j.Spec.PodSpecOverrides, j.Spec.PodTemplateOverrides) {
		for _, target := range o.TargetJobs {
			if target.Name != trainerPods {
				continue
			}
			for _, w := range []where{o.where, o.Spec} {
				if w.NodeSelector != nil {
					pod.NodeSelector = w.NodeSelector
				}
				if w.Affinity != nil {
					pod.Affinity = w.Affinity
				}
				if w.Tolerations != nil {
					pod.Tolerations = w.Tolerations
				}
			}
		}
	}
	return &pod
}

func trainJobWorkload(u *unstructured.Unstructured) *externalWorkload {
	var job trainJob
	err := bounded(u)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &job)
	}
	p := &externalWorkload{Object: u, suspended: job.Spec.Suspend, selects: podsWith(jobSetLabel, u.GetName()), pod: job.pod()}
	if job.Spec.Trainer.NumNodes != nil {
		p.pods = int(*job.Spec.Trainer.NumNodes)
	}
	// The TrainJob owns a JobSet, which owns Jobs, which own the pods; all names begin
	// with the TrainJob's.
	p.owns = ownedByJobOf(u.GetName())
	p.submission = func() (api.Submission, error) {
		if err != nil {
			return api.Submission{}, &refusal{"Invalid", fmt.Sprintf("cannot be read: %v", err)}
		}
		return submissionOfTrainJob(u, &job)
	}
	for _, c := range job.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			p.note(c.Type, c.Reason+": "+c.Message)
		}
	}
	return p
}

// bounded checks the quantities of a TrainJob, because its schema, which is not
// Fairway's, does not bound them.
func bounded(u *unstructured.Unstructured) error {
	for _, part := range []string{"limits", "requests"} {
		list, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "trainer", "resourcesPerNode", part)
		if err != nil {
			return err
		}
		amounts, _ := list.(map[string]any)
		for name, v := range amounts {
			if text, ok := v.(string); ok && !v1alpha1.Quantity.MatchString(text) {
				return fmt.Errorf("spec.trainer.resourcesPerNode.%s.%s is %.40q; use at most 15 digits and a unit", part, name, text)
			}
		}
	}
	return nil
}

// submissionOfTrainJob returns what a TrainJob asks for. Fairway does not see what its
// runtime would fill in, so the TrainJob must state its nodes and GPUs itself.
func submissionOfTrainJob(o client.Object, job *trainJob) (api.Submission, error) {
	trainer := &job.Spec.Trainer
	pod := corev1.PodSpec{Containers: []corev1.Container{{Image: trainer.Image, Command: trainer.Command, Args: trainer.Args, Resources: trainer.ResourcesPerNode}}}
	gpus, name := podGPUs(&pod)
	bad := func(format string, args ...any) error { return &refusal{"Invalid", fmt.Sprintf(format, args...)} }
	switch {
	case !job.Spec.Suspend:
		return api.Submission{}, bad("spec.suspend is not true: its pods were created before Fairway could place them; create it with suspend: true")
	case trainer.NumNodes == nil || *trainer.NumNodes < 1:
		return api.Submission{}, bad("spec.trainer.numNodes is missing; set it to the number of pods of the gang")
	case gpus < 1 || gpus > 64:
		return api.Submission{}, bad("spec.trainer.resourcesPerNode requests %d GPUs (%s); use 1 to 64", gpus, name)
	case int64(*trainer.NumNodes)*gpus > 65536:
		return api.Submission{}, bad("spec.trainer.numNodes is %d; use at most 65536 GPUs in total", *trainer.NumNodes)
	}
	return gangOf(o, kindTrainJob, int64(*trainer.NumNodes), &pod)
}
