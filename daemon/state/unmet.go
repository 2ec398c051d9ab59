// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// unmetNeed returns the requirement of a job that no node of the cluster meets;
// empty: no single one is at fault.
func unmetNeed(j *sched.Job, c *sched.Cluster) string {
	if len(c.Nodes) == 0 {
		return "; there are no nodes"
	}
	if len(j.GPUTypes) > 0 && !slices.ContainsFunc(j.GPUTypes, func(t sched.GPUType) bool { return slices.Contains(c.Types, t) }) {
		return fmt.Sprintf("; it accepts GPUs of type %s, and the nodes have %s", names(j.GPUTypes), names(c.Types))
	}
	var gpuMemory, memory int64
	var cpus int
	for i := range c.Nodes {
		n := &c.Nodes[i]
		// Unknown properties of a node are not checked.
		gpuMemory, memory, cpus = max(gpuMemory, known(n.GPUMemory)), max(memory, known(n.Memory)), max(cpus, int(known(int64(n.CPUs))))
	}
	task := j.Task() // the GPUs of one pod or process group, which are on one node
	switch {
	case j.GPUMemory > gpuMemory:
		return fmt.Sprintf("; it needs GPUs with %s of memory, and the largest have %s", memorySize(j.GPUMemory), memorySize(gpuMemory))
	case j.CPUs > cpus/task:
		return fmt.Sprintf("; it needs %d CPUs on one node, and the largest has %d", j.CPUs*task, cpus)
	case j.Memory > memory/int64(task):
		return fmt.Sprintf("; it needs %s of memory on one node, and the largest has %s", memorySize(float64(j.Memory)*float64(task)), memorySize(memory))
	case task > c.MaxGPUs():
		return fmt.Sprintf("; it needs %d GPUs on one node, and the largest has %d", task, c.MaxGPUs())
	}
	return ""
}

// known returns a limit; an unknown one limits nothing.
func known(n int64) int64 {
	if n == 0 {
		return 1<<63 - 1
	}
	return n
}

// names lists GPU types, only the first few if there are many.
func names(types []sched.GPUType) string {
	const most = 8
	var out []string
	for i, t := range types {
		if i == most {
			out = append(out, "...")
			break
		}
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}
