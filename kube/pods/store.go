// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/volumes"
	"github.com/fairway-gpu/fairway/sched"
)

// annotationMilli is the part of each GPU that a pod has, in thousandths, if it is not
// the whole.
const annotationMilli = "fairway.dev/milli"

// annotationPods is the number of pods by whose end the attempt is judged (leading). An
// operator that did not create them needs it to see that some are missing.
const annotationPods = "fairway.dev/pods"

// store is the cluster as seen by the cache, indexed for the executor. Its objects
// belong to the cache and must not be changed. The executor's lock guards it.
type store struct {
	gangs map[api.AttemptID]*gang
	byJob map[sched.JobID]map[int]bool // attempts with a gang
	nodes map[string]*corev1.Node
	uses  map[string]map[types.UID]use // by node: what its pods hold that have not ended
}

func newStore() store {
	return store{
		gangs: map[api.AttemptID]*gang{}, byJob: map[sched.JobID]map[int]bool{},
		nodes: map[string]*corev1.Node{}, uses: map[string]map[types.UID]use{},
	}
}

// gang is the pods of one attempt.
type gang struct {
	pods map[types.UID]*corev1.Pod
	gone map[int]*corev1.Pod // by rank: the last version of deleted pods
}

// use is what a pod holds of its node.
type use struct {
	id   api.AttemptID // empty: not one of ours
	rank int
	claim
	gpus    sched.GPUSet
	milli   int32
	assumed bool     // we bound it, or will; the cache does not know yet
	name    string   // of the pod
	volumes []string // its claims, as volumes.Key names them
}

// attemptOf returns the attempt and the rank of a pod.
func attemptOf(p *corev1.Pod) (id api.AttemptID, rank int, ok bool) {
	if p.Spec.SchedulerName != v1alpha1.SchedulerName {
		return id, 0, false
	}
	job := p.Labels[v1alpha1.LabelID]
	number, err := strconv.Atoi(p.Labels[v1alpha1.LabelAttempt])
	rank, rankErr := strconv.Atoi(p.Labels[v1alpha1.LabelRank])
	if job == "" || err != nil || rankErr != nil || number < 1 || rank < 0 {
		return id, 0, false
	}
	return api.AttemptID{Job: sched.JobID(job), Number: number}, rank, true
}

// set stores the present version of a pod.
func (s *store) set(p *corev1.Pod) {
	id, _, ours := attemptOf(p)
	if ours {
		g := s.gangs[id]
		if g == nil {
			g = &gang{pods: map[types.UID]*corev1.Pod{}, gone: map[int]*corev1.Pod{}}
			s.gangs[id] = g
			if s.byJob[id.Job] == nil {
				s.byJob[id.Job] = map[int]bool{}
			}
			s.byJob[id.Job][id.Number] = true
		}
		g.pods[p.UID] = p
	}
	switch {
	case request.Ended(p):
		s.release(p.Spec.NodeName, p.UID)
	case p.Spec.NodeName != "":
		s.hold(p.Spec.NodeName, p.UID, useOf(p))
	}
}

// drop removes a deleted pod.
func (s *store) drop(p *corev1.Pod) {
	if id, rank, ours := attemptOf(p); ours {
		if g := s.gangs[id]; g != nil {
			delete(g.pods, p.UID)
			g.gone[rank] = p
		}
	}
	s.release(p.Spec.NodeName, p.UID)
	if p.Spec.NodeName == "" { // it may have been bound in the meantime
		for node := range s.uses {
			s.release(node, p.UID)
		}
	}
}

func (s *store) hold(node string, id types.UID, u use) {
	if s.uses[node] == nil {
		s.uses[node] = map[types.UID]use{}
	}
	if u.id.Job != "" {
		delete(s.uses[node], reservation(u.id, u.rank))
	}
	s.uses[node][id] = u
}

func (s *store) release(node string, id types.UID) {
	delete(s.uses[node], id)
	if len(s.uses[node]) == 0 {
		delete(s.uses, node)
	}
}

// forget drops a gang that has no pods left.
func (s *store) forget(id api.AttemptID) {
	if g := s.gangs[id]; g != nil && len(g.pods) == 0 {
		delete(s.gangs, id)
		delete(s.byJob[id.Job], id.Number)
		if len(s.byJob[id.Job]) == 0 {
			delete(s.byJob, id.Job)
		}
	}
}

// useOf returns what a pod holds of its node.
func useOf(p *corev1.Pod) use {
	u := use{claim: claimOf(&p.Spec), milli: sched.WholeGPU, name: p.Name, volumes: volumes.Named(p.Namespace, &p.Spec)}
	if id, rank, ours := attemptOf(p); ours {
		u.id, u.rank = id, rank
		u.gpus = parseSet(p.Annotations[v1alpha1.AnnotationGPUs])
		if m, err := strconv.ParseInt(p.Annotations[annotationMilli], 10, 32); err == nil && m > 0 && m <= sched.WholeGPU {
			u.milli = int32(m)
		}
	}
	return u
}

// devicesOf returns what a pod requests of extended resources: those with a domain in
// their name.
func devicesOf(spec *corev1.PodSpec) map[corev1.ResourceName]int64 {
	var out map[corev1.ResourceName]int64
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for name := range list[i].Resources.Requests {
				if _, known := out[name]; known || !strings.Contains(string(name), "/") {
					continue
				}
				if n := request.Peak(spec, name); n > 0 {
					if out == nil {
						out = map[corev1.ResourceName]int64{}
					}
					out[name] = n
				}
			}
		}
	}
	return out
}

// parseSet parses what GPUSet.String prints, and ignores anything else.
func parseSet(text string) sched.GPUSet {
	var out sched.GPUSet
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA != nil || errB != nil || a < 0 || b >= sched.MaxGPUs {
			continue
		}
		for ; a <= b; a++ {
			out |= 1 << a
		}
	}
	return out
}

// ranks returns the pods of a gang by rank, of one namespace if it is known. If two
// pods have one rank, which only another program could cause, the older one counts.
func (g *gang) ranks(namespace string) map[int]*corev1.Pod {
	if g == nil {
		return nil
	}
	out := make(map[int]*corev1.Pod, len(g.pods))
	for _, p := range g.pods {
		if namespace != "" && p.Namespace != namespace {
			continue
		}
		_, rank, _ := attemptOf(p)
		if old := out[rank]; old == nil || p.CreationTimestamp.Before(&old.CreationTimestamp) {
			out[rank] = p
		}
	}
	return out
}

// live reports whether the gang has a pod left that could hold a GPU.
func (g *gang) live(namespace string) bool {
	if g == nil {
		return false
	}
	for _, p := range g.pods {
		if (namespace == "" || p.Namespace == namespace) && !request.Ended(p) {
			return true
		}
	}
	return false
}
