// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkDecide measures a decision about 10,000 jobs on 10,000 GPUs: with
// nobody who may share, with all who wait looking for a seat in vain, and what the
// policy below and others that share take for the same.
//
//	go test -bench Decide ./layer/share
func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name  string
		share bool
		specs []string
	}{
		{"exclusive", false, []string{"fifo", "fifo@share"}},
		{"shared", true, []string{"fifo", "fifo@share", "horus", "horus+", "packing"}},
	} {
		s := crowded(b, c.share)
		for _, spec := range c.specs {
			b.Run(c.name+"/"+spec, func(b *testing.B) {
				p := build(b, spec)
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := sched.Decide(p, s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// crowded returns a cluster that is full under fifo@share, with as many waiting.
func crowded(b *testing.B, share bool) *sched.Snapshot {
	const gpus, jobs = 10_000, 20_000
	nodes := make([]sched.Node, gpus/8)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, Rack: fmt.Sprint("r", i/32), GPUMemory: 32 << 30, CPUs: 128}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range jobs {
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("j", i)), GPUs: 1 << random.IntN(4), CPUs: 2, Shareable: share,
			GPUUtil: 0.05 + 0.95*random.Float64(), GPUMemory: int64(1+random.IntN(16)) << 30, Model: fmt.Sprint("m", i%100),
			Estimate: sched.Duration(time.Duration(1+random.IntN(1000)) * time.Minute),
		}
		if random.IntN(10) < 7 {
			spec.GPUs = 1
		}
		if err := w.Submit(spec, 0); err != nil {
			b.Fatal(err)
		}
	}
	if _, _, err := w.Decide(build(b, "fifo@share")); err != nil {
		b.Fatal(err)
	}
	// As many as run go on waiting; the others have not come yet.
	running := 0
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		if j.Phase == sched.Running {
			running++
		}
	}
	for i, j := range slices.Clone(w.State.Snapshot(w.Now).Jobs) {
		if j.Phase == sched.Pending && i > 10_000+running/2 {
			if err := w.Apply(sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Cancelled}); err != nil {
				b.Fatal(err)
			}
		}
	}
	w.Now = w.Now.Add(30 * time.Minute)
	return w.State.Snapshot(w.Now)
}
