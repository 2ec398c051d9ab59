// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// Shape is what makes two jobs alike in a search for GPUs.
type Shape struct {
	GPUs, Task, CPUs  int
	Memory, GPUMemory int64
	MaxSpread         sched.Level
	Types, Selector   string
	Topology          string
}

// ShapeOf returns the shape of n GPUs for a job.
func ShapeOf(j *sched.Job, n int) Shape {
	var types strings.Builder
	for _, t := range j.GPUTypes {
		types.WriteString(string(t))
		types.WriteByte(0)
	}
	return Shape{n, j.Task(), j.CPUs, j.Memory, j.GPUMemory, j.MaxSpread, types.String(), j.Selector, j.TopologyKey()}
}

// Empty remembers, by shape, what a cluster could give if nobody ran on it.
type Empty[V any] struct {
	cluster *sched.Cluster
	free    *Free
	known   map[Shape]V
}

// maxShapes bounds what Empty remembers.
const maxShapes = 1 << 14

// Reset makes it speak of a cluster.
func (e *Empty[V]) Reset(c *sched.Cluster) {
	if e.cluster != c || len(e.known) > maxShapes {
		*e = Empty[V]{c, NewFree(c), map[Shape]V{}}
	}
}

// Of returns what the empty cluster answers to a job of a shape, whatever nodes
// the job avoids.
func (e *Empty[V]) Of(j *sched.Job, sh Shape, ask func(*Free, *sched.Job) V) V {
	v, known := e.known[sh]
	if !known {
		mark, anyNode := e.free.Mark(), *j
		anyNode.Avoid = nil
		v = ask(e.free, &anyNode)
		e.free.Rollback(mark)
		e.known[sh] = v
	}
	return v
}
