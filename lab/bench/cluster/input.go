// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

const (
	kindTrainingJob = "trainingjob"
	kindJob         = "job"   // batch/v1
	kindVolcanoJob  = "vcjob" // batch.volcano.sh/v1alpha1
)

// gang is the shape of a job.
type gang struct{ pods, gpus int } // GPUs of each pod

// deck is the mix of jobs: 50 of them have 100 pods and 161 GPUs. Most are small,
// and most GPUs are in the few that are large, as in the traces of real clusters.
var deck = []struct {
	gang
	count int
}{
	{gang{1, 1}, 27}, {gang{2, 1}, 9}, {gang{4, 1}, 5}, {gang{1, 8}, 3}, {gang{4, 2}, 3}, {gang{2, 8}, 2}, {gang{16, 1}, 1},
}

// teams is how many namespaces the jobs come from.
const teams = 4

// input describes the objects that are submitted.
type input struct {
	seed   uint64
	runFor time.Duration // 0: forever
	gang   gang          // the shape of every job; zero: the mix
	rules  []v1alpha1.TopologyRule
}

// gangs returns the shapes of n jobs, in their order.
func (in input) gangs(n int) []gang {
	if in.gang.pods > 0 {
		return slices.Repeat([]gang{in.gang}, n)
	}
	random := rand.New(rand.NewPCG(in.seed, 1))
	var out []gang
	for len(out) < n {
		var hand []gang
		for _, card := range deck {
			for range card.count {
				hand = append(hand, card.gang)
			}
		}
		random.Shuffle(len(hand), func(i, k int) { hand[i], hand[k] = hand[k], hand[i] })
		out = append(out, hand...)
	}
	return out[:n]
}

// namespace returns the namespace of a job by its number.
func namespace(i int) string { return fmt.Sprintf("team-%d", i%teams) }

func jobName(i int) string { return fmt.Sprintf("job-%05d", i) }

// numberOf is the reverse of jobName.
func numberOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "job-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil
}

// object returns the object to be created for a job.
func (c contender) object(in input, i int, g gang) client.Object {
	switch {
	case c.kind == kindTrainingJob:
		return in.trainingJob(i, g)
	case c.scheduler != schedulerFairway:
		return peers[c.scheduler].object(in, i, g)
	}
	job := in.batchJob(i, g)
	job.Labels = map[string]string{v1alpha1.LabelManaged: "true"}
	job.Spec.Suspend, job.Spec.Template.Spec.SchedulerName = ptr.To(true), v1alpha1.SchedulerName
	return job
}

func (in input) template(g gang) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "train", Image: "none", Command: []string{"train", "--epochs", "100"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(int64(4*g.gpus), resource.DecimalSI),
			}},
		}}},
	}
	if in.runFor > 0 {
		t.Annotations[kubetest.RunFor] = in.runFor.String()
	}
	return t
}

func (in input) trainingJob(i int, g gang) client.Object {
	per := int32(g.gpus)
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: jobName(i)},
		Spec:       v1alpha1.TrainingJobSpec{GPUs: int32(g.pods * g.gpus), GPUsPerPod: &per, Topology: in.rules, Template: v1alpha1.PodTemplate{PodTemplateSpec: in.template(g)}},
	}
}

// complete is the template of a pod that Fairway does not complete.
func (in input) complete(g gang) corev1.PodTemplateSpec {
	t := in.template(g)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	t.Spec.Containers[0].Resources.Limits = corev1.ResourceList{kubetest.GPU: *resource.NewQuantity(int64(g.gpus), resource.DecimalSI)}
	return t
}

func (in input) batchJob(i int, g gang) *batchv1.Job {
	pods := int32(g.pods)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: jobName(i)},
		Spec:       batchv1.JobSpec{Parallelism: &pods, Completions: &pods, BackoffLimit: ptr.To[int32](0), Template: in.complete(g)},
	}
}
