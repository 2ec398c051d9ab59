// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// cluster adds nodes.
func (s *scenario) cluster(a *args) string {
	count, gpus := a.count("nodes", 1), a.count("gpus", 1)
	racks, islands := a.count("racks", 1), a.count("islands", 0)
	proto := sched.Node{
		GPUs: gpus, Type: sched.GPUType(a.word("type", "")), CPUs: a.count("cpus", 0),
		Memory: int64(a.count("memory", 0)) << 30, GPUMemory: int64(a.count("gpu-memory", 0)) << 30,
	}
	proto.Labels, proto.Dedicated = a.words("marks"), a.flag("kept")
	for i := range islands {
		size := gpus / islands
		proto.Islands = append(proto.Islands, sched.FirstGPUs(size)<<(i*size))
	}
	type domains struct {
		sched.Domain
		nodes int // of each
	}
	var levels []domains
	for _, word := range a.words("levels") {
		name, nodes, _ := strings.Cut(word, "/")
		n, err := strconv.Atoi(cmp.Or(nodes, "1"))
		if err != nil || n < 1 {
			a.fail("levels: %q; want LEVEL/NODES, or rack", word)
		}
		levels = append(levels, domains{sched.Domain{Level: name}, n})
	}
	if s.World == nil {
		w, err := NewWorld(nil)
		if err != nil {
			a.fail("cluster: %v", err)
		}
		s.World = w
	}
	first := len(s.State.Cluster().Nodes)
	for i := range count {
		n := proto
		n.Name = "n" + strconv.Itoa(first+i)
		n.Rack = "r" + strconv.Itoa(i*racks/count)
		for _, level := range levels {
			d := sched.Domain{Level: level.Level, Name: n.Rack}
			if d.Level != sched.RackLevel {
				d.Name = level.Level + strconv.Itoa(i/level.nodes)
			}
			n.Domains = append(n.Domains, d)
		}
		if err := s.Apply(sched.Event{Kind: sched.NodeJoined, Node: &n}); err != nil {
			a.fail("cluster: %v", err)
		}
	}
	return ""
}

func (s *scenario) tenant(a *args) string {
	return text(s.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{
		ID: sched.TenantID(a.need("id")), Parent: sched.TenantID(a.word("parent", "")), Weight: a.number("weight", 0), Quota: a.count("quota", 0),
		Max: a.count("max", 0), Borrow: a.flag("borrow"),
	}}))
}

func (s *scenario) submit(a *args) string {
	if at, ok := a.duration("at"); ok {
		s.moveTo(a, at)
	}
	n, spec := a.count("n", 0), s.spec(a)
	length, _ := a.duration("length")
	if n == 0 {
		return text(s.Submit(spec, length))
	}
	id := spec.ID
	for i := range n {
		spec.ID = sched.JobID(fmt.Sprint(id, i+1))
		if err := s.Submit(spec, length); err != nil {
			return text(err)
		}
	}
	return ""
}

func (s *scenario) spec(a *args) sched.Spec {
	spec := sched.Spec{
		ID: sched.JobID(a.need("id")), App: sched.AppID(a.word("app", "")),
		Tenant: sched.TenantID(a.word("tenant", "")), User: a.word("user", ""), Model: a.word("model", ""),
		GPUs: a.count("gpus", 1), MinGPUs: a.count("min", 0), MaxGPUs: a.count("max", 0),
		TaskGPUs: a.count("task", 0), CPUs: a.count("cpus", 0),
		Memory: int64(a.count("memory", 0)) << 30, GPUMemory: int64(a.count("gpu-memory", 0)) << 30,
		Priority: a.count("priority", 0), NonPreemptible: a.flag("pinned"), Consolidate: a.flag("consolidate"),
		Shareable: a.flag("shareable"), GPUUtil: a.number("util", 0), Work: a.number("work", 0),
	}
	spec.Selector = a.word("needs", "")
	for _, t := range a.words("types") {
		spec.GPUTypes = append(spec.GPUTypes, sched.GPUType(t))
	}
	if w := a.word("widest", ""); w != "" {
		if err := spec.MaxSpread.UnmarshalText([]byte(w)); err != nil {
			a.fail("submit: %v", err)
		}
	}
	for _, word := range a.words("required") {
		name, segment, _ := strings.Cut(word, "/")
		n, err := strconv.Atoi(cmp.Or(segment, "0"))
		if err != nil {
			a.fail("required: %q; want LEVEL or LEVEL/GPUS", word)
		}
		spec.Topology = append(spec.Topology, sched.Rule{Segment: n, Required: name})
	}
	if level := a.word("preferred", ""); level != "" {
		spec.Topology = append(spec.Topology, sched.Rule{Preferred: level})
	}
	estimate, _ := a.duration("estimate")
	spec.Estimate = sched.Duration(estimate)
	screen, _ := a.duration("screen")
	spec.Screen = sched.Duration(screen)
	return spec
}
