// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Goal   string         `json:"goal" help:"what the allocation optimises: max-min, finish-time, makespan, cost, shortest, max-sum-throughput, fifo, hierarchical or allox"`
	Within string         `json:"within" help:"hierarchical: how the jobs of a tenant share what it gets: fair or in-order (of submission)"`
	Round  sched.Duration `json:"round" help:"time between two allocations; running jobs continue in between"`
	Stick  float64        `json:"stick" help:"factor on the priority of a running job in the next round; 1: as in the paper"`
	Turns  float64        `json:"turns" help:"received time is rounded down to a power of this, so that turns get longer; 1: not rounded, as in the paper"`
	Prices []float64      `json:"prices" help:"cost: price of a GPU of each type, in the order of the cluster's types; none: cloud list prices"`
	SLO    float64        `json:"slo" help:"cost: each job must end within this many times its estimate; 0: no deadline"`

	Sharing float64 `json:"sharing" help:"two jobs may share GPUs if together they are expected to do at least this many times the work of one alone, such as 1.2; 0: no sharing"`
	GPU     string  `json:"gpu" help:"sharing: GPU type whose interference model predicts slowdowns; auto: that of each node, or the published curve"`
	Mode    string  `json:"mode" help:"sharing: how jobs share a GPU: time-slice or mps"`
}

// The values of Config.Goal.
const (
	MaxMin       = "max-min"
	FinishTime   = "finish-time"
	Makespan     = "makespan"
	Cost         = "cost"
	Shortest     = "shortest"
	FIFO         = "fifo"
	Hierarchical = "hierarchical"
	AlloX        = "allox"
)

// Packing is Config.Sharing of the variant packing: a margin above 1 for restarts
// and for predictions that err.
const Packing = 1.2

var goals = []string{MaxMin, FinishTime, Makespan, Cost, Shortest, Throughput, FIFO, Hierarchical, AlloX}

// Default returns the policy's default settings.
func Default() Config {
	return Config{Goal: MaxMin, Within: Fair, Round: sched.Duration(6 * time.Minute), Stick: 2, Turns: 8, GPU: pairing.Auto, Mode: interfere.TimeSlice.String()}
}

func (c Config) validate() error {
	switch {
	case !slices.Contains(goals, c.Goal):
		return fmt.Errorf("goal = %q; want one of %v", c.Goal, goals)
	case c.Within != Fair && c.Within != InOrder:
		return fmt.Errorf("within = %q; want %s or %s", c.Within, Fair, InOrder)
	case c.Goal == AlloX && c.Sharing != 0:
		return fmt.Errorf("sharing = %g; want 0 with goal %s, which matches single jobs", c.Sharing, AlloX)
	case c.Round.D() < time.Second || c.Round.D() > 24*time.Hour:
		return fmt.Errorf("round = %s; want 1s to 24h", c.Round)
	case !(c.Stick >= 1 && c.Stick <= 1e6):
		return fmt.Errorf("stick = %g; want 1 to 1e6", c.Stick)
	case !(c.Turns >= 1 && c.Turns <= 1e6):
		return fmt.Errorf("turns = %g; want 1 to 1e6", c.Turns)
	case !(c.SLO >= 0) || math.IsInf(c.SLO, 1):
		return fmt.Errorf("slo = %g; want 0 (nothing is promised) or more", c.SLO)
	case c.Sharing != 0 && !(c.Sharing >= 1 && c.Sharing <= 1.9):
		return fmt.Errorf("sharing = %g; want 0 (no sharing), or 1 to 1.9", c.Sharing)
	}
	for _, x := range c.Prices {
		if !(x > 0) || math.IsInf(x, 1) {
			return fmt.Errorf("prices has the value %g; want positive numbers", x)
		}
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	mode, err := interfere.ParseMode(c.Mode)
	if err != nil {
		return nil, err
	}
	return &policy{Config: c, slowdowns: slowdownCache{mode: mode, gpu: c.GPU, of: map[string]*slowdownTable{}}}, nil
}

type policy struct {
	Config
	// Caches.
	free      *place.Free
	slowdowns slowdownCache
	memory    memory
}

// memory is what the last decision has left to write into, so that a decision about many
// jobs gives the garbage collector less to do.
type memory struct {
	claims        []claim
	rows          []row
	terms         [][3]float64
	speeds, gains []float64
	rowOf         map[kind]int
}

// listPrices are approximate on-demand prices of a GPU per hour in a public cloud;
// only their ratios matter, and the knob prices replaces them. No large cloud rents
// out RTX 2080 Ti: its price is interpolated.
var listPrices = map[sched.GPUType]float64{
	"k80": 0.45, "t4": 0.35, "rtx": 0.8, "p100": 1.46, "v100": 2.48, "a100": 2.93,
}

// prices returns the price of each type relative to the lowest. A type without one
// costs as much as the most expensive.
func (p *policy) prices(types []sched.GPUType) []float64 {
	out := make([]float64, len(types))
	low, high := math.Inf(1), 0.0
	for t, gpuType := range types {
		out[t] = listPrices[gpuType]
		if t < len(p.Prices) {
			out[t] = p.Prices[t]
		}
		if out[t] > 0 {
			low, high = min(low, out[t]), max(high, out[t])
		}
	}
	for t := range out {
		switch {
		case high == 0:
			out[t] = 1
		case out[t] == 0:
			out[t] = high / low
		default:
			out[t] /= low
		}
	}
	return out
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	claims := p.claims(s)
	r := newRound(p, s, claims)
	if len(claims) > 0 && (r.fresh || r.crowded()) {
		r.shares = p.allocate(s, claims)
	}
	r.run()
	return r.plan
}
