// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/policy/quincy"
	"github.com/fairway-gpu/fairway/sched"
)

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*quincy.Config)
		want   string
	}{
		{func(c *quincy.Config) { c.Move = -1 }, "move = -1ns; want 0s to 8760h"},
		{func(c *quincy.Config) { c.Preempt = 0 }, "preempt = 0s; want 1s or more, else jobs take turns in every decision"},
		{func(c *quincy.Config) { c.Cross = 0 }, "cross = 0s; want rack = 15m or more"},
		{func(c *quincy.Config) { c.Window = 0 }, "window = 0; want 1 or more"},
		{func(c *quincy.Config) { c.Every = 0 }, "every = 0s; want 1s or more"},
	} {
		config := quincy.Default()
		c.change(&config)
		if _, err := quincy.New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}

// BenchmarkDecide measures a decision about jobs of one to eight GPUs, of which
// those that fit run, on nodes of four GPUs in racks of 16.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ jobs, nodes int }{{100, 32}, {300, 64}, {1000, 64}, {1000, 256}, {2000, 256}} {
		b.Run(fmt.Sprintf("%djobs/%dnodes", size.jobs, size.nodes), func(b *testing.B) {
			p, err := quincy.New(quincy.Default())
			if err != nil {
				b.Fatal(err)
			}
			w := busy(b, p, size.jobs, size.nodes)
			s := w.State.Snapshot(w.Now)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := sched.Decide(p, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// busy returns a world in which half of the jobs have come and started where
// they could, and the others have come since.
func busy(b *testing.B, p sched.Policy, jobs, nodes int) *policytest.World {
	b.Helper()
	all := make([]sched.Node, nodes)
	for i := range all {
		all[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 4, Rack: fmt.Sprint("r", i/16), Type: "t4"}
		if i%3 == 2 {
			all[i].Type = "v100"
		}
	}
	w, err := policytest.NewWorld(all)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, uint64(jobs)))
	for i := range jobs {
		spec := sched.Spec{ID: sched.JobID(fmt.Sprint("j", i)), GPUs: 1 << random.IntN(4)}
		if random.IntN(3) == 0 {
			spec.GPUTypes = []sched.GPUType{"v100", "t4"}
		}
		if err := w.Submit(spec, 0); err != nil {
			b.Fatal(err)
		}
		if w.Now = w.Now.Add(time.Duration(random.IntN(20)) * time.Second); i == jobs/2 {
			if _, _, err := w.Decide(p); err != nil {
				b.Fatal(err)
			}
		}
	}
	return w
}
