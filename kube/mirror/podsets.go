// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// JobSets and RayClusters consist of several sets of pods, each with a template of its
// own. The pods that request GPUs are the gang, and all must request the same number; a
// driver or a head without GPUs goes where the first of them is.

const (
	kindJobSet     = "JobSet"
	kindRayCluster = "RayCluster"
)

var (
	jobSetKind     = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: kindJobSet}
	rayClusterKind = schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: kindRayCluster}
)

// rayClusterLabel names the RayCluster of a pod.
const rayClusterLabel = "ray.io/cluster"

// podSet is a number of pods of one template.
type podSet struct {
	field    string // of the template, in the object
	count    int64
	template v1alpha1.PodTemplate
}

// jobSet is the part of a JobSet that Fairway reads.
type jobSet struct {
	Spec struct {
		Suspend        bool `json:"suspend"`
		ReplicatedJobs []struct {
			Name     string `json:"name"`
			Replicas *int32 `json:"replicas"`
			Template struct {
				Spec struct {
					Parallelism *int32               `json:"parallelism"`
					Template    v1alpha1.PodTemplate `json:"template"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"replicatedJobs"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func jobSetWorkload(u *unstructured.Unstructured) *externalWorkload {
	var set jobSet
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set)
	var sets []podSet
	for _, j := range set.Spec.ReplicatedJobs {
		sets = append(sets, podSet{
			"spec.replicatedJobs[" + j.Name + "].template.spec.template",
			int64(orOne(j.Replicas)) * int64(orOne(j.Template.Spec.Parallelism)), j.Template.Spec.Template,
		})
	}
	p := workloadOfSets(u, set.Spec.Suspend, sets, err)
	p.selects = podsWith(jobSetLabel, u.GetName())
	p.owns = ownedByJobOf(u.GetName())
	for _, c := range set.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			p.note(strings.Replace(c.Type, "Completed", "Complete", 1), c.Reason+": "+c.Message)
		}
	}
	return p
}

// rayCluster is the part of KubeRay's RayCluster that Fairway reads. It does not end:
// it holds its GPUs until somebody deletes it.
type rayCluster struct {
	Spec struct {
		Suspend                 bool `json:"suspend"`
		EnableInTreeAutoscaling bool `json:"enableInTreeAutoscaling"`
		HeadGroupSpec           struct {
			Template v1alpha1.PodTemplate `json:"template"`
		} `json:"headGroupSpec"`
		WorkerGroupSpecs []struct {
			GroupName  string               `json:"groupName"`
			Replicas   int32                `json:"replicas"`
			NumOfHosts *int32               `json:"numOfHosts"`
			Template   v1alpha1.PodTemplate `json:"template"`
		} `json:"workerGroupSpecs"`
	} `json:"spec"`
}

func rayClusterWorkload(u *unstructured.Unstructured) *externalWorkload {
	var ray rayCluster
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &ray)
	sets := []podSet{{"spec.headGroupSpec.template", 1, ray.Spec.HeadGroupSpec.Template}}
	for _, g := range ray.Spec.WorkerGroupSpecs {
		sets = append(sets, podSet{"spec.workerGroupSpecs[" + g.GroupName + "].template", int64(g.Replicas) * int64(orOne(g.NumOfHosts)), g.Template})
	}
	if err == nil && ray.Spec.EnableInTreeAutoscaling {
		err = fmt.Errorf("spec.enableInTreeAutoscaling is true; leave it out: a gang keeps its size")
	}
	p := workloadOfSets(u, ray.Spec.Suspend, sets, err)
	p.selects = podsWith(rayClusterLabel, u.GetName())
	p.owns = func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, u) }
	return p
}

func orOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// ownedByJobOf returns whether a pod belongs to a Job of a JobSet: the names of its Jobs
// begin with its own.
func ownedByJobOf(set string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.Name, set+"-")
	}
}

// workloadOfSets returns the external workload that some sets of pods are, if the object
// could be read.
func workloadOfSets(u *unstructured.Unstructured, suspended bool, sets []podSet, err error) *externalWorkload {
	p := &externalWorkload{Object: u, suspended: suspended}
	for i := range sets {
		if gpus, _ := podGPUs(&sets[i].template.Spec); gpus > 0 && sets[i].count > 0 {
			p.pods += int(min(sets[i].count, 1<<20))
			if p.pod == nil {
				p.pod = &sets[i].template.Spec
			}
		}
	}
	p.submission = func() (api.Submission, error) {
		if err != nil {
			return api.Submission{}, &refusal{"Invalid", fmt.Sprintf("cannot be read: %v", err)}
		}
		return submissionOfSets(u, suspended, sets)
	}
	return p
}

// submissionOfSets returns what some sets of pods ask for together.
func submissionOfSets(u *unstructured.Unstructured, suspended bool, sets []podSet) (api.Submission, error) {
	bad := func(format string, args ...any) error { return &refusal{"Invalid", fmt.Sprintf(format, args...)} }
	if !suspended {
		return api.Submission{}, bad("spec.suspend is not true: its pods were created before Fairway could place them; create it with suspend: true")
	}
	var first *podSet
	gpus, total := int64(0), int64(0)
	for i := range sets {
		s := &sets[i]
		if s.template.Problem != "" {
			return api.Submission{}, bad("%s%s", s.field, strings.TrimPrefix(s.template.Problem, "template"))
		}
		n, name := podGPUs(&s.template.Spec)
		pod := &s.template.Spec
		switch {
		case n == 0 || s.count == 0:
			continue
		case n > 64:
			return api.Submission{}, bad("%s requests %d GPUs (%s) per pod; use 1 to 64", s.field, n, name)
		case pod.SchedulerName != v1alpha1.SchedulerName:
			return api.Submission{}, bad("%s.spec.schedulerName is %q; use %q, or another scheduler places its pods", s.field, pod.SchedulerName, v1alpha1.SchedulerName)
		case pod.NodeName != "":
			return api.Submission{}, bad("%s.spec.nodeName is %q; leave it out: Fairway chooses the nodes", s.field, pod.NodeName)
		case s.count < 0 || s.count > 65536:
			return api.Submission{}, bad("%s has %d pods; use 0 to 65536", s.field, s.count)
		case first == nil:
			first, gpus = s, n
		case n != gpus:
			return api.Submission{}, bad("the pods of %s and %s request %d and %d GPUs (%s); the pods of a gang must request the same, or none", first.field, s.field, gpus, n, name)
		}
		total += s.count
	}
	switch {
	case first == nil:
		return api.Submission{}, bad("none of its pods requests a GPU; leave it to kube-scheduler, without the label %s", v1alpha1.LabelManaged)
	case total*gpus > 65536:
		return api.Submission{}, bad("its %d pods request %d GPUs each; use at most 65536 in total", total, gpus)
	}
	return gangOf(u, u.GetKind(), total, &first.template.Spec)
}
