// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim/autoscale"
)

// cloud provides the nodes of a run. In the state of the run, nodes that it does not
// have are Down.
type cloud struct {
	AutoscaleConfig
	scaler *autoscale.Scaler
	nodes  []cloudNode   // by index in the cluster
	target int           // desired number of nodes
	look   time.Duration // next check by the scaler
	up     time.Duration // when the next node has started; 0: none is starting
	quiet  int           // checks since nothing else was scheduled

	paid, ready time.Duration // of released nodes: time paid for, and time accepting work
	summary     AutoscaleSummary
	points      []NodePoint
}

// cloudNode is one node; it costs money from ordered on and accepts work from up on.
type cloudNode struct {
	there       bool
	ordered, up time.Duration
}

// openCloud removes the nodes that the cluster does not start with.
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

// count returns the nodes that accept work and those that are starting.
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
	n := len(c.points)
	if n > 0 && c.points[n-1].T == p.T {
		n--
		c.points = c.points[:n]
	}
	if n == 0 || c.points[n-1].Ready != p.Ready || c.points[n-1].Starting != p.Starting {
		c.points = append(c.points, p)
	}
}

// nextInCloud returns when the next change of nodes or check is due; others says
// whether any other event is scheduled. If there is none and jobs cannot end, the
// scaler checks often enough to fill its window, and then the run is over.
func (r *run) nextInCloud(others bool) (time.Duration, bool) {
	c := r.cloud
	if c == nil || r.ended == len(r.jobs) {
		return 0, false
	}
	if others || c.up > 0 {
		c.quiet = 0
	}
	switch looks := c.quiet <= c.Window+1; {
	case looks && c.up > 0:
		return min(c.look, c.up), true
	case looks:
		return c.look, true
	}
	return c.up, c.up > 0
}

// scale handles what is due in the cloud: nodes that have started accept work, and
// the scaler checks the cluster.
func (r *run) scale() error {
	c := r.cloud
	if c == nil || r.ended == len(r.jobs) {
		return nil
	}
	if c.up > 0 && c.up <= r.now {
		if err := r.startNodes(); err != nil {
			return err
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
		}
	}
	for i := len(c.nodes) - 1; i >= 0 && ready+starting > want && starting > 0; i-- {
		if n := c.nodes[i]; n.there && n.up > r.now {
			c.release(i, r.now)
			starting--
		}
	}
	// Nodes that accept work are released just before the next decision.
	r.dirty = r.dirty || ready+starting > want
	return r.startNodes()
}

// startNodes lets nodes that have started accept work, and finds when the next one will.
func (r *run) startNodes() error {
	c := r.cloud
	c.up = 0
	for i, n := range c.nodes {
		switch {
		case n.there && n.up > r.now:
			if c.up == 0 || n.up < c.up {
				c.up = n.up
			}
		case n.there && r.state.Cluster().Nodes[i].State == sched.Down:
			if err := r.setNode(i, sched.Ready); err != nil {
				return err
			}
			r.dirty = true
		}
	}
	c.point(r.now)
	return nil
}

func (r *run) setNode(i int, s sched.NodeState) error {
	n := r.state.Cluster().Nodes[i]
	n.State = s
	return r.apply(sched.Event{Kind: sched.NodeJoined, Node: &n})
}

// release stops paying for a node.
func (c *cloud) release(i int, now time.Duration) {
	c.paid += now - c.nodes[i].ordered
	c.ready += max(0, now-c.nodes[i].up)
	c.nodes[i] = cloudNode{}
}

// releaseNodes releases surplus nodes, those with the least work to lose first. Their
// jobs stop, and the next decision places them again. Nodes with a non-preemptible
// job stay.
func (r *run) releaseNodes() error {
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
			v.held += j.setting.gpus // a gang that loses one node stops on all of them
			pinned = pinned || j.work.NonPreemptible
		}
		if !pinned {
			victims = append(victims, v)
		}
	}
	slices.SortFunc(victims, func(a, b victim) int { return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(b.node, a.node)) })
	for _, v := range victims[:min(len(victims), ready+starting-c.target)] {
		for _, j := range slices.Clone(r.neighbours.onNode[v.node]) {
			if err := r.evict(j, "a node of it is given back"); err != nil {
				return err
			}
		}
		c.release(v.node, r.now)
		if err := r.setNode(v.node, sched.Down); err != nil {
			return err
		}
	}
	c.point(r.now)
	return nil
}

// evict stops a job whose node is taken from it.
func (r *run) evict(j *job, why string) error {
	if r.Log != nil {
		r.Log(LogEntry{
			T: r.now.Seconds(), Decision: r.decisions, Verb: sched.Stop.String(), Job: j.work.ID,
			GPUs: j.setting.gpus, Where: j.setting.placement.Text(r.Cluster), Why: why,
		})
	}
	r.leave(j)
	return r.apply(sched.Event{Kind: sched.JobStopped, Job: j.work.ID})
}
