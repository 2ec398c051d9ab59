// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// Streams of random numbers, one for each purpose.
const (
	needStream = 0x6e656564 << 32
	missStream = 0x6d697373 << 32
	nodeStream = 0x6e6f6465 << 32
	hitStream  = 0x68697400 << 32
)

// draw returns a number from 0 to 1 that depends only on the seed, the stream and an
// index.
func (f *faults) draw(stream uint64, index int) float64 {
	return rand.New(rand.NewPCG(f.Seed, stream+uint64(index))).Float64()
}

func pow(x, y float64) float64 { return math.Exp(y * math.Log(x)) }

// badNodes says when each node is bad: good and bad times alternate and are
// exponentially distributed.
type badNodes struct {
	good, bad float64 // mean seconds
	nodes     []badNode
}

type badNode struct {
	rnd   *rand.Rand
	times []badTime // so far
	until float64   // seconds until which they are known
}

type badTime struct{ from, to float64 } // seconds

func newBadNodes(f FaultConfig, n int) badNodes {
	if f.BadNodes == 0 {
		return badNodes{}
	}
	b := badNodes{bad: f.BadFor.Seconds(), nodes: make([]badNode, n)}
	b.good = b.bad * (1 - f.BadNodes) / f.BadNodes
	for i := range b.nodes {
		b.nodes[i].rnd = rand.New(rand.NewPCG(f.Seed, nodeStream+uint64(i)))
	}
	return b
}

// next returns the first time at or after t during which the node is bad.
func (b *badNodes) next(node int, t float64) badTime {
	n := &b.nodes[node]
	for n.until <= t {
		from := n.until + n.rnd.ExpFloat64()*b.good
		n.until = from + n.rnd.ExpFloat64()*b.bad
		n.times = append(n.times, badTime{from, n.until})
	}
	i, _ := slices.BinarySearchFunc(n.times, t, func(x badTime, t float64) int {
		if x.to > t {
			return 1
		}
		return -1
	})
	return n.times[i]
}

// isBad reports whether a node was bad at any time from from to now.
func (b *badNodes) isBad(node int, from, now time.Duration) bool {
	return len(b.nodes) > 0 && b.next(node, max(0, from).Seconds()).from <= now.Seconds()
}

// predictNodeFailure computes, once for each start, when a bad node will break the attempt.
func (r *run) predictNodeFailure(j *job) {
	f := r.faults
	if f == nil || len(f.nodes.nodes) == 0 || j.foreseen == j.state.Starts {
		return
	}
	j.foreseen, j.hit = j.state.Starts, 0
	now := r.now.Seconds()
	for _, s := range j.setting.placement {
		// The survival time of an attempt is drawn for each start on each node.
		stream := hitStream + uint64(j.result)<<20 + uint64(j.state.Starts)<<40 + uint64(s.Node)
		survives := rand.New(rand.NewPCG(f.Seed, stream)).ExpFloat64() * f.BadAfter.Seconds()
		bad := f.nodes.next(int(s.Node), now)
		at := max(now, bad.from) + survives
		if at < bad.to && at < math.MaxInt64/2e9 {
			if hit := time.Duration(at * 1e9); j.hit == 0 || hit < j.hit {
				j.hit, j.hitBy = hit, int(s.Node)
			}
		}
	}
}

// nodeReasons are the failures that bad nodes cause, by share.
var nodeReasons = []struct {
	share  float64
	reason string
}{{0.6, "CUDA failure"}, {0.25, "CUDA init failed"}, {0.15, "MPI runtime failure"}}

// failOnNode ends an attempt because of a bad node. Jobs on one node do not use MPI.
func (r *run) failOnNode(j *job) error {
	f := r.faults
	u := f.draw(hitStream, j.result<<20+j.state.Starts)
	reason := nodeReasons[0].reason
	for _, n := range nodeReasons {
		if reason = n.reason; u < n.share {
			break
		}
		u -= n.share
	}
	if len(j.setting.placement) == 1 && kinds[reason].gang {
		reason = nodeReasons[0].reason
	}
	f.sum.NodeFailures++
	node := j.hitBy
	j.hit = 0
	return r.failFor(j, reason, node)
}

// blamed returns the nodes that a failure is blamed on: where CUDA fails, the node of
// the failing rank; else all nodes of the job.
func (r *run) blamed(j *job, reason string, byNode int) []string {
	if byNode >= 0 && !kinds[reason].gang {
		return []string{r.Cluster.Nodes[byNode].Name}
	}
	names := make([]string, 0, len(j.setting.placement))
	for _, s := range j.setting.placement {
		names = append(names, r.Cluster.Nodes[s.Node].Name)
	}
	slices.Sort(names)
	return names
}

// reportFailure tells the quarantine about a failed attempt.
func (r *run) reportFailure(j *job, a diagnose.Attempt) error {
	return r.applyQuarantine(diagnose.NodeEvent{
		Kind: diagnose.AttemptLost, Nodes: a.Nodes, Job: string(j.work.ID), User: j.work.User, Finding: a.Finding,
	})
}

// recordSuccess records a successful attempt; the quarantine gets it with the next event.
func (r *run) recordSuccess(j *job) {
	if f := r.faults; f != nil && f.quarant != nil && !j.failing {
		f.good = append(f.good, diagnose.NodeEvent{
			At: r.start.Add(r.now), Kind: diagnose.AttemptDone, Nodes: r.blamed(j, "", -1), Job: string(j.work.ID), User: j.work.User,
		})
	}
}

// applyQuarantine passes an event to the quarantine and carries out its response. A
// node that is due for a probe is probed at once, and the probe is always right.
func (r *run) applyQuarantine(e diagnose.NodeEvent) error {
	f := r.faults
	if f == nil || f.quarant == nil {
		return nil
	}
	e.At = r.start.Add(r.now)
	todo := append(f.good, e)
	f.good = nil
	for len(todo) > 0 {
		changes := f.quarant.Apply(todo[0])
		todo = todo[1:]
		for _, c := range changes {
			i, _ := r.Cluster.Node(c.Node)
			state := sched.Cordoned
			switch c.State {
			case diagnose.Withheld:
				continue
			case diagnose.Probing:
				probe := diagnose.NodeEvent{At: e.At, Kind: diagnose.ProbeGood, Nodes: []string{c.Node}}
				if f.nodes.isBad(i, r.now, r.now) {
					probe.Kind = diagnose.ProbeBad
				}
				todo = append(todo, probe)
				continue
			case diagnose.InUse:
				state = sched.Ready
			}
			if err := r.cordon(i, state, c.Until, e.Finding.Node); err != nil {
				return err
			}
		}
	}
	return nil
}

// cordon takes a node out of use until a time, or puts it back. sure: a recorded
// failure alone proves that it is bad.
func (r *run) cordon(i int, state sched.NodeState, until time.Time, sure bool) error {
	f := r.faults
	node := r.state.Cluster().Nodes[i]
	_, was := f.out[node.Name]
	if state == sched.Ready {
		delete(f.out, node.Name)
	} else {
		f.out[node.Name] = until.Sub(r.start)
		bad := sure || f.nodes.isBad(i, r.now-diagnose.DefaultQuarantine().Window, r.now)
		f.sum.quarantined(r.now, until.Sub(r.start), bad, was)
	}
	r.dirty = true
	if node.State == state {
		return nil
	}
	node.State = state
	return r.apply(sched.Event{Kind: sched.NodeJoined, Node: &node})
}

// nextRelease returns when the first quarantine ends, while there are jobs to which
// it matters.
func (r *run) nextRelease() (time.Duration, bool) {
	if r.faults == nil || len(r.faults.out) == 0 || r.state.Jobs() == 0 {
		return 0, false
	}
	return slices.Min(slices.Collect(maps.Values(r.faults.out))), true
}

// release lets the quarantine check the nodes whose time is up.
func (r *run) release() error {
	if at, ok := r.nextRelease(); ok && at <= r.now {
		return r.applyQuarantine(diagnose.NodeEvent{Kind: diagnose.Tick})
	}
	return nil
}
