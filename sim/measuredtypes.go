// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// With Config.Optimistic, tables that name GPU types, as those of the Sia artifact do,
// bring the conventions of its simulator with them: how much slower than its steps a
// model really trains, how long a start takes, and that a move to other GPUs of the
// same type in the same shape takes no time. Its policy does not know how fast a new
// job is on each type; once the job has run somewhere, it knows the speed on one GPU
// of each type at the largest batch that fits. It believes that a job's batch size may
// grow up to the one it was submitted with; its agents raise it up to what the model
// allows.

// asSia reports whether the run follows the Sia artifact's simulator.
func (c *Config) asSia() bool { return c.Optimistic && c.Profiles.Typed() }

// checkProfiles reports a GPU type of the cluster that the tables do not have.
func (c *Config) checkProfiles() error {
	if !c.Profiles.Typed() {
		return nil
	}
	for _, t := range c.Cluster.Types {
		if !slices.Contains(c.Profiles.Types(), string(t)) {
			return fmt.Errorf("simulate: the cluster has GPUs of type %q; the profiles have %v: name the types of the cluster as they do, such as 6x4:%s",
				t, c.Profiles.Types(), c.Profiles.Types()[0])
		}
	}
	return nil
}

// confine returns the job, restricted to the GPU types that its model was measured on
// and that hold its replicas whole.
func (c *Config) confine(w *Work) (*Work, error) {
	if !c.Profiles.Typed() || w.RunTime > 0 {
		return w, nil
	}
	job := sched.Job{Spec: w.Spec}
	var types []sched.GPUType
	least := 0
	for _, t := range c.Cluster.Types {
		m, ok := c.Profiles.On(w.Model, string(t))
		if ok && job.Accepts(t) && (job.Elastic() || w.GPUs%m.Unit() == 0) {
			types = append(types, t)
			if least == 0 || m.Unit() < least {
				least = m.Unit()
			}
		}
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("job %s: model = %q on %d GPUs fits no type of the cluster %v; %s", w.ID, w.Model, w.GPUs, c.Cluster.Types, c.measuredOn(w.Model))
	}
	if len(types) == len(c.Cluster.Types) && least == 1 {
		return w, nil
	}
	only := *w
	only.GPUTypes = types
	if least > 1 {
		only.TaskGPUs = least
	}
	return &only, nil
}

// measuredOn says on which types a model was measured.
func (c *Config) measuredOn(model string) string {
	text := ""
	for _, t := range c.Profiles.Types() {
		if m, ok := c.Profiles.On(model, t); ok {
			text += fmt.Sprintf(", %s in units of %d", t, m.Unit())
		}
	}
	if text == "" {
		return fmt.Sprintf("the profiles have the models %v", c.Profiles.Models())
	}
	return "the profiles have it on" + text[1:]
}

// on returns the tables of a GPU type.
func (t *measured) on(gpuType sched.GPUType) *profile.Model {
	if m, ok := t.types[gpuType]; ok {
		return m
	}
	return t.model
}

// limitsOn returns the limits of the batch size on a placement.
func (t *measured) limitsOn(s setting) goodput.Limits {
	l := t.on(s.gpuType).Limits()
	if t.types != nil && t.on(s.gpuType).Unit() == 1 {
		l.LocalMax = t.on(s.gpuType).MaxLocal(s.counts())
	}
	return l
}

// counts returns the GPUs on each node.
func (s setting) counts() []int {
	out := make([]int, len(s.placement))
	for i, slice := range s.placement {
		out[i] = slice.GPUs.Len()
	}
	return out
}

// under sets the size of a replica.
func (s setting) under(t truth) setting {
	if m, ok := t.(*measured); ok {
		s.unit = m.on(s.gpuType).Unit()
	}
	return s
}

// replicas returns how many copies of the model the GPUs hold.
func (s setting) replicas() int { return s.gpus / max(1, s.unit) }

// sameShape reports whether a job that just left its GPUs goes on with as many of the
// same type on each node: in the Sia artifact's simulator that takes no time.
func (r *run) sameShape(j *job, to sched.Placement) bool {
	if !r.asSia() || j.left != r.now || j.setting.gpus == 0 {
		return false
	}
	next := settingOf(r.Cluster, to)
	return next.gpuType == j.setting.gpuType && slices.Equal(next.counts(), j.setting.counts())
}

// typeFacts is what an agent knows about GPU types from tables that name them.
type typeFacts struct {
	localMax map[string]int // by GPU type
	units    map[string]int // by GPU type, where above 1
	// The Sia artifact's policy believes in a largest batch size and in a cost of a
	// restart. 0: nothing special.
	batch   int
	restart time.Duration
}

// typeFacts returns what the agent of a job knows; nil: nothing.
func (r *run) typeFacts(j *job) *typeFacts {
	t, ok := j.truth.(*measured)
	if !ok || t.types == nil {
		return nil
	}
	f := &typeFacts{localMax: map[string]int{}, units: map[string]int{}}
	for gpuType, m := range t.types {
		f.localMax[string(gpuType)] = m.Limits().LocalMax
		if m.Unit() > 1 {
			f.units[string(gpuType)] = m.Unit()
		}
	}
	if t.sia {
		if f.batch = t.limits().Max; j.work.BatchSize > 0 {
			f.batch = max(t.limits().Initial, t.size)
		}
		_, f.restart = t.model.Restart()
	}
	return f
}

// add puts the facts into a report.
func (f *typeFacts) add(next *goodput.Report, a *agent) {
	if f == nil {
		return
	}
	next.LocalMax, next.Restart = f.localMax, f.restart.Seconds()
	if len(f.units) > 0 {
		next.Units = f.units
	}
	if f.batch == 0 {
		return
	}
	next.Limits.Max, next.StepTimes = f.batch, nil
	if a.fixed > 0 || len(a.profiles) > 0 {
		next.StepTimes = a.trials
	}
}

// siaTrials returns the speeds on each type that policies know: of a job that keeps its
// batch size, at the size it asked for; else of one replica at the largest batch that
// fits.
func (r *run) siaTrials(j *job, fixed bool) ([]goodput.StepTime, error) {
	t := j.truth.(*measured)
	var out []goodput.StepTime
	for _, gpuType := range r.Cluster.Types {
		m, ok := t.types[gpuType]
		if !ok {
			continue
		}
		n := m.Unit()
		if fixed {
			n = j.work.GPUs
		}
		s, ok := r.placed(j, gpuType, n)
		if !ok {
			continue
		}
		if s.config = (goodput.Config{Local: m.MaxLocal(s.counts())}); fixed || n > 1 {
			var err error
			if s, err = s.split(t); err != nil {
				continue
			}
		}
		o, err := t.observe(0, s)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", j.work.ID, err)
		}
		out = append(out, goodput.StepTime{
			Type: string(gpuType), Nodes: len(s.placement), GPUs: n, Batch: s.config.Batch(s.replicas()),
			Time: (o.step + float64(s.config.Accum)*(o.step-o.sync)) * m.Slowdown(),
		})
	}
	return out, nil
}

// borrowedFromTables is borrowed for tables that name GPU types.
func (r *run) borrowedFromTables(j *job, gpuType sched.GPUType) (factor float64, ok bool) {
	var others tally
	for _, name := range r.Profiles.Models() {
		here, ok1 := r.Profiles.On(name, string(gpuType))
		there, ok2 := r.Profiles.On(name, string(r.reference(j.work)))
		if !ok1 || !ok2 || name == j.work.Model {
			continue
		}
		local := max(here.Limits().LocalMin, there.Limits().LocalMin)
		a, _, err1 := here.Step([]int{here.Unit()}, local)
		b, _, err2 := there.Step([]int{there.Unit()}, local)
		if err1 == nil && err2 == nil {
			others.add(a / b)
		}
	}
	return others.mean(), others.n > 0
}
