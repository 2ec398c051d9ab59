// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// BenchmarkDecide measures a decision, check and diff included, on 1,250 nodes
// with 8 GPUs each while jobs end, arrive and report, so that shares change at
// every decision. It must stay below 50 ms.
func BenchmarkDecide(b *testing.B) {
	for _, spec := range []string{"optimus", "optimus:form=original"} {
		for _, jobs := range []int{10_000, 5_000, 500} {
			b.Run(fmt.Sprintf("%s/10000x%d", spec, jobs), func(b *testing.B) {
				l := newLarge(b, jobs)
				p := mustBuild(b, spec)
				l.decide(p)
				l.Bench(b, p, l.stir)
			})
		}
	}
}

// large is a large cluster with jobs that come and go.
type large struct {
	world
	random *rand.Rand
	next   int
}

func newLarge(b *testing.B, jobs int) *large {
	l := &large{world: newWorld(b, slices.Repeat([]int{8}, 1250)...), random: rand.New(rand.NewPCG(1, 1))}
	for range jobs {
		l.arrive()
	}
	return l
}

func (l *large) arrive() {
	l.submit(sched.Spec{ID: sched.JobID(fmt.Sprint("j", l.next))}, l.report())
	l.next++
}

func (l *large) report() *goodput.Report {
	x := l.random.Float64()
	steps := curve(64, 1, 0.2*x, 0.01*x)
	r := measured(steps, 1, 2, 4, 8, 16)
	r.Steps, r.Left = steps, 1e5*l.random.ExpFloat64()
	r.Losses, r.Stop = losing(1e5*l.random.ExpFloat64(), l.random.Float64())
	for i := range r.Losses {
		r.Losses[i].Loss *= 1 + 0.02*l.random.NormFloat64()
	}
	return r
}

// stir lets half a minute pass: one job in 200 ends and another comes, and one
// in ten reports.
func (l *large) stir() {
	l.Now = l.Now.Add(30 * time.Second)
	for _, j := range slices.Clone(l.State.Snapshot(l.Now).Jobs) {
		switch x := l.random.IntN(200); {
		case x == 0:
			l.apply(sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Finished})
			l.arrive()
		case x <= 20:
			l.apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: l.report()})
		}
	}
}
