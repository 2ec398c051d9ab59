// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// sharing caches whether jobs can share GPUs in this cluster, as of the last time that
// the policy was reconciled.
type sharing struct {
	mu sync.Mutex
	is metav1.Condition // without a time
}

func (s *sharing) now() metav1.Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.is
}

// set stores the condition, and reports whether it has changed.
func (s *sharing) set(c metav1.Condition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.is != c
	s.is = c
	return news
}

// updateSharing finds out whether GPUs can be shared, and logs a change.
func (m *Mirror) updateSharing() error {
	nodes, err := m.State.Nodes(cluster)
	if err != nil {
		return fmt.Errorf("read the nodes: %w", err)
	}
	if c := sharingOf(nodes); m.sharing.set(c) {
		m.Log.Info("GPU sharing", "on", c.Status == metav1.ConditionTrue, "why", c.Message)
	}
	return nil
}

// sharingOf returns whether some nodes have GPUs that can be shared, as a condition.
func sharingOf(nodes []api.Node) metav1.Condition {
	offer, open := 0, 0
	for i := range nodes {
		if nodes[i].Seats == 1 || nodes[i].GPUs == 0 {
			continue
		}
		offer++
		if nodes[i].State == sched.Ready {
			open++
		}
	}
	c := metav1.Condition{Type: v1alpha1.Sharing, Status: metav1.ConditionFalse}
	switch {
	case len(nodes) == 0:
		c.Reason, c.Message = "NoNodes", "there are no nodes with GPUs"
	case offer == 0:
		c.Reason, c.Message = "NotOffered", "off: no node offers each of its GPUs several times, so every job gets whole GPUs; set up time-slicing in the device plugin to share them"
	case open == 0:
		c.Reason, c.Message = "NotUsable", fmt.Sprintf("off: none of the %d nodes that offer each GPU several times takes work now; the operator's log says why", offer)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "Offered"
		c.Message = fmt.Sprintf("GPUs of %d of %d nodes can be shared, by jobs that allow it and under a policy that does", open, len(nodes))
	}
	return c
}

// setSharing sets the sharing condition of an object that asks for sharing, and removes
// it from others.
func (m *Mirror) setSharing(conditions *[]metav1.Condition, asks bool, generation int64, now time.Time) {
	c := m.sharing.now()
	if !asks || c.Type == "" {
		*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.Sharing })
		return
	}
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(conditions, c)
}

// constraintPod returns the part of a job's pods that decides on which nodes it may run. A
// job that asks for a small part of a GPU may run on GPUs that are offered in parts.
func constraintPod(spec *v1alpha1.TrainingJobSpec) *corev1.PodSpec {
	pod := gangPod(spec)
	if spec.Share == nil || !spec.Share.Allow || perPod(spec) != 1 {
		return pod
	}
	out := *pod
	out.Tolerations = append(slices.Clone(pod.Tolerations), constraint.PartsTolerations(intOf(spec.Share.MilliGPU))...)
	return &out
}
