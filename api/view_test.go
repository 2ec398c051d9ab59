// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

func TestKept(t *testing.T) {
	const noAgent, failed = ": no Fairway agent in its script has reported yet", ": it could not save its work"
	for _, c := range []struct {
		name string
		edit func(*Job)
		want string // empty: nothing
	}{
		{"a plain script", func(*Job) {}, "keeps its GPUs until it ends" + noAgent},
		{"elastic", func(j *Job) { j.MinGPUs, j.MaxGPUs = 2, 8 }, "starts on 2 GPUs and stays at that size; it keeps its GPUs until it ends" + noAgent},
		{"suspends", func(j *Job) { j.Status.Suspends = true }, "is suspended in place while others have its GPUs, and goes on only there" + noAgent},
		{"elastic, suspends", func(j *Job) { j.MinGPUs, j.MaxGPUs, j.Status.Suspends = 2, 8, true }, "starts on 2 GPUs and stays at that size; it is suspended in place"},
		{"saves", func(j *Job) { j.Status.Can = sched.Saves }, ""},
		{"a save failed", func(j *Job) { j.Status.Can, j.Status.SaveFailed = sched.Saves, true }, "keeps its GPUs" + failed},
		{"suspends after a save failed", func(j *Job) { j.Status.Can, j.Status.SaveFailed, j.Status.Suspends = sched.Saves, true, true }, "goes on only there" + failed},
		{"may be stopped", func(j *Job) { j.Protected = false }, ""},
		{"non-preemptible", func(j *Job) { j.NonPreemptible = true }, "is never preempted"},
		{"ended", func(j *Job) { j.Status.Phase = sched.Finished }, ""},
	} {
		j := Job{Spec: sched.Spec{GPUs: 2, Protected: true}}
		c.edit(&j)
		if got := j.Kept(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: it %q; want %q", c.name, got, c.want)
		}
	}
}
