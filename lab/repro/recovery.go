// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/layer/spare"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// RecoveryConfig is the experiment on what failing hardware costs, and what each part of
// the recovery saves.
type RecoveryConfig struct {
	Nodes    int // that the one job needs, with nodeGPUs each
	Days     int // of its training
	Seeds    []uint64
	Jobs     int    // in the mix of jobs on as many nodes
	Policy   string // of the mix
	Progress func(string)
}

// DefaultRecovery is a job of the size for which ByteRobust reports its effective
// training time.
func DefaultRecovery() RecoveryConfig {
	return RecoveryConfig{Nodes: 1200, Days: 30, Seeds: []uint64{1, 2, 3, 4, 5}, Jobs: 1500, Policy: "fifo:backfill"}
}

const (
	nodeGPUs = 8
	fromDisk = "restart from disk"
)

// RecoveryPart is one way to lose less by failures.
type RecoveryPart struct {
	Name, What string
	set        func(*sim.HardwareConfig)
}

// Parts returns them in the order in which they are added.
func (c RecoveryConfig) Parts() []RecoveryPart {
	const s, m = sched.Duration(time.Second), sched.Duration(time.Minute)
	spares := c.priced(sim.DefaultHardware()).Pays()
	return []RecoveryPart{
		{"hangs detected", "after 20 steps of 10 s instead of 10 min", func(h *sim.HardwareConfig) { h.DetectHang = 200 * s }},
		{"stragglers found", "after 2 min instead of never", func(h *sim.HardwareConfig) { h.DetectSlow = 2 * m }},
		{"warm starts", "processes start in 30 s instead of 3 min", func(h *sim.HardwareConfig) { h.Launch = 30 * s }},
		{"checkpoints in memory", "every 2 min for 0.5 s, loaded in 10 s instead of 2 min; a lost node takes them along, and those on the disk, written behind in 0.5 s instead of 20 s, are used", func(h *sim.HardwareConfig) {
			h.MemoryEvery, h.Save = 2*m, s/2
		}},
		{"on a second node", "checkpoints in memory, every 4 min for 1 s, are sent to another node, which has them when one is lost", func(h *sim.HardwareConfig) {
			h.MemoryEvery, h.Save, h.MemorySave, h.MemoryNodes = 4*m, s/2, s, 2
		}},
		{"recovery in place", "a lost rank is noticed in 5 s instead of 1 min; 30 s instead of a restart; at most two steps of 10 s are lost", func(h *sim.HardwareConfig) {
			h.DetectLost, h.Launch, h.Load, h.MemoryLoad, h.Rollback = 5*s, 30*s, 0, 0, 20*s
		}},
		{"spares", fmt.Sprintf("%d nodes instead of none", spares), func(h *sim.HardwareConfig) { h.Spares = spares }},
	}
}

func (c RecoveryConfig) training() time.Duration { return time.Duration(c.Days) * 24 * time.Hour }

// priced is the price of spares for the one job.
func (c RecoveryConfig) priced(h sim.HardwareConfig) spare.Case {
	rate := h.Lost * h.NodeShare
	if h.DetectSlow > 0 {
		rate += h.Slow // they are repaired too
	}
	return spare.Case{
		Nodes: c.Nodes, Rate: nodeGPUs * rate, Repair: h.Repair.D(),
		Gang: float64(nodeGPUs * c.Nodes), GPUs: nodeGPUs,
	}
}

// RecoveryRow is one setting, with a result for each seed.
type RecoveryRow struct {
	Name    string
	Config  sim.HardwareConfig
	Results []*sim.Result
}

// Recovery is the outcome of the experiment.
type Recovery struct {
	Config      RecoveryConfig
	Disk        RecoveryRow   // a restart from disk, without any part
	Alone, With []RecoveryRow // by part: it alone, and with those before it
	But         []RecoveryRow // by part: all others
	Rates       []RecoveryRow // without and with all parts in turns, by factor of RateFactors
	Spares      []RecoveryRow // all parts, with repairs of SpareRepair and 0, 1, ... spares
	Shrinks     RecoveryRow   // all parts but spares, for a job that goes on without a node
	Across      []RecoveryRow // what works across nodes so far: by Acrosses, without and with spares each
	Beside      []RecoveryRow // a gang on most nodes, small jobs on the others: by policy of besides
	Mix         []RecoveryRow // without any part, and each with those before it
}

// RateFactors are those by which all rates are multiplied.
var RateFactors = []float64{0.5, 1, 2, 4}

// SpareRepair is the mean time of repairs in the runs that compare numbers of spares.
const SpareRepair = 6 * time.Hour

// RunRecovery runs the experiment.
func RunRecovery(c RecoveryConfig) (*Recovery, error) {
	out := &Recovery{Config: c}
	disk := sim.DefaultHardware()
	all := disk
	var err error
	if out.Disk, err = c.row(fromDisk, disk); err != nil {
		return nil, err
	}
	mix := []RecoveryRow{{Name: fromDisk, Config: disk}}
	for i, p := range c.Parts() {
		alone, but := disk, disk
		p.set(&alone)
		p.set(&all)
		for k, other := range c.Parts() {
			if k != i {
				other.set(&but)
			}
		}
		one, err1 := c.row(p.Name, alone)
		with, err2 := c.row("+ "+p.Name, all)
		others, err3 := c.row("all but "+p.Name, but)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		out.Alone, out.With, out.But = append(out.Alone, one), append(out.With, with), append(out.But, others)
		mix = append(mix, RecoveryRow{Name: "+ " + p.Name, Config: all})
	}
	for _, by := range RateFactors {
		for _, h := range []sim.HardwareConfig{disk, all} {
			h.Lost, h.Hangs, h.Slow = by*h.Lost, by*h.Hangs, by*h.Slow
			row, err := c.row(fmt.Sprintf("rates x %g", by), h)
			if err != nil {
				return nil, err
			}
			out.Rates = append(out.Rates, row)
		}
	}
	if err := c.across(out); err != nil {
		return nil, err
	}
	elastic := c
	elastic.Days = max(1, c.Days/shrinkPart)
	all.Spares = 0
	if out.Shrinks, err = elastic.simulate("shrinks", "fairway", c.Nodes/20, all); err != nil {
		return nil, err
	}
	if err := c.spares(out, all); err != nil {
		return nil, err
	}
	if err := c.beside(out, all); err != nil {
		return nil, err
	}
	for _, row := range mix {
		if err := c.runMix(&row); err != nil {
			return nil, err
		}
		out.Mix = append(out.Mix, row)
	}
	return out, nil
}

// spares runs the job with 0 spares, 1, and so on, until one more than pays.
func (c RecoveryConfig) spares(out *Recovery, h sim.HardwareConfig) error {
	h.Repair = sched.Duration(SpareRepair)
	for h.Spares = 0; h.Spares <= c.priced(h).Pays()+1; h.Spares++ {
		row, err := c.row(fmt.Sprintf("%d spares", h.Spares), h)
		if err != nil {
			return err
		}
		out.Spares = append(out.Spares, row)
	}
	return nil
}

// besides are the policies that schedule a gang beside small jobs.
var besides = []string{"fifo:backfill", "fifo:backfill@spare"}

// besidePart is the part of the nodes that the gang leaves to the others.
const besidePart = 0.02

// beside runs a gang on most of the nodes, with more small jobs than the others can take.
func (c RecoveryConfig) beside(out *Recovery, h sim.HardwareConfig) error {
	h.Repair = sched.Duration(SpareRepair)
	left := max(2, int(besidePart*float64(c.Nodes)))
	training := c.training()
	for _, policy := range besides {
		row := RecoveryRow{Name: policy, Config: h}
		for _, seed := range c.Seeds {
			rnd := rand.New(rand.NewPCG(seed, 0x626573696465))
			work := []sim.Work{{Spec: sched.Spec{ID: "gang", GPUs: nodeGPUs * (c.Nodes - left), Submitted: trace.Epoch}, RunTime: sched.Duration(training)}}
			for hours, n := 0.0, 0; hours < 2*training.Hours()*float64(left); n++ {
				runs := mixHours(rnd)
				hours += runs
				work = append(work, sim.Work{
					Spec:    sched.Spec{ID: sched.JobID(fmt.Sprintf("small-%d", n)), GPUs: nodeGPUs, Submitted: trace.Epoch},
					RunTime: sched.Duration(runs * float64(time.Hour)),
				})
			}
			res, err := c.run(&row, policy, &sim.Workload{Name: "beside", Start: trace.Epoch, Work: work}, seed)
			if err != nil {
				return fmt.Errorf("beside: %s: %w", policy, err)
			}
			row.Results = append(row.Results, res)
		}
		out.Beside = append(out.Beside, row)
	}
	return nil
}

// acrosses are what works across nodes. In all of them hangs and stragglers are detected, and
// a gang that has failed is started anew.
var acrosses = []struct {
	name string
	set  func(*sim.HardwareConfig)
}{
	{"from the disk, written behind the training every 10 min for 0.5 s of it", func(h *sim.HardwareConfig) {
		h.Checkpoint, h.Save = sched.Duration(10*time.Minute), sched.Duration(time.Second/2)
	}},
	{"replicas: each node has the state, every 2 min for 0.5 s", func(h *sim.HardwareConfig) {
		h.MemoryEvery, h.Save, h.MemoryNodes = sched.Duration(2*time.Minute), sched.Duration(time.Second/2), maxCopies
	}},
	{"parts of the model: on two nodes, every 4 min for 1 s; on the disk, written behind the training every 2 h for 1 s of it", func(h *sim.HardwareConfig) {
		h.MemoryEvery, h.MemorySave, h.MemoryNodes = sched.Duration(4*time.Minute), sched.Duration(time.Second), 2
		h.Checkpoint, h.Save = sched.Duration(2*time.Hour), sched.Duration(time.Second)
	}},
}

// maxCopies is more nodes than a failure can take.
const maxCopies = 1000

// across runs the job with what works across nodes so far.
func (c RecoveryConfig) across(out *Recovery) error {
	parts := c.Parts()
	for _, a := range acrosses {
		h := sim.DefaultHardware()
		parts[0].set(&h)
		parts[1].set(&h)
		a.set(&h)
		for _, spares := range []int{0, c.priced(h).Pays()} {
			h.Spares = spares
			row, err := c.row(a.name, h)
			if err != nil {
				return err
			}
			out.Across = append(out.Across, row)
		}
	}
	return nil
}

// shrinkPart is the part of the training that is simulated for an elastic job: it is
// decided on every minute.
const shrinkPart = 6

// row simulates the one job, which needs all nodes.
func (c RecoveryConfig) row(name string, h sim.HardwareConfig) (RecoveryRow, error) {
	return c.simulate(name, "fifo", 0, h)
}

// simulate simulates the one job with each seed. It can do without that many nodes.
func (c RecoveryConfig) simulate(name, policy string, without int, h sim.HardwareConfig) (RecoveryRow, error) {
	row := RecoveryRow{Name: name, Config: h}
	spec := sched.Spec{ID: "large", GPUs: nodeGPUs * c.Nodes, Submitted: trace.Epoch}
	if without > 0 {
		spec.MinGPUs, spec.MaxGPUs, spec.TaskGPUs = nodeGPUs*(c.Nodes-without), spec.GPUs, nodeGPUs
	}
	w := &sim.Workload{Name: "one job", Start: trace.Epoch, Work: []sim.Work{{Spec: spec, RunTime: sched.Duration(c.training())}}}
	for _, seed := range c.Seeds {
		res, err := c.run(&row, policy, w, seed)
		if err != nil {
			return row, fmt.Errorf("%s: %w", name, err)
		}
		row.Results = append(row.Results, res)
	}
	return row, nil
}

// run simulates a workload on the nodes and the spares.
func (c RecoveryConfig) run(row *RecoveryRow, policy string, w *sim.Workload, seed uint64) (*sim.Result, error) {
	h := row.Config
	if c.Progress != nil {
		c.Progress(fmt.Sprintf("%s: %s, seed %d", w.Name, row.Name, seed))
	}
	return simulate(policy, fmt.Sprintf("%dx%d", c.Nodes+h.Spares, nodeGPUs), w, func(cfg *sim.Config) {
		h.Seed, cfg.Hardware, cfg.Interval, cfg.Seed = seed, &h, 0, seed
		cfg.Estimates = sim.Exact
	})
}

// runMix simulates the mix with each seed.
func (c RecoveryConfig) runMix(row *RecoveryRow) error {
	for _, seed := range c.Seeds {
		res, err := c.run(row, c.Policy, c.mix(seed), seed)
		if err != nil {
			return fmt.Errorf("mix: %s: %w", row.Name, err)
		}
		row.Results = append(row.Results, res)
	}
	return nil
}

// Sizes of the jobs in the mix, with their shares.
var mixSizes = []struct {
	gpus  int
	share float64
}{{8, 0.3}, {16, 0.2}, {32, 0.15}, {64, 0.12}, {128, 0.09}, {256, 0.06}, {512, 0.04}, {1024, 0.025}, {2048, 0.015}}

// mixLoad is the part of the GPU time that the jobs of the mix need.
const mixLoad = 0.8

// mixHours draws a run time: log-normal with a median of 8 hours, from half an hour to ten
// days.
func mixHours(rnd *rand.Rand) float64 { return min(240, max(0.5, 8*math.Exp(1.2*rnd.NormFloat64()))) }

// mix is a workload of jobs of all sizes.
func (c RecoveryConfig) mix(seed uint64) *sim.Workload {
	rnd := rand.New(rand.NewPCG(seed, 0x6d6978))
	work := make([]sim.Work, c.Jobs)
	need := 0.0
	for i := range work {
		u := rnd.Float64()
		size := mixSizes[0].gpus
		for _, s := range mixSizes {
			if size = s.gpus; u < s.share {
				break
			}
			u -= s.share
		}
		size = min(size, c.Nodes*nodeGPUs/2)
		hours := mixHours(rnd)
		need += hours * float64(size)
		work[i] = sim.Work{
			Spec:    sched.Spec{ID: sched.JobID(fmt.Sprintf("j%d", i)), GPUs: size},
			RunTime: sched.Duration(hours * float64(time.Hour)),
		}
	}
	span := need / mixLoad / float64(c.Nodes*nodeGPUs)
	at := make([]float64, len(work))
	for i := range at {
		at[i] = rnd.Float64() * span
	}
	slices.Sort(at)
	for i := range work {
		work[i].Submitted = trace.Epoch.Add(time.Duration(at[i] * float64(time.Hour)))
	}
	return &sim.Workload{Name: "mix", Start: trace.Epoch, Work: work}
}
