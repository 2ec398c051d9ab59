// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// recorded is a job with a known run time at the size it asked for, well placed. Its
// work is counted in seconds of it, or in epochs if its batch size changes.
type recorded struct {
	seconds  float64
	regimes  []Regime
	ends     []float64 // epochs done at the end of each regime
	asked    int
	slowdown func(sched.Level) float64
	best     float64 // slowdown of the best placement in the cluster
	fewest   int     // nodes of that placement
	spread   bool    // apply the loss by spreading over more nodes
	// model and recordedOn say how the speed depends on the GPU type, where the model
	// is known; nil: not at all.
	model      *zoo.Model
	recordedOn sched.GPUType
	start      launch
}

// spreadSpeed is the relative speed of a job of unknown model on more nodes than it
// needs: Philly's utilisation of 16-GPU jobs on 2, 4 and 8 servers (43.66, 40.94 and
// 28.56 %), relative to 2 servers.
var spreadSpeed = [...]float64{1, 0.94, 0.65}

// unknownSlowdown is the slowdown by level of a job of unknown model: Philly's
// ResNet-50 on two servers runs at 0.854 of its speed on one. There is no published
// figure across racks; Ethernet instead of InfiniBand is assumed to cost the same
// again.
func unknownSlowdown(l sched.Level) float64 {
	switch l {
	case sched.SameRack:
		return 1 / 0.854
	case sched.CrossRack:
		return 1 / (0.854 * 0.854)
	}
	return 1
}

func newRecorded(c *Config, w *Work) *recorded {
	r := &recorded{
		seconds: w.RunTime.D().Seconds(), asked: w.GPUs,
		slowdown: unknownSlowdown, spread: true, start: launch{c.launchOf(w.Model).cost, true},
	}
	if m, ok := c.Zoo.Model(w.Model); ok {
		r.slowdown, r.spread = m.SlowdownAt, false
		r.model, r.recordedOn = m, c.reference(w)
	}
	// A gang larger than any node was spread when its run time was recorded.
	r.fewest = 1
	level := sched.SameSlot
	if most := c.Cluster.MaxGPUs(); most > 0 && w.GPUs > most {
		r.fewest = (w.GPUs + most - 1) / most
		level = sched.SameRack
	}
	r.best = r.slowdown(level)
	epochs := 0.0
	for _, g := range w.Regimes {
		epochs += g.Epochs
		r.regimes, r.ends = append(r.regimes, g), append(r.ends, epochs)
	}
	return r
}

func (r *recorded) total() float64 {
	if n := len(r.ends); n > 0 {
		return r.ends[n-1]
	}
	return r.seconds
}

func (r *recorded) rate(done float64, s setting) (rate, until float64, err error) {
	if len(r.regimes) == 0 {
		return r.speed(s), math.Inf(1), nil
	}
	k := r.regime(done)
	return r.speed(s) / r.regimes[k].epochTime(), r.ends[k], nil
}

// regime returns the index of the regime after that many epochs.
func (r *recorded) regime(done float64) int {
	k, last := 0, len(r.ends)-1
	for k < last && r.ends[k] <= done {
		k++
	}
	return k
}

// epochTime returns the seconds of an epoch.
func (g Regime) epochTime() float64 { return g.Time.D().Seconds() / g.Epochs }

// report returns what the job reports about its regimes after that many epochs. Those
// of the same batch size count as one.
func (r *recorded) report(done float64) *goodput.Report {
	out := &goodput.Report{MostGPUs: r.asked}
	begin, now := 0.0, r.regime(done)
	for k, g := range r.regimes {
		at := slices.IndexFunc(out.Regimes, func(x goodput.Regime) bool { return x.Batch == g.Batch })
		if at < 0 {
			at = len(out.Regimes)
			out.Regimes = append(out.Regimes, goodput.Regime{Batch: g.Batch, Time: g.epochTime()})
		}
		x := &out.Regimes[at]
		x.Done += max(0, min(done, r.ends[k])-begin)
		x.Current = x.Current || k == now
		begin = r.ends[k]
	}
	return out
}

// speed returns the speed on a setting relative to the size it asked for, well placed.
func (r *recorded) speed(s setting) float64 {
	speed := float64(s.gpus) / float64(r.asked)
	speed *= r.typeSpeed(s.gpuType)
	if s.gpus > 1 {
		speed *= r.best / r.slowdown(s.level)
	}
	if r.spread && r.asked > 1 {
		speed *= spreadLoss(len(s.placement), r.fewest)
	}
	return speed
}

// typeSpeed returns the speed of one GPU of a type relative to the type of the
// recording; 1 where one of them is unknown.
func (r *recorded) typeSpeed(t sched.GPUType) float64 {
	if r.model == nil || t == r.recordedOn {
		return 1
	}
	then, ok1 := r.model.StepTimeOn(r.recordedOn)
	now, ok2 := r.model.StepTimeOn(t)
	if !ok1 || !ok2 {
		return 1
	}
	return then / now
}

func (r *recorded) restart(first bool, nodes int) time.Duration { return r.start.again(first, nodes) }

// spreadLoss interpolates spreadSpeed over the logarithm of the ratio of nodes held
// to nodes needed.
func spreadLoss(nodes, fewest int) float64 {
	x := math.Log2(float64(nodes) / float64(fewest))
	last := len(spreadSpeed) - 1
	switch {
	case x <= 0:
		return 1
	case x >= float64(last):
		return spreadSpeed[last]
	}
	i := int(x)
	return spreadSpeed[i] + (x-float64(i))*(spreadSpeed[i+1]-spreadSpeed[i])
}
