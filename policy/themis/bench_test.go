// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/policy/themis"
	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkRound measures a decision at which every lease has ended, so that all
// GPUs are on offer, with more jobs than there is room for.
//
//	go test -run '^$' -bench Round ./policy/themis
func BenchmarkRound(b *testing.B) {
	for _, c := range []struct{ gpus, apps, jobs int }{{256, 10, 80}, {1_000, 500, 4}, {10_000, 1_000, 12}} {
		for _, offer := range []string{themis.Surplus, themis.All} {
			b.Run(fmt.Sprintf("%dx%d/%s", c.gpus, c.apps, offer), func(b *testing.B) {
				config := themis.Default()
				config.Offer = offer
				p, err := themis.New(config)
				if err != nil {
					b.Fatal(err)
				}
				s := crowd(b, p, c.gpus, c.apps, c.jobs)
				b.ReportAllocs()
				for b.Loop() {
					p.Schedule(s)
				}
			})
		}
	}
}

// crowd returns a full cluster at the end of all leases.
func crowd(b *testing.B, p sched.Policy, gpus, apps, jobs int) *sched.Snapshot {
	nodes := make([]sched.Node, gpus/8)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, Rack: fmt.Sprint("r", i/8)}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, uint64(apps)))
	for a := range apps {
		size, tight := 1<<random.IntN(3), random.IntN(5) < 2
		for k := range jobs {
			spec := sched.Spec{
				ID: sched.JobID(fmt.Sprintf("a%d-%d", a, k)), App: sched.AppID(fmt.Sprint("a", a)), GPUs: size,
				Consolidate: tight, Estimate: sched.Duration(time.Duration(30+random.IntN(300)) * time.Minute), Work: 1,
			}
			if err := w.Submit(spec, 0); err != nil {
				b.Fatal(err)
			}
		}
		if a%(apps/5) == 0 {
			w.Now = w.Now.Add(2 * time.Minute)
			if _, _, err := w.Decide(p); err != nil {
				b.Fatal(err)
			}
		}
	}
	w.Now = w.Now.Add(20 * time.Minute)
	return w.State.Snapshot(w.Now)
}
