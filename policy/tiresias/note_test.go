// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tiresias

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// TestForeignNotes: a note that another policy, or other thresholds, left
// behind puts a job into a queue that exists.
func TestForeignNotes(t *testing.T) {
	p, err := New(Default())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for level, want := range map[int]int{-3: 0, 0: 0, 1: 1, 7: 1} {
		j := &sched.Job{Spec: sched.Spec{GPUs: 1}, Status: sched.Status{Note: sched.Note{Level: level}}}
		if got := p.(*policy).requeue(j, now).Level; got != want {
			t.Errorf("a job with level %d goes to queue %d; want %d", level, got, want)
		}
	}
}

// TestSeveralQueuesAtOnce: a job that had much service between two decisions
// moves down as far as it belongs.
func TestSeveralQueuesAtOnce(t *testing.T) {
	c := Default()
	c.Thresholds = []sched.Duration{sched.Duration(time.Minute), sched.Duration(time.Hour), sched.Duration(2 * time.Hour)}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for served, want := range map[float64]int{0: 0, 59: 0, 60: 1, 3599: 1, 3600: 2, 7200: 3, 1e9: 3} {
		j := &sched.Job{Spec: sched.Spec{GPUs: 1}, Status: sched.Status{GPUSeconds: served}}
		note := p.(*policy).requeue(j, now)
		if note.Level != want || (want > 0 && !note.Since.Equal(now)) {
			t.Errorf("after %g GPU-seconds: queue %d since %s; want %d since %s", served, note.Level, note.Since, want, now)
		}
	}
}
