// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/autoscale"
	"github.com/fairway-gpu/fairway/sched"
)

// AutoscaleConfig makes the cluster of a run one in a cloud: its nodes are
// there when they are needed, and cost money. Config.Cluster describes the nodes
// that there can be, all of one kind. Min of them are there at the start.
type AutoscaleConfig struct {
	autoscale.Config
	Every time.Duration // between two looks at the cluster; 0: Config.Interval, or a minute
	Delay time.Duration // from the order of a node until it takes work
	Price float64       // of a node for an hour; paid by the second from its order on
}

// DefaultAutoscale returns the settings of the Pollux paper for a cluster of
// that many nodes: two minutes for a node to start (an assumption), and the
// price on demand of the paper's machines with four T4 (g4dn.12xlarge), in
// dollars.
func DefaultAutoscale(least, most int) AutoscaleConfig {
	return AutoscaleConfig{Config: autoscale.Default(least, most), Delay: 2 * time.Minute, Price: 3.912}
}

// AutoscaleSummary is what became of a cluster in a cloud.
type AutoscaleSummary struct {
	Rule      autoscale.Rule `json:"rule"`
	Min       int            `json:"min_nodes"`
	Max       int            `json:"max_nodes"`
	Most      int            `json:"most_nodes"` // paid for at once
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

// cloud is where the nodes of a run come from. In the state of the run, nodes
// that are not there are Down.
type cloud struct {
	AutoscaleConfig
	scaler *autoscale.Scaler
	nodes  []cloudNode   // by index in the cluster
	target int           // nodes there should be
	look   time.Duration // when the scaler next looks
	quiet  int           // looks at which nothing else was to come

	paid, ready time.Duration // of nodes given back: paid for, and taking work
	summary     AutoscaleSummary
	points      []NodePoint
}

// cloudNode is one node; it is paid for from ordered on and takes work from up
// on.
type cloudNode struct {
	there       bool
	ordered, up time.Duration
}

// openCloud takes away the nodes that are not there at the start.
func (r *run) openCloud() error {
	a := r.Autoscale
	if a == nil {
		return nil
	}
	c := &cloud{AutoscaleConfig: *a, nodes: make([]cloudNode, len(r.Cluster.Nodes)), target: a.Min}
	c.summary = AutoscaleSummary{Rule: a.Rule, Min: a.Min, Max: a.Max, Most: a.Min}
	if c.Every == 0 {
		c.Every = cmp.Or(r.Interval, time.Minute)
	}
	c.look = c.Every
	var err error
	if c.scaler, err = autoscale.New(a.Config); err != nil {
		return err
	}
	nodes := slices.Clone(r.Cluster.Nodes)
	for i := range nodes {
		if c.nodes[i].there = i < a.Min; !c.nodes[i].there {
			nodes[i].State = sched.Down
		}
	}
	cluster, err := sched.NewCluster(nodes)
	if err != nil {
		return err
	}
	r.state, r.cloud = sched.NewState(cluster), c
	c.point(0)
	return nil
}

// count returns the nodes that take work and those that will.
func (c *cloud) count(now time.Duration) (ready, starting int) {
	for _, n := range c.nodes {
		switch {
		case n.there && n.up <= now:
			ready++
		case n.there:
			starting++
		}
	}
	return ready, starting
}

func (c *cloud) point(now time.Duration) {
	p := NodePoint{T: now.Seconds()}
	p.Ready, p.Starting = c.count(now)
	c.summary.Most = max(c.summary.Most, p.Ready+p.Starting)
	if n := len(c.points); n > 0 && c.points[n-1].T == p.T {
		c.points = c.points[:n-1]
	}
	c.points = append(c.points, p)
}

// nextInCloud returns when something happens to the nodes; others says whether
// anything else is to come. Without an end to the jobs and with nothing else to
// come, the scaler looks often enough to fill its window, and then no more: the
// run is over.
func (r *run) nextInCloud(others bool) (time.Duration, bool) {
	c := r.cloud
	if c == nil || r.ended == len(r.jobs) {
		return 0, false
	}
	at, ok := time.Duration(math.MaxInt64), false
	for _, n := range c.nodes {
		if n.there && n.up > r.now {
			at, ok = min(at, n.up), true
		}
	}
	if others || ok {
		c.quiet = 0
	}
	if c.quiet <= c.Window+1 {
		at, ok = min(at, c.look), true
	}
	return at, ok
}

// scale lets happen what is due in the cloud: nodes that have started take
// work, and the scaler looks.
func (r *run) scale() error {
	c := r.cloud
	if c == nil {
		return nil
	}
	for i, n := range c.nodes {
		if n.there && n.up <= r.now && r.state.Cluster().Nodes[i].State == sched.Down {
			if err := r.setNode(i, sched.Ready); err != nil {
				return err
			}
			r.dirty = true
		}
	}
	if r.now < c.look {
		return nil
	}
	c.look += c.Every
	c.quiet++
	want := c.scaler.Desired(r.state.Snapshot(r.start.Add(r.now)), c.target)
	if want > c.target {
		c.summary.Outs++
	} else if want < c.target {
		c.summary.Ins++
	}
	c.target = want
	ready, starting := c.count(r.now)
	for i := 0; i < len(c.nodes) && ready+starting < want; i++ {
		if !c.nodes[i].there {
			c.nodes[i] = cloudNode{there: true, ordered: r.now, up: r.now + c.Delay}
			starting++
			if c.Delay == 0 {
				if err := r.setNode(i, sched.Ready); err != nil {
					return err
				}
			}
			r.dirty = true
		}
	}
	for i := len(c.nodes) - 1; i >= 0 && ready+starting > want && starting > 0; i-- {
		if n := c.nodes[i]; n.there && n.up > r.now {
			c.release(i, r.now)
			starting--
		}
	}
	// What takes work is given back just before the next decision.
	r.dirty = r.dirty || ready+starting > want
	c.point(r.now)
	return nil
}

func (r *run) setNode(i int, s sched.NodeState) error {
	n := r.state.Cluster().Nodes[i]
	n.State = s
	if err := r.apply(sched.Event{Kind: sched.NodeJoined, Node: &n}); err != nil {
		return err
	}
	r.cloud.point(r.now)
	return nil
}

// release stops paying for a node.
func (c *cloud) release(i int, now time.Duration) {
	c.paid += now - c.nodes[i].ordered
	c.ready += max(0, now-c.nodes[i].up)
	c.nodes[i] = cloudNode{}
}

// giveBack gives nodes back that are too many: those on which the least is
// lost. Their jobs stop, and the decision that follows places them anew. Nodes
// with a job that may not be stopped stay.
func (r *run) giveBack() error {
	c := r.cloud
	if c == nil {
		return nil
	}
	ready, starting := c.count(r.now)
	if ready+starting <= c.target {
		return nil
	}
	type victim struct{ node, held int }
	var victims []victim
	for i, n := range c.nodes {
		if !n.there || n.up > r.now {
			continue
		}
		v, pinned := victim{node: i}, false
		for _, j := range r.neighbours.onNode[i] {
			v.held += j.setting.gpus // a gang that loses one node stops on all
			pinned = pinned || j.work.NonPreemptible
		}
		if !pinned {
			victims = append(victims, v)
		}
	}
	slices.SortFunc(victims, func(a, b victim) int { return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(b.node, a.node)) })
	for _, v := range victims[:min(len(victims), ready+starting-c.target)] {
		for _, j := range slices.Clone(r.neighbours.onNode[v.node]) {
			if err := r.evict(j); err != nil {
				return err
			}
		}
		c.release(v.node, r.now)
		if err := r.setNode(v.node, sched.Down); err != nil {
			return err
		}
	}
	return nil
}

// evict stops a job whose node goes.
func (r *run) evict(j *job) error {
	if r.Log != nil {
		r.Log(LogEntry{
			T: r.now.Seconds(), Decision: r.decisions, Verb: sched.Stop.String(), Job: j.work.ID,
			GPUs: j.setting.gpus, Where: j.setting.placement.Text(r.Cluster), Why: "a node of it is given back",
		})
	}
	r.leave(j)
	return r.apply(sched.Event{Kind: sched.JobStopped, Job: j.work.ID})
}

// reportCloud adds up what was paid until the last job ended, or until the end
// of the run.
func (r *run) reportCloud(res *Result) {
	c := r.cloud
	if c == nil {
		return
	}
	end, first := r.now, time.Duration(0)
	if res.Unfinished == 0 {
		end = r.lastEnd
	}
	if len(r.jobs) > 0 {
		first = r.arrival(0)
	}
	paid, ready := c.paid, c.ready
	for _, n := range c.nodes {
		if n.there {
			paid += end - n.ordered
			ready += max(0, end-n.up)
		}
	}
	// The nodes that were there before the first job are not held against it.
	ready -= time.Duration(c.Min) * min(first, end)
	c.summary.NodeHours = paid.Hours()
	c.summary.Cost = paid.Hours() * c.Price
	res.Autoscale, res.Nodes = &c.summary, c.points
	res.Allocation = 0
	if gpus := ready.Seconds() * float64(r.Cluster.Nodes[0].GPUs); gpus > 0 {
		res.Allocation = res.GPUSeconds / gpus
	}
}
