// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// listed answers every list with the same pods.
type listed struct {
	client.Reader
	ids []string
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	pods := list.(*metav1.PartialObjectMetadataList)
	for _, id := range l.ids {
		pods.Items = append(pods.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelID: id}}})
	}
	return nil
}

func TestHighestNumber(t *testing.T) {
	got, err := HighestNumber(t.Context(), listed{ids: []string{"bert-3", "resnet-50-12", "odd", "x--5", ""}})
	if err != nil || got != 12 {
		t.Errorf("%d, %v; want 12", got, err)
	}
}
