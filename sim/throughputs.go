// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Kind is what jobs of the same measured throughput have in common.
type Kind struct {
	Model string
	Batch int // of all GPUs together; 0: it has none
	GPUs  int
}

func (k Kind) String() string {
	return fmt.Sprintf("%s with batch size %d on %d GPUs", k.Model, k.Batch, k.GPUs)
}

// Throughputs are measured steps per second, by GPU type: of jobs alone, and of two on
// the same GPUs.
type Throughputs struct {
	alone  map[string]map[Kind]float64 // by GPU type
	beside map[string]map[[2]Kind]float64
}

// Spread is added to a GPU type for throughputs on several nodes.
const Spread = "_unconsolidated"

// Add sets the throughput of a job alone; 0: it cannot run there.
func (t *Throughputs) Add(gpuType string, k Kind, steps float64) {
	if t.alone == nil {
		t.alone, t.beside = map[string]map[Kind]float64{}, map[string]map[[2]Kind]float64{}
	}
	if t.alone[gpuType] == nil {
		t.alone[gpuType], t.beside[gpuType] = map[Kind]float64{}, map[[2]Kind]float64{}
	}
	t.alone[gpuType][k] = steps
}

// AddPair sets the throughput of a job beside another one, after those of both alone;
// 0: the two cannot be together.
func (t *Throughputs) AddPair(gpuType string, k, other Kind, steps float64) {
	t.beside[gpuType][[2]Kind{k, other}] = steps
}

// Alone returns the throughput of a job alone, and whether it was measured.
func (t *Throughputs) Alone(gpuType string, k Kind) (steps float64, ok bool) {
	steps, ok = t.alone[gpuType][k]
	return steps, ok
}

// Slowdown returns how many times slower a job is beside another one, and whether that
// was measured; 0: the two cannot be together.
func (t *Throughputs) Slowdown(gpuType string, k, other Kind) (times float64, ok bool) {
	steps, ok := t.beside[gpuType][[2]Kind{k, other}]
	if !ok || steps == 0 {
		return 0, ok
	}
	return t.alone[gpuType][k] / steps, true
}

// besides returns the slowdowns of a job by GPU type and by the kind of the other job,
// as a report has them.
func (t *Throughputs) besides(k Kind, types []sched.GPUType) map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, gpuType := range types {
		of := map[string]float64{}
		for other := range t.alone[string(gpuType)] {
			if times, ok := t.Slowdown(string(gpuType), k, other); ok {
				of[other.String()] = times
			}
		}
		if len(of) > 0 {
			out[string(gpuType)] = of
		}
	}
	return out
}

// stepped is a job whose length is a number of steps, of measured throughput.
type stepped struct {
	table *Throughputs
	kind  Kind
	steps float64
	start launch
}

// newStepped returns the truth about a job that some GPU type of the cluster can run.
func newStepped(c *Config, w *Work) (*stepped, error) {
	s := &stepped{table: c.Throughputs, kind: Kind{w.Model, w.BatchSize, w.GPUs}, steps: w.Steps, start: c.launchOf(w.Model)}
	if len(s.types(c.Cluster, w)) == 0 {
		return nil, fmt.Errorf("job %s: no throughput of %s on a GPU type of the cluster that it accepts; the throughputs are of %s",
			w.ID, s.kind, strings.Join(slices.Sorted(maps.Keys(c.Throughputs.alone)), ", "))
	}
	return s, nil
}

// types returns the GPU types that a job can run on.
func (s *stepped) types(c *sched.Cluster, w *Work) []sched.GPUType {
	return slices.DeleteFunc(slices.Clone(c.Types), func(t sched.GPUType) bool {
		steps, _ := s.table.Alone(string(t), s.kind)
		return steps == 0 || len(w.GPUTypes) > 0 && !slices.Contains(w.GPUTypes, t)
	})
}

// accepting returns the job with the GPU types that it can run on. It may share if its
// throughput in pairs is known.
func (s *stepped) accepting(c *sched.Cluster, w *Work) *Work {
	out := *w
	if types := s.types(c, w); len(types) < len(c.Types) {
		out.GPUTypes = types
	}
	out.Shareable = w.Shareable || len(s.table.besides(s.kind, c.Types)) > 0
	return &out
}

func (s *stepped) total() float64 { return s.steps }

func (s *stepped) rate(_ float64, at setting) (rate, until float64, err error) {
	kind := s.kind
	kind.GPUs = at.gpus
	steps, ok := s.table.Alone(string(at.gpuType)+Spread, kind)
	if len(at.placement) == 1 || !ok {
		steps, _ = s.table.Alone(string(at.gpuType), kind)
	}
	if steps == 0 {
		return 0, 0, fmt.Errorf("no throughput of %s of type %s", kind, at.gpuType)
	}
	return steps, math.Inf(1), nil
}

func (s *stepped) restart(first bool, nodes int) time.Duration { return s.start.again(first, nodes) }

// slowedPair returns the measured slowdown of a job beside one other.
func (r *run) slowedPair(j *job, others []*job) (float64, bool) {
	own, ok := j.truth.(*stepped)
	if !ok || len(others) != 1 {
		return 0, false
	}
	other, ok := others[0].truth.(*stepped)
	if !ok {
		return 0, false
	}
	times, ok := own.table.Slowdown(string(j.setting.gpuType), own.kind, other.kind)
	return times, ok && times > 0
}
