// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// HighestNumber returns the highest number in the name of a job that has pods. A
// journal that does not know the job must not give its name to another.
func HighestNumber(ctx context.Context, r client.Reader) (int, error) {
	var pods metav1.PartialObjectMetadataList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.List(ctx, &pods, client.HasLabels{v1alpha1.LabelID}); err != nil {
		return 0, fmt.Errorf("list the pods of jobs: %w", err)
	}
	highest := 0
	for i := range pods.Items {
		highest = max(highest, state.JobNumber(sched.JobID(pods.Items[i].Labels[v1alpha1.LabelID])))
	}
	return highest, nil
}
