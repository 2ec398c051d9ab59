// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/fairway-gpu/fairway/api/apitest"
	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestV01Pages: the pages that version 0.1 left in a cluster hold the records that
// it read from them.
func TestV01Pages(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := fake.NewClientBuilder().WithScheme(scheme)
	for _, page := range apitest.Lines[v1alpha1.JournalPage](t, "testdata/v0.1/pages.jsonl") {
		objects.WithObjects(&page)
	}
	j, err := journal.Open(context.Background(), journal.Config{Pages: journal.Objects{Client: objects.Build(), Namespace: "fairway-system"}, Leader: "operator-1"})
	if err != nil {
		t.Fatal(err)
	}
	want := apitest.Lines[json.RawMessage](t, "testdata/v0.1/records.jsonl")
	err = j.ReadHot(1, func(seq uint64, payload []byte) error {
		if string(payload) != string(want[0]) {
			t.Errorf("record %d is %s; want %s", seq, payload, want[0])
		}
		want = want[1:]
		return nil
	})
	if err != nil || len(want) > 0 {
		t.Errorf("%d records are missing, %v", len(want), err)
	}
}
