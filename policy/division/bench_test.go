// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// crowded is the size of a busy cluster.
type crowded struct{ nodes, gpus, jobs int }

func (c crowded) String() string { return fmt.Sprintf("%dx%d", c.jobs, c.nodes*c.gpus) }

// crowd returns a busy cluster some time after it was started: jobs of all
// models and ages, of which nine in ten have an agent that has reported, most
// of them running at some size.
func crowd(t testing.TB, c crowded) *scene {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(c.jobs)))
	s := cluster(t, c.nodes, c.gpus)
	names := slices.Sorted(maps.Keys(models))
	for range c.jobs {
		x := spec{age: time.Duration(rng.ExpFloat64() * float64(time.Hour))}
		if rng.IntN(10) > 0 {
			x.model, x.most = names[rng.IntN(len(names))], 1<<rng.IntN(6)
		}
		j := s.add(x)
		if j.Perf != nil {
			vary(rng, j.Perf, false)
			s.run(j, rng, 2*c.nodes*c.gpus/c.jobs)
			j.Perf.MostGPUs = max(j.Perf.MostGPUs, 2*j.MostGPUs)
		}
	}
	return s
}

// BenchmarkDecide measures decisions: cold, when every agent has just reported,
// and warm, when none has. On one core, the first should stay below 10 ms for
// 160 jobs on 64 GPUs, 250 ms for 1,000 on 4,096, and 5 s for 10,000 on 16,384.
func BenchmarkDecide(b *testing.B) {
	for _, c := range []crowded{{16, 4, 20}, {16, 4, 160}, {64, 8, 125}, {128, 8, 250}, {256, 8, 500}, {512, 8, 1000}, {1024, 8, 5000}, {2048, 8, 10000}} {
		s := crowd(b, c)
		b.Run("cold/"+c.String(), func(b *testing.B) {
			for b.Loop() {
				policyOf(usual()).Schedule(s.Snapshot)
			}
		})
		b.Run("warm/"+c.String(), func(b *testing.B) {
			p := policyOf(usual())
			for b.Loop() {
				p.Schedule(s.Snapshot)
			}
		})
	}
}

// BenchmarkGenetic measures the search of the paper, which its authors' code
// takes seconds for.
func BenchmarkGenetic(b *testing.B) {
	for _, c := range []crowded{{16, 4, 20}, {16, 4, 160}, {32, 4, 50}, {64, 4, 100}} {
		s := crowd(b, c)
		b.Run(c.String(), func(b *testing.B) {
			c := usual()
			c.Search = Genetic(1, 100, 100)
			for b.Loop() {
				policyOf(c).Schedule(s.Snapshot)
			}
		})
	}
}
