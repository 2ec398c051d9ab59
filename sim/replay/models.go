// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// Prefixes of the names of models that come from a journal.
const (
	kindPrefix = "journal/"     // and the model that jobs name: their lengths are known
	jobPrefix  = "journal job/" // and the job whose agent reported the model
)

// models collects what the simulator needs to know about the jobs of a journal beyond
// their length.
type models struct {
	cluster *sched.Cluster
	restart sched.Duration // 0: the journal shows none
	launch  float64        // seconds of restart that are part of the job's own run time
	list    []*zoo.Model
	known   map[string]bool
	notes   notes
}

func newModels(cluster *sched.Cluster, c *history) *models {
	m := &models{cluster: cluster, known: map[string]bool{}}
	if len(c.windDown) == 0 {
		m.notes.add("no job in the journal was stopped: a restart costs what the simulator assumes", "")
		return m
	}
	down, up := num.Quantile(c.windDown, 0.5), num.Quantile(c.startUp, 0.5)
	m.launch = up
	m.restart = sched.Duration(max(0.001, down+up) * 1e9)
	text := fmt.Sprintf("a restart costs %s: %.3gs to stop an attempt, the median of %d", sched.Duration(m.restart.D().Round(time.Millisecond)), down, len(c.windDown))
	if len(c.startUp) > 0 {
		text += fmt.Sprintf(", and %.3gs until training starts, of %d", up, len(c.startUp))
	} else {
		text += "; how long one takes to train again is not known, no agent told"
	}
	m.notes.add(text, "")
	return m
}

// assumedRestart is the simulator's default cost of a restart.
const assumedRestart = 62

// cost returns the seconds that the simulator charges for a restart.
func (m *models) cost() float64 {
	if m.restart == 0 {
		return assumedRestart
	}
	return m.restart.D().Seconds()
}

// describe gives a job a model of its own, if the journal has enough data. scale is
// the work of the job relative to that of its pieces.
func (m *models) describe(s *jobHistory, w *sim.Work, scale float64) {
	if t := m.trained(s, scale); t != nil {
		m.list = append(m.list, t)
		w.Model, w.RunTime, w.BatchSize = t.Name, 0, batchOf(s.perf)
		w.Batch.Adapt = s.perf.Fixed == 0
		return
	}
	if s.perf != nil {
		m.notes.add("its agent did not report all that a model needs: its speed is proportional to its GPUs", s.spec.ID)
	}
	if m.restart == 0 {
		return
	}
	w.Model = kindPrefix + s.spec.Model
	if m.known[w.Model] {
		return
	}
	m.known[w.Model] = true
	m.list = append(m.list, &zoo.Model{
		Name: w.Model, Class: anyClass, Source: "a journal", Restart: m.restart,
		// As the simulator treats a job of unknown model.
		Slowdown: zoo.Slowdown{Rack: 1 / 0.854, CrossRack: 1 / (0.854 * 0.854)}, Interference: 0.2,
	})
}

// anyClass is the class of the model; only generated workloads use it.
const anyClass = "vision"

// trained returns the model of a job whose agent reported its speed on every GPU type
// that it may get; nil: it did not.
func (m *models) trained(s *jobHistory, scale float64) *zoo.Model {
	if s.perf == nil || len(s.perf.Params) == 0 || s.perf.Limits.Validate() != nil || s.phase == sched.Failed {
		return nil
	}
	params := map[string]goodput.Params{}
	for _, t := range m.cluster.Types {
		if !(&sched.Job{Spec: s.spec}).Accepts(t) {
			continue
		}
		key, ok := keyOf(s.perf, t)
		if !ok || !m.runs(s, key) {
			return nil
		}
		params[strings.ToLower(string(t))] = s.perf.Params[key]
	}
	iterations := scale * s.iterations()
	if len(params) == 0 || !(iterations > 0) || math.IsInf(iterations, 0) {
		return nil
	}
	t := &zoo.Model{
		Name: jobPrefix + string(s.spec.ID), Class: anyClass, Source: "a journal", Batch: s.perf.Limits,
		Iterations: iterations, Noise: []zoo.NoisePoint{{At: 0, Phi: noiseOf(s.perf)}},
		Throughput: params, Restart: m.restart, Interference: 0.2,
	}
	if t.Validate() != nil {
		return nil
	}
	return t
}

// keyOf finds a GPU type in a report, ignoring case.
func keyOf(r *goodput.Report, t sched.GPUType) (string, bool) {
	for _, key := range slices.Sorted(maps.Keys(r.Params)) {
		if strings.EqualFold(key, string(t)) {
			return key, true
		}
	}
	return "", false
}

// runs reports whether the job's batch can be split over every number of GPUs that it
// may get of a type.
func (m *models) runs(s *jobHistory, gpuType string) bool {
	j := &sched.Job{Spec: s.spec}
	for n := 1; n <= min(max(j.GPUs, j.MaxGPUs), m.cluster.GPUs()); n++ {
		if !j.Fits(n) {
			continue
		}
		_, good, ok := s.perf.Goodput(gpuType, goodput.Shape{Nodes: 1, GPUs: n})
		_, split := goodput.Split(batchOf(s.perf), n, s.perf.Limits)
		first := s.perf.Fixed
		if first == 0 {
			first = max(s.perf.Limits.Initial, s.perf.Limits.LocalMin*n)
		}
		_, begins := goodput.Split(first, n, s.perf.Limits)
		if !ok || !split || !begins || !(good > 0) {
			return false
		}
	}
	return true
}

// batchOf is the batch size of a job that does not adapt it, or the initial one of a
// job that does.
func batchOf(r *goodput.Report) int {
	if r.Fixed > 0 {
		return r.Fixed
	}
	return r.Limits.Initial
}

// noiseOf returns the noise scale of a report, as a number above 0.
func noiseOf(r *goodput.Report) float64 { return max(r.Noise, 1e-6) }

// iterations returns the work of the pieces in iterations at the initial batch size,
// if the job ran as fast as its model says. Errors of the model are thus compensated
// by the length of the training, where the job has run.
func (s *jobHistory) iterations() float64 {
	r, sum := s.perf, 0.0
	for _, p := range s.pieces {
		_, good, ok := r.Goodput(string(p.gpuType), p.shape)
		if !ok || !(good > 0) {
			return 0
		}
		rate := good / float64(r.Limits.Initial)
		if r.Fixed > 0 {
			rate = good / float64(r.Fixed) * goodput.Gain(noiseOf(r), r.Limits.Initial, r.Fixed)
		}
		sum += rate * p.wall.Seconds()
	}
	return sum
}

// AddModels adds the models of a journal to a zoo.
func (p *Past) AddModels(z *zoo.Zoo) error {
	files := folder{}
	for i, m := range p.Models {
		text, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Name, err)
		}
		files[fmt.Sprintf("%09d.json", i)] = text
	}
	return z.Extend(files)
}

// folder is an in-memory folder of model files.
type folder map[string][]byte

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memory{bytes.NewReader(text)}, nil
}

// Glob implements fs.GlobFS; every file of the folder is a model.
func (f folder) Glob(string) ([]string, error) {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	return names, nil
}

type memory struct{ *bytes.Reader }

func (memory) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (memory) Close() error               { return nil }
