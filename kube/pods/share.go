// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// offer describes how a node offers its GPUs.
type offer struct {
	resource corev1.ResourceName // under which they are requested
	replicas int                 // of each GPU
	mps      bool                // replicas are parts of a GPU separated by MPS
	suspends bool                // pods can be suspended: replicas let another pod have their GPUs meanwhile
}

// offerOf returns how a node offers its GPUs. A node without the resource that the job
// requests offers them under another name.
func (c *Config) offerOf(n *corev1.Node, asked corev1.ResourceName) offer {
	o := offer{resource: asked, replicas: 1}
	if n == nil {
		return o
	}
	if _, has := n.Status.Allocatable[asked]; !has {
		for _, name := range c.Resources {
			if _, has := n.Status.Allocatable[name]; has {
				o.resource = name
				break
			}
		}
	}
	o.replicas, o.mps = max(1, c.Replicas(n)), c.MPS(n)
	o.suspends = c.Suspends(n)
	return o
}

// devices returns how many devices a seat requests from an offer: all replicas of each
// GPU for whole GPUs, or one replica to share a GPU. So a whole GPU, or one sharing job
// per replica, always fits. Where pods are suspended, a whole GPU is one replica too: the
// others are for those that have the GPU meanwhile.
func (s seat) devices(o offer) int64 {
	each := int64(o.replicas)
	if s.milli < sched.WholeGPU || o.mps || o.suspends {
		each = 1
	}
	return int64(s.gpus.Len()) * each
}

// sharing returns the trainer's variables on a node that offers replicas: which GPUs
// and, under MPS, how much of them, as on one machine. They override those of the
// device plugin.
func (c *Config) sharing(p *plan, rank int) []corev1.EnvVar {
	o, s := p.offers[rank], p.seats[rank]
	if o.replicas < 2 {
		return nil
	}
	vars := map[string]string{}
	if o.mps {
		// The device plugin limits a pod to a replica's part; a smaller seat gets less.
		threads := int(s.milli) * 100 / sched.WholeGPU
		if threads*o.replicas >= 100 {
			threads = 0
		}
		vars = api.MPSLimits(s.gpus.Len(), api.MPSMemory(p.attempt.Spec.GPUMemory), threads)
	}
	if c.Pin {
		vars["NVIDIA_VISIBLE_DEVICES"] = s.list()
	}
	var out []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, corev1.EnvVar{Name: name, Value: vars[name]})
	}
	return out
}

// crowded reports whether a GPU of a rank has no seat left.
func (e *Executor) crowded(r *run, rank int, gpu sched.GPUSet) bool {
	used, jobs := r.plan.seats[rank].milli, 1
	for _, u := range e.uses[r.nodes[rank]] {
		if u.id != r.id && u.gpus&gpu != 0 {
			if !e.isAway(u.id) {
				used += u.milli
			}
			jobs++
		}
	}
	return used > sched.WholeGPU || jobs > max(1, r.plan.offers[rank].replicas)
}

// cannotShare ends an external attempt on a node that offers replicas. Fairway cannot
// change what such a pod requests, so the pod would get a part of some GPU.
func (e *Executor) cannotShare(r *run) *api.Exit {
	exit, others := e.unsuited(r, func(n *corev1.Node) bool { return e.Replicas(n) < 2 })
	if exit == nil {
		return nil
	}
	kind, _, _ := strings.Cut(r.attempt.Task.Origin, "/")
	exit.Why = fmt.Sprintf("node %s offers several replicas of each GPU, and Fairway cannot change what the pods of a %s request", r.nodes[exit.Rank], kind)
	if others == 0 {
		never := refused(exit.Why + "; all GPU nodes do: use a TrainingJob")
		return &never
	}
	return exit
}
