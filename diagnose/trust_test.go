// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
)

func TestScreenFor(t *testing.T) {
	const standard = 5 * time.Minute
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(days float64, good bool, ran time.Duration) diagnose.Outcome {
		return diagnose.Outcome{At: now.Add(-time.Duration(days * 24 * float64(time.Hour))), Good: good, Ran: ran}
	}
	for _, test := range []struct {
		name string
		past []diagnose.Outcome
		want time.Duration
	}{
		{"nobody knows it", nil, standard},
		{"ran well yesterday", []diagnose.Outcome{ago(1, true, time.Hour)}, 0},
		{"ran well for just the standard time", []diagnose.Outcome{ago(1, true, standard)}, 0},
		{"ran well, but not for long", []diagnose.Outcome{ago(1, true, time.Minute)}, standard},
		{"ran well too long ago", []diagnose.Outcome{ago(15, true, time.Hour)}, standard},
		{"failed early since", []diagnose.Outcome{ago(1, false, time.Minute), ago(2, true, time.Hour)}, standard},
		{"failed late since", []diagnose.Outcome{ago(2, true, time.Hour), ago(1, false, 3*time.Hour)}, 0},
		{"failed early before", []diagnose.Outcome{ago(2, true, time.Hour), ago(3, false, time.Minute)}, 0},
		{"from the future", []diagnose.Outcome{ago(-1, true, time.Hour)}, standard},
	} {
		if got := diagnose.ScreenFor(test.past, now, standard); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestFindingOf(t *testing.T) {
	table, err := diagnose.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if f := table.Finding("gpu-ecc"); f.Reason != "gpu-ecc" || !f.Node || f.Retry.Budget != 3 || f.Category != diagnose.Infrastructure {
		t.Errorf("gpu-ecc: got %+v", f)
	}
	if f := table.Finding("no such reason"); f.Reason != diagnose.ReasonUnknown || f.Retry.Budget != 1 {
		t.Errorf("a reason that the table does not have: got %+v", f)
	}
}
