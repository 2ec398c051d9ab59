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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

const (
	kindTrainingJob = "trainingjob"
	kindJob         = "job"
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
	kind   string
	seed   uint64
	runFor time.Duration // 0: forever
	gang   gang          // the shape of every job; zero: the mix
	rules  []v1alpha1.TopologyRule

	scheduler      string            // of pods of Jobs; empty: Fairway's
	labels         map[string]string // of Jobs
	podLabels      map[string]string
	podAnnotations map[string]string
	suspend        bool
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
func (in input) object(i int, g gang) client.Object {
	if in.kind == kindTrainingJob {
		return in.trainingJob(i, g)
	}
	return in.batchJob(i, g)
}

func (in input) template(i int, g gang) corev1.PodTemplateSpec {
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
	fill := strings.NewReplacer("{job}", jobName(i), "{pods}", strconv.Itoa(g.pods))
	for k, v := range in.podLabels {
		t.Labels[k] = fill.Replace(v)
	}
	for k, v := range in.podAnnotations {
		t.Annotations[k] = fill.Replace(v)
	}
	return t
}

func (in input) trainingJob(i int, g gang) client.Object {
	per := int32(g.gpus)
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: jobName(i)},
		Spec:       v1alpha1.TrainingJobSpec{GPUs: int32(g.pods * g.gpus), GPUsPerPod: &per, Topology: in.rules, Template: v1alpha1.PodTemplate{PodTemplateSpec: in.template(i, g)}},
	}
}

func (in input) batchJob(i int, g gang) client.Object {
	pods, no := int32(g.pods), int32(0)
	t := in.template(i, g)
	t.Spec.RestartPolicy, t.Spec.SchedulerName = corev1.RestartPolicyNever, v1alpha1.SchedulerName
	t.Spec.Containers[0].Resources.Limits = corev1.ResourceList{kubetest.GPU: *resource.NewQuantity(int64(g.gpus), resource.DecimalSI)}
	labels, suspend := map[string]string{v1alpha1.LabelManaged: "true"}, true
	if in.scheduler != "" {
		t.Spec.SchedulerName, labels, suspend = in.scheduler, in.labels, in.suspend
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: jobName(i), Labels: labels},
		Spec:       batchv1.JobSpec{Parallelism: &pods, Completions: &pods, BackoffLimit: &no, Suspend: &suspend, Template: t},
	}
}
