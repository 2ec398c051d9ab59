// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkLook measures a sweep over 10,000 waiting jobs, per job and without reading
// the object.
func BenchmarkLook(b *testing.B) {
	const jobs = 10_000
	k, err := state.Open(b.Context(), state.Config{
		Journal: &tape{}, Node: sched.Node{Name: "node-0", GPUs: 8, Type: "h200"}, Policies: policy.Builtin(), Standard: "fifo",
		Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, Log: slog.New(slog.DiscardHandler), CompactEvery: 1 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	var ids []sched.JobID
	for len(ids) < jobs {
		list := make([]api.Submission, 1000)
		for i := range list {
			list[i] = api.Submission{Spec: sched.Spec{GPUs: 1}, Task: api.Task{Name: "job", Command: []string{"x"}, Origin: fmt.Sprintf("TrainingJob/a/%d", len(ids)+i)}}
		}
		made, err := k.Submit(b.Context(), cluster, list)
		if err != nil {
			b.Fatal(err)
		}
		for _, j := range made {
			ids = append(ids, j.ID)
		}
	}
	s, err := k.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	p, spec := k.InForce()
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		b.Fatal(err)
	}
	if err := k.Apply(b.Context(), loop.Decision{Policy: spec, Snapshot: s, Actions: actions, Plan: plan}); err != nil {
		b.Fatal(err)
	}
	object := trainingJob("a", "x", 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		view, err := k.Job(cluster, ids[i%jobs])
		if err != nil {
			b.Fatal(err)
		}
		status := statusOf(&view, object, time.Now())
		if sameStatus(&v1alpha1.TrainingJobStatus{}, &status) {
			b.Fatal("an empty status")
		}
	}
}
