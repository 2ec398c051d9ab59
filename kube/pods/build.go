// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
)

// seat is the placement of one rank's pod.
type seat struct {
	node  int32
	gpus  sched.GPUSet
	milli int32
}

// seatsOf returns the seats of an attempt's pods, by rank: one for each task, in
// the order of the placement, unless its roles have another.
func seatsOf(a *api.Attempt) []seat {
	all := placesOf(a)
	at, err := a.Task.Positions(len(all))
	if err != nil {
		return all // it will not start
	}
	out := make([]seat, len(all))
	for rank, p := range at {
		out[rank] = all[p.Seat]
	}
	return out
}

// placesOf returns the places of an attempt, in the order of the placement.
func placesOf(a *api.Attempt) []seat {
	task := max(1, a.Spec.TaskGPUs)
	var out []seat
	for _, s := range a.Placement {
		for left := s.GPUs; left != 0; {
			g := left.Lowest(task)
			out = append(out, seat{s.Node, g, s.Milli})
			left &^= g
		}
	}
	return out
}

func podName(name string, number, rank int) string {
	return fmt.Sprintf("%s-%d-%d", name, number, rank)
}

// plan is everything needed to create the pods of an attempt.
type plan struct {
	attempt *api.Attempt
	from    workload.Pod
	seats   []seat
	at      []api.Position // by rank
	nodes   []string       // by rank
	asks    []claim        // of each pod of a role, as its template says
	devices []int64        // by rank
	offers  []offer        // by rank
	service string         // at which the pods of a gang meet
}

// keepNode asks those who add and remove nodes to leave the node of a pod alone.
var keepNode = map[string]string{
	"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
	"karpenter.sh/do-not-disrupt":                    "true",
}

// pod returns the pod of a rank.
func (c *Config) pod(p *plan, rank int) *corev1.Pod {
	t := p.from.Templates[p.at[rank].Role].DeepCopy()
	a, s := p.attempt, p.seats[rank]
	owner := p.from.Owner
	yes := true
	owner.Controller = &yes
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: p.from.Namespace, Name: podName(p.from.Name, a.Number, rank),
		Labels: merged(t.Labels, map[string]string{
			v1alpha1.LabelJob: p.from.Name, v1alpha1.LabelID: string(a.Job),
			v1alpha1.LabelAttempt: strconv.Itoa(a.Number), v1alpha1.LabelRank: strconv.Itoa(rank),
		}),
		Annotations:     merged(t.Annotations, map[string]string{v1alpha1.AnnotationGPUs: s.gpus.String(), annotationPods: strconv.Itoa(leading(a, len(p.seats)))}),
		OwnerReferences: []metav1.OwnerReference{owner},
	}
	if len(a.Task.Roles) > 0 {
		pod.Labels[v1alpha1.LabelRole] = a.Task.Roles[p.at[rank].Role].Name
	}
	if a.Pinned {
		pod.Annotations = merged(keepNode, pod.Annotations)
	}
	if s.milli < sched.WholeGPU {
		pod.Annotations[annotationMilli] = strconv.Itoa(int(s.milli))
	}
	spec := &pod.Spec
	spec.SchedulerName, spec.NodeName = v1alpha1.SchedulerName, ""
	spec.RestartPolicy = corev1.RestartPolicyNever
	grace := int64(math.Ceil(c.notice(a).Seconds()))
	spec.TerminationGracePeriodSeconds = &grace
	if c.Rendezvous == ByDNS && len(p.seats) > 1 {
		spec.Hostname, spec.Subdomain = pod.Name, p.service
	}
	for _, key := range append([]string{string(p.offers[rank].resource)}, c.Tolerated...) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	trains := c.giveDevices(spec, &p.from, p.offers[rank].resource, p.devices[rank])
	c.giveToken(spec)
	env := c.environment(p, rank)
	for i := range spec.Containers {
		k := &spec.Containers[i]
		k.Env = withEnv(k.Env, env)
		if i == trains { // no other container sees a GPU
			k.Env = withEnv(k.Env, c.sharing(p, rank))
		}
		if k.TerminationMessagePolicy == "" {
			k.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}
	}
	return pod
}

func merged(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

func (c *Config) notice(a *api.Attempt) time.Duration {
	if a.Task.GracePeriod > 0 {
		return a.Task.GracePeriod.D()
	}
	return c.GracePeriod
}

// trainer returns the container that trains: the one that names the GPU resource,
// or else the first.
func trainer(spec *corev1.PodSpec, gpu corev1.ResourceName) int {
	for i := range spec.Containers {
		r := &spec.Containers[i].Resources
		if _, ok := r.Limits[gpu]; ok {
			return i
		}
		if _, ok := r.Requests[gpu]; ok {
			return i
		}
	}
	return 0
}

// giveDevices makes the trainer request n devices, by their name on its node, and
// removes the requests of all other containers, init containers included: otherwise the
// node would reserve more than the job was given. It returns the trainer's index.
func (c *Config) giveDevices(spec *corev1.PodSpec, from *workload.Pod, gpu corev1.ResourceName, n int64) (at int) {
	if len(spec.Containers) == 0 {
		return 0 // the API server reports the error
	}
	at = trainer(spec, from.GPUResource)
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, name := range append([]corev1.ResourceName{gpu, from.GPUResource}, c.Resources...) {
				delete(list[i].Resources.Limits, name)
				delete(list[i].Resources.Requests, name)
			}
		}
	}
	r := &spec.Containers[at].Resources
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	r.Limits[gpu] = *resource.NewQuantity(n, resource.DecimalSI)
	r.Requests[gpu] = *resource.NewQuantity(n, resource.DecimalSI)
	return at
}

// Where the agent in a pod finds its token.
const (
	tokenVolume = "fairway-token"
	tokenFolder = "/var/run/secrets/fairway.dev"
	tokenSecond = 3600
)

// giveToken mounts a service account token into the containers, which the kubelet
// renews. Read access to pods does not reveal it.
func (c *Config) giveToken(spec *corev1.PodSpec) {
	seconds := int64(tokenSecond)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: c.Audience, ExpirationSeconds: &seconds, Path: "token"},
		}}},
	}})
	for i := range spec.Containers {
		k := &spec.Containers[i]
		k.VolumeMounts = append(k.VolumeMounts, corev1.VolumeMount{Name: tokenVolume, MountPath: tokenFolder, ReadOnly: true})
	}
}

// meetingPoint is the name of the service at which the pods of all gangs of a namespace meet.
const meetingPoint = "fairway-gangs"

// serviceOf returns the headless service through which the pods of a gang find each other,
// even before they are ready. Gangs share it, and each has endpoint slices of its own.
func serviceOf(p *plan) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.from.Namespace, Name: p.service,
			Labels: map[string]string{discoveryv1.LabelManagedBy: v1alpha1.GroupVersion.Group},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
		},
	}
}
