// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Redraw returns a function that draws a job of the generated workload again, with what the
// generator had settled before it drew the job: its tenant, user, model and size, and what
// the jobs of its batch have in common. Run time and failures come out differently. It is
// nil for kinds other than philly.
func Redraw(g Gen) (func(id sched.JobID, r *rand.Rand) sim.Work, error) {
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("redraw workload: %w", err)
	}
	if g.Kind != KindPhilly {
		return nil, nil
	}
	if g.MaxGPUs == 0 {
		g.MaxGPUs = g.GPUs
	}
	p := newPhillyDraw(&g)
	wl := &sim.Workload{}
	var batches []phillyBatch
	wl.Work, batches = p.work()
	for i := range wl.Work { // number keeps ids, so that they tell where a job went
		wl.Work[i].ID = sched.JobID(strconv.Itoa(i))
	}
	number(wl, g.Kind)
	of := map[sched.JobID]phillyBatch{}
	for place, w := range wl.Work {
		drawn, _ := strconv.Atoi(string(w.ID))
		of[numbered(g.Kind, place, len(wl.Work))] = batches[drawn]
	}
	return func(id sched.JobID, r *rand.Rand) sim.Work {
		again := *p
		again.rnd = r
		return again.job(of[id])
	}, nil
}
