// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// HardwareConfig says how often hardware fails and what a failure costs a job, by this
// model:
//
//   - Failures strike GPUs at random, each at the same constant rate and independently
//     of each other. Nothing fails while no job runs and nothing is scheduled.
//   - A rank that dies or hangs stops its whole gang. The gang holds its GPUs until the
//     failure is detected; then it fails and goes back to its last checkpoint, or, where
//     the other ranks keep the state, by Rollback. A part of the deaths takes the node
//     out of use, with every job on it, until it is repaired.
//   - Checkpoints in memory are divided over the nodes of a gang, and every part is on
//     MemoryNodes of them. A failure that takes as many nodes loses them, and the gang
//     goes back to the disk.
//   - The policy decides where the gang runs next. If that is nowhere, it waits. The
//     start takes Launch and Load; other restarts cost what they cost without failures.
//   - A slow node slows down every gang on it. If somebody looks for slow nodes, it is
//     taken out for repair; its jobs save their work and start elsewhere.
//   - Spares are nodes that no job may use until a node has to be replaced.
//
// Jobs that cannot save their work (Config.Plain) start from the beginning.
type HardwareConfig struct {
	Lost      float64        `json:"lost_per_gpu_hour"`  // ranks that die: with their process, GPU or host
	Hangs     float64        `json:"hangs_per_gpu_hour"` // ranks that stop without a word
	Slow      float64        `json:"slow_per_gpu_hour"`  // nodes that become slow
	NodeShare float64        `json:"node_share"`         // of the ranks that die, those whose node must be repaired
	Repair    sched.Duration `json:"repair"`             // mean time until a node is back
	SlowSpeed float64        `json:"slow_speed"`         // of a gang with a slow node, relative to a healthy one
	SlowFor   sched.Duration `json:"slow_for"`           // mean time that a node stays slow if nobody looks

	DetectLost sched.Duration `json:"detect_lost"`
	DetectHang sched.Duration `json:"detect_hang"`
	DetectSlow sched.Duration `json:"detect_slow"` // 0: nobody looks
	Launch     sched.Duration `json:"launch"`      // of a gang's processes, until they can load
	Load       sched.Duration `json:"load"`        // of the checkpoint
	Checkpoint sched.Duration `json:"checkpoint"`  // time between two
	Save       sched.Duration `json:"save"`        // how long each of them stops the training
	// MemoryEvery is the time between two checkpoints in memory; 0: there are none.
	MemoryEvery sched.Duration `json:"memory_every"`
	MemorySave  sched.Duration `json:"memory_save"`  // how long each of them stops the training
	MemoryLoad  sched.Duration `json:"memory_load"`  // of such a checkpoint
	MemoryNodes int            `json:"memory_nodes"` // that have each part of it
	Rollback    sched.Duration `json:"rollback"`     // most training that a failure loses; 0: all since the last checkpoint
	Spares      int            `json:"spares"`       // nodes

	Seed uint64 `json:"-"`
}

// DefaultHardware returns rates from public reports and the costs of a restart from
// disk. docs/reproduction/failures.md says where each figure comes from.
func DefaultHardware() HardwareConfig {
	return HardwareConfig{
		Lost: 2e-5, Hangs: 2e-6, Slow: 2e-6, NodeShare: 0.78, Repair: sched.Duration(time.Hour),
		SlowSpeed: 0.75, SlowFor: sched.Duration(10 * time.Hour),
		DetectLost: sched.Duration(time.Minute), DetectHang: sched.Duration(10 * time.Minute),
		Launch: sched.Duration(3 * time.Minute), Load: sched.Duration(2 * time.Minute),
		Checkpoint: sched.Duration(30 * time.Minute), Save: sched.Duration(20 * time.Second),
		MemorySave: sched.Duration(time.Second / 2), MemoryLoad: sched.Duration(10 * time.Second), MemoryNodes: 1,
	}
}

const (
	maxHardwareFile = 1 << 16 // bytes
	// mostFailures bounds each rate per GPU-hour: a GPU that fails every six minutes.
	mostFailures = 10
	// longest bounds each time: a year.
	longest = sched.Duration(366 * 24 * time.Hour)
)

// ReadHardware reads a JSON object with the fields of HardwareConfig. Those that are
// absent are as in DefaultHardware.
func ReadHardware(r io.Reader) (*HardwareConfig, error) {
	dec := json.NewDecoder(io.LimitReader(r, maxHardwareFile))
	dec.DisallowUnknownFields()
	h := DefaultHardware()
	if err := dec.Decode(&h); err != nil {
		return nil, fmt.Errorf("read failures: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read failures: more than one JSON object; want one")
	}
	if err := h.valid(); err != nil {
		return nil, fmt.Errorf("read failures: %w", err)
	}
	return &h, nil
}

// valid reports what is wrong with the figures, if anything.
func (h *HardwareConfig) valid() error {
	for _, n := range []struct {
		name             string
		value, low, high float64
	}{
		{"lost_per_gpu_hour", h.Lost, 0, mostFailures}, {"hangs_per_gpu_hour", h.Hangs, 0, mostFailures},
		{"slow_per_gpu_hour", h.Slow, 0, mostFailures}, {"node_share", h.NodeShare, 0, 1},
		{"slow_speed", h.SlowSpeed, 0.01, 1},
	} {
		if !(n.value >= n.low && n.value <= n.high) {
			return fmt.Errorf("%s = %g; want %g to %g", n.name, n.value, n.low, n.high)
		}
	}
	for _, d := range []struct {
		name       string
		value, low sched.Duration
	}{
		{"repair", h.Repair, 1}, {"slow_for", h.SlowFor, 1}, {"detect_lost", h.DetectLost, 0}, {"detect_hang", h.DetectHang, 0},
		{"detect_slow", h.DetectSlow, 0}, {"launch", h.Launch, 0}, {"load", h.Load, 0},
		{"checkpoint", h.Checkpoint, sched.Duration(time.Second)}, {"save", h.Save, 0}, {"rollback", h.Rollback, 0},
		{"memory_every", h.MemoryEvery, 0}, {"memory_save", h.MemorySave, 0}, {"memory_load", h.MemoryLoad, 0},
	} {
		if d.value < d.low || d.value > longest {
			return fmt.Errorf("%s = %s; want %s to %s", d.name, d.value, d.low, longest)
		}
	}
	if h.MemoryNodes < 1 || h.MemoryNodes > maxNodes {
		return fmt.Errorf("memory_nodes = %d; want 1 to %d nodes", h.MemoryNodes, maxNodes)
	}
	if h.Spares < 0 || h.Spares > maxNodes {
		return fmt.Errorf("spares = %d; want 0 to %d nodes", h.Spares, maxNodes)
	}
	return nil
}

func (h *HardwareConfig) check(c *Config) error {
	if h == nil {
		return nil
	}
	if err := h.valid(); err != nil {
		return fmt.Errorf("simulate: hardware: %w", err)
	}
	switch {
	case h.Spares >= len(c.Cluster.Nodes):
		return fmt.Errorf("simulate: hardware: spares = %d; want less than the %d nodes of the cluster", h.Spares, len(c.Cluster.Nodes))
	case c.Autoscale != nil || c.Faults != nil && c.Faults.Quarantine:
		return fmt.Errorf("simulate: hardware: nodes also come and go by autoscale or quarantine; want one of the three")
	}
	return nil
}

// saving is the part of its time that a job spends in saves.
func (h *HardwareConfig) saving() float64 {
	part := h.Save.D().Seconds() / (h.Save + h.Checkpoint).D().Seconds()
	if h.MemoryEvery > 0 {
		part += (1 - part) * h.MemorySave.D().Seconds() / (h.MemorySave + h.MemoryEvery).D().Seconds()
	}
	return part
}

// survives reports whether checkpoints in memory are there after so many nodes were lost.
func (h *HardwareConfig) survives(lost int) bool { return h.MemoryEvery > 0 && lost < h.MemoryNodes }

// save and load return how long the job stands still for a checkpoint, in memory or on
// the disk.
func (h *HardwareConfig) save(near bool) time.Duration {
	if near {
		return h.MemorySave.D()
	}
	return h.Save.D()
}

func (h *HardwareConfig) load(near bool) time.Duration {
	if near {
		return h.MemoryLoad.D()
	}
	return h.Load.D()
}

// gap turns a draw from the exponential distribution into a time, bounded so that times
// can be added.
func gap(draw float64, mean time.Duration) time.Duration {
	return time.Duration(math.Ceil(min(draw*float64(mean), math.MaxInt64/4)))
}
