// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/sched"
)

// gauge measures the use of the slots.
type gauge struct {
	tool smiTool
	cpu  bool // the slots are CPU slots

	mu      sync.Mutex
	use     []*api.GPUUse // by slot
	problem string

	// The last sample of CPU slots; only the sampling goroutine uses it.
	ticks map[api.AttemptID]uint64
	at    time.Time
}

func (g *gauge) open(m *Machine) {
	g.tool.program, g.tool.timeout = m.cfg.SMI, smiTimeout
	g.cpu = len(m.cfg.Devices) == 0 || m.cfg.Devices[0].Index < 0
	g.use = make([]*api.GPUUse, len(m.cfg.Devices))
	g.ticks = map[api.AttemptID]uint64{}
}

// Use returns the last measured use of each slot; nil: not measured, or too long
// ago.
func (m *Machine) Use() []*api.GPUUse {
	g := &m.gauge
	oldest := m.cfg.Now().Add(-max(3*m.cfg.Sample, smiTimeout+m.cfg.Sample))
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]*api.GPUUse, len(g.use))
	for i, u := range g.use {
		if u != nil && u.At.After(oldest) {
			out[i] = u // written once, then only read
		}
	}
	return out
}

// Problem returns why nothing is measured, or why MPS is not used; empty: no
// problem.
func (m *Machine) Problem() string {
	m.mps.mu.Lock()
	problem := m.mps.problem
	m.mps.mu.Unlock()
	m.gauge.mu.Lock()
	defer m.gauge.mu.Unlock()
	return strings.Trim(m.gauge.problem+"; "+problem, "; ")
}

// run measures until the context ends.
func (g *gauge) run(ctx context.Context, m *Machine) {
	ticker := time.NewTicker(m.cfg.Sample)
	defer ticker.Stop()
	for {
		use, err := g.sample(ctx, m)
		if ctx.Err() != nil {
			return
		}
		problem := ""
		if err != nil {
			problem = "cannot measure GPU use: " + err.Error()
		}
		g.mu.Lock()
		changed := problem != g.problem
		if err == nil {
			g.use = use
		}
		g.problem = problem
		g.mu.Unlock()
		if changed && err != nil {
			m.cfg.Log.Warn("cannot measure GPU use", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// holder is an attempt with processes.
type holder struct {
	id   api.AttemptID
	gpus sched.GPUSet
}

// holders returns the attempts that run, by the process number of their
// supervisor.
func (m *Machine) holders() map[int]holder {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int]holder{}
	for id, r := range m.runs {
		if r.state == running && r.shim.PID > 0 && len(r.order.Placement) == 1 {
			out[r.shim.PID] = holder{id, r.order.Placement[0].GPUs}
		}
	}
	return out
}

// holderOf finds the attempt of a process. Every process of an attempt descends
// from its supervisor.
func holderOf(all map[int]proc.Process, by map[int]holder, pid int) (holder, bool) {
	for range len(all) {
		if h, ok := by[pid]; ok {
			return h, true
		}
		p, ok := all[pid]
		if !ok || p.Parent <= 1 {
			break
		}
		pid = p.Parent
	}
	return holder{}, false
}

func (g *gauge) sample(ctx context.Context, m *Machine) ([]*api.GPUUse, error) {
	if g.cpu {
		return g.sampleCPU(m)
	}
	rows, err := g.tool.gpus(ctx)
	if err != nil {
		return nil, err
	}
	procs, err := g.tool.procs(ctx)
	if err != nil {
		return nil, err
	}
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	now, by := m.cfg.Now(), m.holders()
	out := make([]*api.GPUUse, len(m.cfg.Devices))
	for slot, d := range m.cfg.Devices {
		for _, row := range rows {
			if row.uuid != d.UUID {
				continue
			}
			u := &api.GPUUse{
				At: now, Util: max(0, row.util), MemoryUsed: max(0, row.memUsed), MemoryTotal: max(0, row.memTotal),
				PowerW: max(0, row.power), TempC: max(0, row.tempC), ClockMHz: max(0, row.clock), MaxClockMHz: max(0, row.maxClock),
			}
			for _, p := range procs {
				if p.uuid == d.UUID {
					h, ours := holderOf(all, by, p.pid)
					if !ours && servesMPS(p.pid) {
						continue // on behalf of jobs, which are listed too
					}
					u.Processes = append(u.Processes, api.GPUProcess{PID: p.pid, Job: h.id.Job, Memory: max(0, p.memory)})
				}
			}
			out[slot] = u
		}
	}
	return out, nil
}

// sampleCPU measures CPU slots: the use of a job's processes is spread evenly over
// its slots.
func (g *gauge) sampleCPU(m *Machine) ([]*api.GPUUse, error) {
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	now, by := m.cfg.Now(), m.holders()
	ticks, rss := map[api.AttemptID]uint64{}, map[api.AttemptID]int64{}
	for pid, p := range all {
		if h, ok := holderOf(all, by, pid); ok {
			ticks[h.id] += p.Ticks
			rss[h.id] += p.RSS
		}
	}
	n := len(m.cfg.Devices)
	out := make([]*api.GPUUse, n)
	for slot := range out {
		out[slot] = &api.GPUUse{At: now, MemoryTotal: m.cfg.Node.Memory / int64(max(1, n))}
	}
	passed := now.Sub(g.at).Seconds()
	for pid, h := range by {
		last, known := g.ticks[h.id]
		size := float64(h.gpus.Len())
		util := 0.0
		if known && passed > 0 && ticks[h.id] >= last {
			util = min(1, float64(ticks[h.id]-last)/proc.ClockTicks/passed/size)
		}
		for _, slot := range h.gpus.Indexes() {
			if slot >= n {
				continue
			}
			u, memory := out[slot], rss[h.id]/int64(size)
			u.Util = min(1, u.Util+util)
			u.MemoryUsed += memory
			u.Processes = append(u.Processes, api.GPUProcess{PID: pid, Job: h.id.Job, Memory: memory, Util: util})
		}
	}
	g.ticks, g.at = ticks, now
	return out, nil
}
