// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// labelNode is on what stands for nodes to come.
const labelNode = "fairway.dev/node-to-come"

// pending asks by one pending pod for each node. The pods say that they cannot be
// scheduled, which is what autoscalers look for, and belong to a scheduler that does not
// exist: when the node comes, they take nothing of it.
type pending struct{ *Pool }

func (p pending) list(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := p.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.HasLabels{labelNode}); err != nil {
		return nil, fmt.Errorf("list the pods of nodes to come: %w", err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, nil
}

func (p pending) asked(ctx context.Context, _ int) (int, error) {
	pods, err := p.list(ctx)
	return len(pods), err
}

func (p pending) ask(ctx context.Context, _, more int) error {
	pods, err := p.list(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for i := range pods {
		switch pod := &pods[i]; {
		case i >= more:
			failed = append(failed, client.IgnoreNotFound(p.Client.Delete(ctx, pod)))
		case len(pod.Status.Conditions) == 0: // we were stopped before we could say so
			failed = append(failed, p.cannotSchedule(ctx, pod))
		}
	}
	for range more - len(pods) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: "node-to-come-", Labels: map[string]string{labelNode: "true"}},
			Spec:       p.podSpec(),
		}
		err := p.Client.Create(ctx, pod)
		if err == nil {
			err = p.cannotSchedule(ctx, pod)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (p pending) cannotSchedule(ctx context.Context, pod *corev1.Pod) error {
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "stands for a node that jobs of Fairway need", LastTransitionTime: metav1.NewTime(time.Now()),
	})
	if err := p.Client.Status().Patch(ctx, pod, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("say that pod %s cannot be scheduled: %w", pod.Name, err)
	}
	return nil
}
