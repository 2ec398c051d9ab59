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

// offer is how a node offers its GPUs.
type offer struct {
	resource corev1.ResourceName // by which they are requested
	replicas int                 // how often each is offered
	mps      bool                // replicas are parts of a GPU that MPS keeps apart
}

// offerOf returns how a node offers its GPUs. One that does not have the resource
// that a job asks for offers them under another name.
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
	return o
}

// devices returns how many devices a seat needs where GPUs are offered so: all that
// a GPU is offered as, for itself, or one of them beside others. So those of whole
// GPUs and of at most so many sharers as there are replicas always fit, whatever
// parts they have.
func (s seat) devices(o offer) int64 {
	each := int64(o.replicas)
	if s.milli < sched.WholeGPU || o.mps {
		each = 1
	}
	return int64(s.gpus.Len()) * each
}

// sharing returns the variables of the trainer where GPUs are offered several times:
// which it gets, and under MPS how much of them, as on one machine. They come after
// those of the device plugin and win.
func (c *Config) sharing(p *plan, rank int) []corev1.EnvVar {
	o, s := p.offers[rank], p.seats[rank]
	if o.replicas < 2 {
		return nil
	}
	vars := map[string]string{}
	if o.mps {
		// The plugin's own limit is a replica's part; a smaller seat gets less.
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

// crowded reports whether a GPU of a rank has no seat left beside those who are
// there.
func (e *Executor) crowded(r *run, rank int, gpu sched.GPUSet) bool {
	used, jobs := r.plan.seats[rank].milli, 1
	for _, u := range e.uses[r.nodes[rank]] {
		if u.id != r.id && u.gpus&gpu != 0 {
			used += u.milli
			jobs++
		}
	}
	return used > sched.WholeGPU || jobs > max(1, r.plan.offers[rank].replicas)
}

// cannotShare says that an attempt of somebody else's pods is on a node that offers
// GPUs several times. What such a pod requests is not Fairway's to change: it would
// get a part of a GPU, and of any.
func (e *Executor) cannotShare(r *run) *api.Exit {
	exit, others := e.unsuited(r, func(n *corev1.Node) bool { return e.Replicas(n) < 2 })
	if exit == nil {
		return nil
	}
	kind, _, _ := strings.Cut(r.attempt.Task.Origin, "/")
	exit.Why = fmt.Sprintf("node %s offers each of its GPUs several times, and a %s gets only what its pods ask for", r.nodes[exit.Rank], kind)
	if others == 0 {
		never := refused(exit.Why + "; all nodes with GPUs are such: use a TrainingJob")
		return &never
	}
	return exit
}
