// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim/autoscale"
)

// AutoscaleConfig makes the cluster of a run a cloud cluster: nodes are ordered when
// needed, and cost money. Config.Cluster describes all nodes it can have, of one
// kind. The run starts with Min of them.
type AutoscaleConfig struct {
	autoscale.Config
	Every time.Duration // between two checks of the cluster; 0: Config.Interval, or a minute
	Delay time.Duration // from the order of a node until it accepts work
	Price float64       // of a node per hour; charged by the second from its order on
}

// DefaultAutoscale returns the defaults of package autoscale for a cluster of that
// size: a node starts in two minutes (an assumption) and has the on-demand price, in
// dollars, of the paper's machines with four T4 (g4dn.12xlarge).
func DefaultAutoscale(least, most int) AutoscaleConfig {
	return AutoscaleConfig{Config: autoscale.Default(least, most), Delay: 2 * time.Minute, Price: 3.912}
}

// AutoscaleSummary is the size and cost of a cloud cluster over a run.
type AutoscaleSummary struct {
	Rule      autoscale.Rule `json:"rule"`
	Min       int            `json:"min_nodes"`
	Max       int            `json:"max_nodes"`
	Most      int            `json:"most_nodes"` // paid for at the same time
	Outs      int            `json:"scale_outs"`
	Ins       int            `json:"scale_ins"`
	NodeHours float64        `json:"node_hours"` // paid for
	Cost      float64        `json:"cost"`
}

// NodePoint is the number of nodes from T on.
type NodePoint struct {
	T        float64 `json:"t_s"`
	Ready    int     `json:"ready"`
	Starting int     `json:"starting"`
}

func (a *AutoscaleConfig) check(c *sched.Cluster) error {
	if a == nil {
		return nil
	}
	if err := a.Validate(); err != nil {
		return fmt.Errorf("simulate: autoscale: %w", err)
	}
	switch {
	case a.Max > len(c.Nodes):
		return fmt.Errorf("simulate: autoscale: max = %d; the cluster describes %d nodes, want as many", a.Max, len(c.Nodes))
	case a.Every < 0 || a.Delay < 0:
		return fmt.Errorf("simulate: autoscale: every = %s, delay = %s; want 0 or more", a.Every, a.Delay)
	case !(a.Price >= 0) || math.IsInf(a.Price, 1):
		return fmt.Errorf("simulate: autoscale: price = %g; want 0 or more for each hour", a.Price)
	}
	for _, n := range c.Nodes {
		if first := c.Nodes[0]; n.GPUs != first.GPUs || n.Type != first.Type || n.State != sched.Ready {
			return fmt.Errorf("simulate: autoscale: node %s is not like node %s; want nodes of one kind, all ready", n.Name, first.Name)
		}
	}
	return nil
}

// reportCloud sums the cost until the last job ended, or until the end of the run.
func (r *run) reportCloud(res *Result) {
	c := r.cloud
	if c == nil {
		return
	}
	first, end := time.Duration(0), r.now
	if len(r.jobs) > 0 {
		first = r.arrival(0)
	}
	if res.Unfinished == 0 {
		end = first + time.Duration(math.Round(res.Makespan*1e9))
	}
	paid, ready := c.paid, c.ready
	for _, n := range c.nodes {
		if n.there {
			paid += end - n.ordered
			ready += max(0, end-n.up)
		}
	}
	// Nodes from before the first job are not counted.
	ready -= time.Duration(c.Min) * min(first, end)
	c.summary.NodeHours = paid.Hours()
	c.summary.Cost = paid.Hours() * c.Price
	res.Autoscale, res.Nodes = &c.summary, c.points
	res.Allocation = 0
	if gpus := ready.Seconds() * float64(r.Cluster.Nodes[0].GPUs); gpus > 0 {
		res.Allocation = res.GPUSeconds / gpus
	}
}
