// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/request"
)

// The scheduler counts GPUs, CPUs and memory, and knows which nodes could ever hold a
// pod (package constraint). What is left of everything else at this moment (devices that
// are not GPUs, local storage, places for pods, ports of the node) only the executor
// sees, as the kubelet does, which would refuse the pod.

// claim is what a pod takes of its node: amounts as request.Peak counts them, and ports.
type claim struct {
	amounts map[corev1.ResourceName]int64
	ports   []hostPort
}

// hostPort is a port of the node that a pod listens on.
type hostPort struct {
	ip       string // empty: all addresses
	protocol corev1.Protocol
	port     int32
}

// claimOf returns what a pod takes of its node.
func claimOf(spec *corev1.PodSpec) claim {
	c := claim{amounts: map[corev1.ResourceName]int64{corev1.ResourcePods: 1}}
	add := func(names corev1.ResourceList) {
		for name := range names {
			if _, known := c.amounts[name]; known {
				continue
			}
			if n := request.Peak(spec, name); n > 0 {
				c.amounts[name] = n
			}
		}
	}
	add(spec.Overhead)
	if spec.Resources != nil {
		add(spec.Resources.Requests)
		add(spec.Resources.Limits)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			add(list[i].Resources.Requests)
			add(list[i].Resources.Limits)
			for _, p := range list[i].Ports {
				if p.HostPort > 0 {
					c.ports = append(c.ports, portOf(p))
				}
			}
		}
	}
	return c
}

func portOf(p corev1.ContainerPort) hostPort {
	out := hostPort{p.HostIP, p.Protocol, p.HostPort}
	if out.ip == "0.0.0.0" || out.ip == "::" {
		out.ip = ""
	}
	if out.protocol == "" {
		out.protocol = corev1.ProtocolTCP
	}
	return out
}

// clashes returns a port of a that b listens on too; 0: there is none.
func clashes(a, b []hostPort) int32 {
	for _, x := range a {
		for _, y := range b {
			if x.port == y.port && x.protocol == y.protocol && (x.ip == y.ip || x.ip == "" || y.ip == "") {
				return x.port
			}
		}
	}
	return 0
}

// hasRoom reports whether nothing blocks an attempt. An attempt that is blocked for too
// long ends, and the scheduler decides again.
func (e *Executor) hasRoom(r *run, now time.Time) bool {
	if r.blocked = e.isBlocked(r); r.blocked {
		r.held = time.Time{}
		return false
	}
	short := e.shortage(r)
	switch {
	case short == nil:
		r.held = time.Time{}
		return true
	case begun(e.gangs[r.id], e.gangs[r.id].ranks(r.namespace())): // a part of it must not run alone
		e.end(r, *short)
	case r.held.IsZero():
		r.held = now
	case now.Sub(r.held) >= e.HoldFor:
		e.end(r, *short)
	}
	return false
}

// shortage returns the exit of an attempt of which a node lacks room for the pods,
// counting everything bound there; nil: there is room.
func (e *Executor) shortage(r *run) *api.Exit {
	pods := e.gangs[r.id].ranks(r.namespace())
	need := map[string]*claim{}
	for rank, node := range r.nodes {
		c := e.claimAt(r, pods, rank)
		sum := need[node]
		if sum == nil {
			need[node] = &c
			continue
		}
		if port := clashes(sum.ports, c.ports); port > 0 {
			return noRoom(node, fmt.Sprintf("two pods of the job on node %s listen on port %d of the node; use more GPUs per pod, or no host port", node, port))
		}
		for name, n := range c.amounts {
			sum.amounts[name] += n
		}
		sum.ports = append(sum.ports, c.ports...)
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if exit := e.shortageOn(r, name, need[name]); exit != nil {
			return exit
		}
	}
	return nil
}

// claimAt returns what the pod of a rank takes: as it was created, or else as its
// template says, with the GPUs that it will get.
func (e *Executor) claimAt(r *run, pods map[int]*corev1.Pod, rank int) claim {
	if p := pods[rank]; p != nil {
		return claimOf(&p.Spec)
	}
	asks := &r.plan.asks[r.plan.at[rank].Role]
	c := claim{amounts: maps.Clone(asks.amounts), ports: slices.Clone(asks.ports)}
	if c.amounts == nil {
		c.amounts = map[corev1.ResourceName]int64{}
	}
	for _, name := range append([]corev1.ResourceName{r.plan.from.GPUResource}, e.Resources...) {
		delete(c.amounts, name)
	}
	c.amounts[r.plan.offers[rank].resource] = r.plan.devices[rank]
	return c
}

// shortageOn returns the exit of an attempt whose pods do not fit on a node.
func (e *Executor) shortageOn(r *run, node string, need *claim) *api.Exit {
	n := e.nodes[node]
	if n == nil {
		return &api.Exit{Lost: true, Why: fmt.Sprintf("node %s is no longer part of the cluster", node)}
	}
	for _, name := range slices.Sorted(maps.Keys(need.amounts)) {
		all, used := e.amountOn(n, name, r.id)
		if _, said := n.Status.Allocatable[name]; !said && !strings.Contains(string(name), "/") && name != corev1.ResourceEphemeralStorage {
			continue // the node does not say how much it has
		}
		if used+need.amounts[name] <= all {
			continue
		}
		why := fmt.Sprintf("node %s has %s of %s %s left, but the job needs %s", node, amountText(name, max(0, all-used)), amountText(name, all), name, amountText(name, need.amounts[name]))
		if slices.Contains(e.Resources, name) { // the scheduler counts these: it did not know of the pods that hold them
			exit := heldBack(why + ": other pods took them")
			return &exit
		}
		return noRoom(node, why)
	}
	for _, u := range e.uses[node] {
		if port := clashes(need.ports, u.ports); port > 0 && u.id != r.id {
			return noRoom(node, fmt.Sprintf("another pod listens on port %d of node %s", port, node))
		}
	}
	return nil
}

// noRoom is the exit of an attempt whose node has no room for it now. The next attempt
// goes elsewhere if it can.
func noRoom(node, why string) *api.Exit {
	exit := heldBack(why)
	exit.Host = append(exit.Host, diagnose.Event{Kind: api.HostUnfit, Node: node})
	return &exit
}

// amountOn returns how much of a resource a node has, and how much of it pods of other
// attempts hold.
func (e *Executor) amountOn(n *corev1.Node, of corev1.ResourceName, but api.AttemptID) (all, used int64) {
	q := n.Status.Allocatable[of]
	all = q.Value()
	if of == corev1.ResourceCPU {
		all = q.MilliValue()
	}
	for _, u := range e.uses[n.Name] {
		if u.id != but {
			used += u.amounts[of]
		}
	}
	return all, used
}

// amountText prints an amount as Kubernetes does.
func amountText(name corev1.ResourceName, n int64) string {
	switch {
	case name == corev1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}
