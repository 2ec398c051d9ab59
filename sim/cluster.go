// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// Limits on descriptions of clusters.
const (
	maxNodes       = 200_000
	maxClusterFile = 16 << 20 // bytes
)

// ParseCluster reads the short description of a cluster: groups of equal nodes joined
// by "+", each NODESxGPUS, then optionally ":TYPE" and "/NODES" for the nodes of a
// rack. "16x4" is 16 nodes of 4 GPUs in one rack; "6x4:t4+2x8:a100/1" adds two nodes
// of 8 A100s, each in a rack of its own. Groups never share a rack. def is the GPU
// type of groups without one.
func ParseCluster(text string, def sched.GPUType) (*sched.Cluster, error) {
	var nodes []sched.Node
	racks := 0
	for group := range strings.SplitSeq(text, "+") {
		g, err := parseGroup(group, def)
		if err != nil {
			return nil, fmt.Errorf("cluster %q: group %q: %w", text, group, err)
		}
		if len(nodes)+g.Count > maxNodes {
			return nil, fmt.Errorf("cluster %q: more than %d nodes", text, maxNodes)
		}
		perRack := g.RackNodes
		if perRack == 0 {
			perRack = g.Count
		}
		for i := range g.Count {
			nodes = append(nodes, sched.Node{
				Name: fmt.Sprintf("n%d", len(nodes)), GPUs: g.GPUs, Type: g.Type,
				Rack: fmt.Sprintf("r%d", racks+i/perRack),
			})
		}
		racks += (g.Count + perRack - 1) / perRack
	}
	return sched.NewCluster(nodes)
}

func parseGroup(group string, def sched.GPUType) (nodeGroup, error) {
	g := nodeGroup{Type: def}
	rest, rack, hasRack := strings.Cut(group, "/")
	shape, gpuType, hasType := strings.Cut(rest, ":")
	count, gpus, ok := strings.Cut(shape, "x")
	var err1, err2 error
	g.Count, err1 = strconv.Atoi(count)
	g.GPUs, err2 = strconv.Atoi(gpus)
	if !ok || err1 != nil || err2 != nil || g.Count < 1 || g.Count > maxNodes || g.GPUs < 1 || g.GPUs > sched.MaxGPUs {
		return g, fmt.Errorf("want NODESxGPUS with 1 to %d nodes of 1 to %d GPUs, such as 16x4", maxNodes, sched.MaxGPUs)
	}
	if hasType {
		if gpuType == "" {
			return g, fmt.Errorf("no GPU type after \":\"; want one such as 16x4:t4")
		}
		g.Type = sched.GPUType(strings.ToLower(gpuType))
	}
	if hasRack {
		if g.RackNodes, err1 = strconv.Atoi(rack); err1 != nil || g.RackNodes < 1 {
			return g, fmt.Errorf("rack size %q: want the number of nodes in a rack, such as 32x8/8", rack)
		}
	}
	return g, nil
}

// nodeGroup is one entry of a cluster file: Count nodes that differ in name
// only.
type nodeGroup struct {
	Name      string        `json:"name"`
	Count     int           `json:"count,omitempty"` // default 1
	GPUs      int           `json:"gpus"`
	Type      sched.GPUType `json:"gpu_type,omitempty"`
	GPUMemory int64         `json:"gpu_memory,omitempty"`
	CPUs      int           `json:"cpus,omitempty"`
	Memory    int64         `json:"memory,omitempty"`
	Rack      string        `json:"rack,omitempty"`
	RackNodes int           `json:"rack_nodes,omitempty"` // nodes in a rack: racks are then named RACK0, RACK1, ...
	Domains   []nodeDomain  `json:"domains,omitempty"`    // of a topology with more levels than racks, the widest first
	NVLink    [][]int       `json:"nvlink,omitempty"`     // islands as lists of GPU indexes
	Marks     []string      `json:"marks,omitempty"`      // labels of the nodes, in any order
	Kept      bool          `json:"kept,omitempty"`       // only for jobs that need one of the labels
}

// nodeDomain says where the nodes of a group are at one level of the topology.
type nodeDomain struct {
	Level string `json:"level"`
	Name  string `json:"name"`
	Nodes int    `json:"nodes,omitempty"` // of each domain: domains are then named NAME0, NAME1, ...
}

// clusterFile is the JSON form of a cluster.
type clusterFile struct {
	Version int         `json:"version"`
	Nodes   []nodeGroup `json:"nodes"`
}

// ReadCluster reads a cluster file: JSON with groups of nodes, for mixed nodes,
// racks and NVLink islands.
//
//	{"version": 1, "nodes": [
//	  {"name": "a", "count": 8, "gpus": 8, "gpu_type": "a100", "rack": "r", "rack_nodes": 4,
//	   "nvlink": [[0,1,2,3],[4,5,6,7]], "cpus": 96, "memory": 1099511627776, "marks": ["fast-disk"]},
//	  {"name": "old", "gpus": 2, "gpu_type": "p100", "rack": "annex"}]}
//
// Further levels of the topology, for jobs that ask for them, are listed from the widest
// to the narrowest, with the racks among them:
//
//	"domains": [{"level": "zone", "name": "z"}, {"level": "rack", "name": "r", "nodes": 4},
//	            {"level": "nvlink-domain", "name": "d", "nodes": 2}]
//
// It also reads the node list of Alibaba's 2023 trace; see readNodeList.
func ReadCluster(r io.Reader) (*sched.Cluster, error) {
	br := bufio.NewReader(io.LimitReader(r, maxClusterFile))
	if head, _ := br.Peek(len(nodeListHead)); string(head) == nodeListHead {
		return readNodeList(br)
	}
	dec := json.NewDecoder(br)
	dec.DisallowUnknownFields()
	var file clusterFile
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("read cluster file: %w", err)
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("read cluster file: version = %d; want 1", file.Version)
	}
	var nodes []sched.Node
	for i, g := range file.Nodes {
		more, err := g.expand(len(nodes))
		if err != nil {
			return nil, fmt.Errorf("read cluster file: nodes[%d]: %w", i, err)
		}
		nodes = append(nodes, more...)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("read cluster file: nodes is empty; want at least one")
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		return nil, fmt.Errorf("read cluster file: %w", err)
	}
	return c, nil
}

func (g nodeGroup) expand(have int) ([]sched.Node, error) {
	count := max(1, g.Count)
	switch {
	case g.Count < 0 || have+count > maxNodes:
		return nil, fmt.Errorf("count = %d; want 1 or more, and at most %d nodes in all", g.Count, maxNodes)
	case g.Name == "":
		return nil, fmt.Errorf("name is empty; want a name, to which count > 1 adds a number")
	case g.RackNodes < 0:
		return nil, fmt.Errorf("rack_nodes = %d; want 0 (all in one rack) or more", g.RackNodes)
	}
	node := sched.Node{
		Name: g.Name, GPUs: g.GPUs, Type: sched.GPUType(strings.ToLower(string(g.Type))),
		GPUMemory: g.GPUMemory, CPUs: g.CPUs, Memory: g.Memory, Rack: g.Rack, Labels: slices.Sorted(slices.Values(g.Marks)), Dedicated: g.Kept,
	}
	for _, island := range g.NVLink {
		var set sched.GPUSet
		for _, i := range island {
			if i < 0 || i >= g.GPUs || i >= sched.MaxGPUs {
				return nil, fmt.Errorf("nvlink: GPU %d; want 0 to %d", i, g.GPUs-1)
			}
			set |= 1 << i
		}
		node.Islands = append(node.Islands, set)
	}
	nodes := make([]sched.Node, count)
	for i := range nodes {
		nodes[i] = node
		if count > 1 {
			nodes[i].Name = fmt.Sprintf("%s%d", g.Name, i)
		}
		if g.RackNodes > 0 {
			nodes[i].Rack = fmt.Sprintf("%s%d", g.Rack, i/g.RackNodes)
		}
		for _, d := range g.Domains {
			if d.Nodes < 0 {
				return nil, fmt.Errorf("domains: nodes = %d of a %s; want 0 (all in one) or more", d.Nodes, d.Level)
			}
			name := d.Name
			if d.Nodes > 0 {
				name = fmt.Sprintf("%s%d", d.Name, i/d.Nodes)
			}
			nodes[i].Domains = append(nodes[i].Domains, sched.Domain{Level: d.Level, Name: name})
		}
	}
	return nodes, nil
}
