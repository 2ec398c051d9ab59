// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// hardware is the state of a run's hardware; nil: it does not fail.
type hardware struct {
	HardwareConfig
	rnd     *rand.Rand
	mean    time.Duration // between two failures in the cluster
	ends    []int         // GPUs of the nodes up to and including each
	next    strike
	away    []trouble     // nodes that are out of use or slow
	spares  []int         // nodes
	back    int           // nodes that were repaired
	absent  time.Duration // how long they were out of use, in all
	summary HardwareSummary
}

// strike is the next failure. Everything that it may need is drawn with it, so that the
// same failures strike whatever is done about them.
type strike struct {
	at       time.Duration
	kind     float64 // 0 to 1: which of the rates
	gpu      int     // in the cluster
	node     float64 // 0 to 1: below NodeShare, the node must be repaired
	duration float64 // relative to the mean
}

// trouble is a node that is out of use, or slow, until a time.
type trouble struct {
	node   int
	repair time.Duration // how long it takes
	slow   bool
	until  time.Duration
	found  time.Duration // when a slow node will be found; 0: no job runs on it, or nobody looks
}

const hardwareStream = 0x68617264 << 32

func (r *run) openHardware() error {
	if r.Hardware == nil {
		return nil
	}
	h := &hardware{HardwareConfig: *r.Hardware}
	h.rnd = rand.New(rand.NewPCG(h.Seed, hardwareStream))
	all := 0
	for _, n := range r.Cluster.Nodes {
		all += n.GPUs
		h.ends = append(h.ends, all)
	}
	h.mean = math.MaxInt64 / 4
	if perHour := (h.Lost + h.Hangs + h.Slow) * float64(all); perHour > 0 {
		h.mean = time.Duration(min(math.MaxInt64/4, float64(time.Hour)/perHour))
	}
	h.draw()
	r.hardware = h
	for i := len(r.Cluster.Nodes) - h.Spares; i < len(r.Cluster.Nodes); i++ {
		if err := r.putBack(i); err != nil {
			return err
		}
	}
	return nil
}

// outages is what is learned from the nodes that were repaired so far.
func (h *hardware) outages(now time.Duration, nodes int) sched.Outages {
	return diagnose.Outages(h.back, h.absent, time.Duration(nodes)*now-h.absent)
}

// draw finds the failure after the next one.
func (h *hardware) draw() {
	h.next = strike{
		at: h.next.at + max(1, gap(h.rnd.ExpFloat64(), h.mean)), kind: h.rnd.Float64(), gpu: h.rnd.IntN(h.ends[len(h.ends)-1]),
		node: h.rnd.Float64(), duration: h.rnd.ExpFloat64(),
	}
}

// nextFailure returns when the next node fails or is back. Without other events nothing
// fails: else a run whose jobs can never start would not end.
func (r *run) nextFailure(others bool) (at time.Duration, ok bool) {
	h := r.hardware
	if h == nil || r.ended == len(r.jobs) {
		return 0, false
	}
	if others {
		at, ok = h.next.at, true
	}
	for _, t := range h.away {
		due := t.until
		if t.found > 0 {
			due = min(due, t.found)
		}
		if !ok || due < at {
			at, ok = due, true
		}
	}
	return at, ok
}

// failHardware handles the failures and repairs that are due.
func (r *run) failHardware() error {
	h := r.hardware
	if h == nil {
		return nil
	}
	for i := 0; i < len(h.away); {
		t := h.away[i]
		found := t.found > 0 && t.found <= r.now
		if t.until > r.now && !found {
			i++
			continue
		}
		h.away = slices.Delete(h.away, i, i+1)
		err := error(nil)
		switch {
		case found && t.until > r.now:
			h.summary.Found++
			err = r.replace(t)
		case t.slow:
			err = r.adjustNode(t.node)
		default:
			h.back++
			h.absent += t.repair
			err = r.putBack(t.node)
		}
		if err != nil {
			return err
		}
	}
	for h.next.at <= r.now {
		s := h.next
		h.draw()
		if s.at < r.now {
			continue // nothing ran
		}
		if err := r.strike(s); err != nil {
			return err
		}
	}
	return nil
}

// strike lets a failure happen.
func (r *run) strike(s strike) error {
	h := r.hardware
	node, _ := slices.BinarySearch(h.ends, s.gpu+1)
	if r.state.Cluster().Nodes[node].State == sched.Down {
		return nil
	}
	all := h.Lost + h.Hangs + h.Slow
	t := trouble{node: node, repair: gap(s.duration, h.Repair.D())}
	switch kind := s.kind * all; {
	case kind < h.Lost && s.node < h.NodeShare:
		h.summary.Nodes++
		jobs := r.neighbours.onNode[node]
		if len(jobs) == 0 {
			return r.replace(t)
		}
		for _, j := range jobs {
			if err := r.stall(j, h.DetectLost.D(), &t); err != nil {
				return err
			}
		}
		return nil
	case kind < h.Lost:
		return r.strikeRank(s.gpu, node, h.DetectLost.D(), &h.summary.Ranks)
	case kind < h.Lost+h.Hangs:
		return r.strikeRank(s.gpu, node, h.DetectHang.D(), &h.summary.Hangs)
	}
	if slices.ContainsFunc(h.away, func(t trouble) bool { return t.node == node }) {
		return nil
	}
	h.summary.Slow++
	t.slow, t.until = true, r.now+gap(s.duration, h.SlowFor.D())
	h.away = append(h.away, t)
	return r.adjustNode(node)
}

// strikeRank stops the jobs that run on a GPU.
func (r *run) strikeRank(gpu, node int, detect time.Duration, count *int) error {
	bit := sched.GPUSet(1) << (gpu - (r.hardware.ends[node] - r.Cluster.Nodes[node].GPUs))
	for _, j := range r.neighbours.onNode[node] {
		for _, s := range j.setting.placement {
			if int(s.Node) == node && s.GPUs&bit != 0 {
				*count++
				if err := r.stall(j, detect, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stall stops the progress of a job until its failure is detected. lost is the node that
// fails with it; nil: none.
func (r *run) stall(j *job, detect time.Duration, lost *trouble) error {
	w := j.hardware
	j.settle(r.now)
	if w.detected == 0 {
		w.broke, w.speed, w.detected = r.now, j.speed, r.now+detect
	}
	w.detected = min(w.detected, r.now+detect)
	if lost != nil {
		w.lost = append(w.lost, *lost)
	}
	return r.adjustJob(j)
}

// recover ends the attempt of a job whose failure is detected: it goes back to its last
// checkpoint, and waits for GPUs.
func (r *run) recover(j *job) error {
	h, w := r.hardware, j.hardware
	lost := w.lost
	near := h.survives(len(lost))
	r.rollBack(j, near)
	w.lost, w.detected, w.recovery = nil, 0, h.Launch.D()+h.load(near)
	const why = "hardware failed"
	r.logEnd("fail", j, why)
	r.leave(j)
	if err := r.retryAfter(j, diagnose.Advice{}, why); err != nil {
		return err
	}
	for _, t := range lost {
		if err := r.replace(t); err != nil {
			return err
		}
	}
	return nil
}

// replace takes a node out of use for a repair, and a spare into use. Jobs that have
// failed with the node, undetected so far, end; others on it save their work and leave.
func (r *run) replace(t trouble) error {
	h := r.hardware
	for len(r.neighbours.onNode[t.node]) > 0 {
		j := r.neighbours.onNode[t.node][0]
		end := r.recover
		if j.hardware.detected == 0 {
			end = r.evictFromSlow
		}
		if err := end(j); err != nil {
			return err
		}
	}
	if r.state.Cluster().Nodes[t.node].State == sched.Down {
		return nil // another job has lost it too
	}
	t.slow, t.found, t.until = false, 0, r.now+t.repair
	h.away = append(slices.DeleteFunc(h.away, func(o trouble) bool { return o.node == t.node }), t)
	h.spares = slices.DeleteFunc(h.spares, func(n int) bool { return n == t.node })
	if err := r.setNode(t.node, sched.Down); err != nil {
		return err
	}
	r.dirty = true
	if len(h.spares) == 0 {
		return nil
	}
	spare := h.spares[0]
	h.spares = h.spares[1:]
	return r.setNode(spare, sched.Ready)
}

// evictFromSlow stops a job whose node is taken out of use.
func (r *run) evictFromSlow(j *job) error {
	if err := r.dropUnsaved(j); err != nil {
		return err
	}
	h := r.hardware
	near := h.survives(0)
	j.hardware.recovery = h.save(near) + h.Launch.D() + h.load(near)
	return r.evict(j, "a node of it is slow")
}

// putBack lets jobs use a node. It is kept as a spare if they have as many nodes as
// without failures.
func (r *run) putBack(node int) error {
	h := r.hardware
	r.dirty = true
	missing := 0
	for _, t := range h.away {
		if !t.slow {
			missing++
		}
	}
	if missing+len(h.spares) < h.Spares {
		h.spares = append(h.spares, node)
		return r.setNode(node, sched.Cordoned)
	}
	return r.setNode(node, sched.Ready)
}

// adjustNode re-computes the speed of the jobs on a node.
func (r *run) adjustNode(node int) error {
	for _, j := range slices.Clone(r.neighbours.onNode[node]) {
		if err := r.adjustJob(j); err != nil {
			return err
		}
	}
	return nil
}
