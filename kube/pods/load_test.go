// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkGangs measures a decision that starts 200 gangs of 4 pods each on 100 nodes,
// until all of them run.
func BenchmarkGangs(b *testing.B) {
	for range b.N {
		b.StopTimer()
		w := newWorld(b, kubetest.NodeSpec{Count: 100, GPUs: 8}, nil)
		w.wait("all nodes are known", func() bool {
			all, err := w.now().Nodes(admin)
			return err == nil && len(all) == 100
		})
		plan := wants{}
		for i := range 200 {
			plan[w.submit(sched.Spec{GPUs: 4}, nil)] = sched.Placement{w.on(i/2, 0b1111<<(i%2*4))}
		}
		b.StartTimer()
		begin := time.Now()
		w.plan(plan)
		w.wait("all run", func() bool {
			for id := range plan {
				if w.job(id).State != api.Running {
					return false
				}
			}
			return true
		})
		b.ReportMetric(800/time.Since(begin).Seconds(), "pods/s")
	}
}
