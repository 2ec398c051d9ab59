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
	mps      bool                // replicas are parts of a GPU separated by MPS
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

// devices returns how many devices a seat needs with an offer: all replicas of a
// GPU for a whole one, or one of them to share it. So whole GPUs and up to one
// sharer per replica always fit, whatever parts they have.
func (s seat) devices(o offer) int64 {
	each := int64(o.replicas)
	if s.milli < sched.WholeGPU || o.mps {
		each = 1
	}
	return int64(s.gpus.Len()) * each
}

// sharing returns the trainer's variables where GPUs are offered several times:
// which GPUs, and under MPS how much of them, as on one machine. They override
// those of the device plugin.
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

// crowded reports whether a GPU of a rank has no seat left.
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

// cannotShare ends an external attempt on a node that offers GPUs several times.
// Fairway cannot change what such a pod requests: it would get a part of any GPU.
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
