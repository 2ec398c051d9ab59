// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// isPlain returns whether a job is a plain script: the workload says so, or it is
// drawn. With a larger share the same jobs are drawn, and others too.
func (r *run) isPlain(j *job) bool {
	const stream = 0x706c61696e // apart from the other draws of the same seed
	return j.work.Protected || r.Plain > 0 && rand.New(rand.NewPCG(r.Seed^stream, uint64(j.result))).Float64() < r.Plain
}

// suspending returns a cluster whose nodes can suspend jobs.
func suspending(c *sched.Cluster) (*sched.Cluster, error) {
	nodes := slices.Clone(c.Nodes)
	for i := range nodes {
		nodes[i].Suspend = true
	}
	return sched.NewCluster(nodes)
}

// restartFromZero lets a job lose all of its work.
func (r *run) restartFromZero(j *job) {
	r.record.lostGPU += j.spent
	j.hardware.lose(j.spent)
	j.done, j.ran, j.spent = 0, 0, 0
}
