// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"encoding/json"
	"testing"

	"github.com/fairway-gpu/fairway/api/apitest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestV01Submissions: objects of version 0.1 give the same submissions as then.
func TestV01Submissions(t *testing.T) {
	old := apitest.Lines[json.RawMessage](t, "testdata/v0.1/submissions.jsonl")
	for _, line := range apitest.Lines[json.RawMessage](t, "../v1alpha1/testdata/v0.1/objects.jsonl") {
		var (
			job v1alpha1.TrainingJob
			app v1alpha1.App
			got any
			err error
		)
		if err := json.Unmarshal(line, &job.TypeMeta); err != nil {
			t.Fatal(err)
		}
		switch job.Kind {
		case kindTrainingJob:
			if err = json.Unmarshal(line, &job); err == nil {
				got, err = submissionOf(&job)
			}
		case kindApp:
			if err = json.Unmarshal(line, &app); err == nil {
				got, err = searchOf(&app)
			}
		default:
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		now, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range apitest.Lost(old[0], now) {
			t.Errorf("submission of %s%s: %s", job.Name, app.Name, l)
		}
		if old = old[1:]; len(old) == 0 {
			return
		}
	}
	t.Errorf("%d submissions of version 0.1 have no object", len(old))
}
