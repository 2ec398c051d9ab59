// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// perf returns what policies learn from a report of the running attempt; nil: nothing.
// Losses and step times are left out where they have not changed, because the journal
// keeps every report: a job whose loss is reported n times adds about 25 kB to it for
// the first 32 of them, and then 18 kB each time that n has doubled.
func (t *tx) perf(x *entry, r *api.AgentReport, p *api.Point) (*goodput.Report, error) {
	var perf *goodput.Report
	if r.Training != nil {
		var err error
		fit := t.fit
		if x.Task.Plans != nil {
			fit = t.fitPlans
		}
		if perf, err = fit(x, r.Training); err != nil {
			return nil, err
		}
	} else if x.Training == nil {
		perf = t.watched(x)
	} else {
		return nil, nil
	}
	if r.Training != nil {
		perf.Work, perf.Examples = cmp.Or(r.Work, x.whole()), 1 // by the contract of api.AgentReport
	}
	perf.Losses = x.withLoss(p, r.Training).Points
	if unit := x.unit(r.Training); r.Work > 0 {
		perf.Stop.Steps = r.Work / unit
	}
	if err := perf.ValidateMeasured(); err != nil {
		return nil, api.Errorf(api.Invalid, "%w", err).On("training")
	}
	perf = perf.Changes(x.Job.Perf)
	if r.Training == nil && len(perf.Losses) == 0 && len(perf.StepTimes) == 0 {
		return nil, nil
	}
	return perf, nil
}

// watched returns the report of a job whose agent does not run its training: it only
// says how far that has come.
func (t *tx) watched(x *entry) *goodput.Report {
	return &goodput.Report{MostGPUs: max(x.Job.GPUs, 2*x.Job.MostGPUs), StepTimes: t.borrow(x.Job, slices.Clip(x.Units)), Plans: x.choices()}
}

// unit returns how much of the job's work a step of its report is.
func (x *entry) unit(now *api.Training) float64 {
	if now == nil {
		now = x.Training
	}
	if now == nil {
		return 1
	}
	return float64(max(1, now.Limits.Initial, now.Fixed))
}

// withLoss returns the losses of the job with that of a point.
func (x *entry) withLoss(p *api.Point, now *api.Training) goodput.LossLog {
	log := x.Losses
	if p != nil && p.Loss != nil {
		log.Add(p.Done/x.unit(now), *p.Loss)
	}
	return log
}

// fit makes the report that policies see from the agent's measurements. Past jobs
// of the same kind fill in while the job has measured little.
func (t *tx) fit(x *entry, now *api.Training) (*goodput.Report, error) {
	gpuType := t.mem.gpuType(x.Job.Placement)
	prior := t.store.Pool.Prior(x.experienceKey(), experience.Default())
	own := &goodput.Profile{}
	if p := x.Profiles[gpuType]; p != nil {
		own = copyProfile(p)
	}
	addSamples(own, now.Samples)
	profiles := map[string]*goodput.Profile{}
	maps.Copy(profiles, x.Profiles)
	profiles[gpuType] = own
	perf := &goodput.Report{Limits: now.Limits, Fixed: now.Fixed, Noise: now.Noise, Stop: now.Stop, Params: map[string]goodput.Params{}}
	if old := x.Job.Perf; old != nil {
		maps.Copy(perf.Params, old.Params)
		if now.Noise == 0 {
			perf.Noise = old.Noise
		}
	}
	part := 0.0
	if w := x.whole(); w > 0 {
		part = min(1, x.Job.DoneBy(t.now)/w)
	}
	if now.Noise == 0 {
		perf.Noise = prior.Noise(part, perf.Noise, own.Len())
	}
	for _, kind := range t.mem.state.Cluster().Types {
		// Elsewhere, what past jobs have measured is all there is, and fitted once.
		if _, known := perf.Params[string(kind)]; known && string(kind) != gpuType {
			continue
		}
		p, ok, err := x.fitters.Fit(string(kind), prior.Profile(string(kind), profiles[string(kind)]))
		if err != nil {
			return nil, api.Errorf(api.Invalid, "%w", err).On("training.samples")
		}
		if ok {
			perf.Params[string(kind)] = p
		}
	}
	perf.StepTimes = t.stepTimes(x, perf, profiles)
	perf.MostGPUs = goodput.Growth(max(x.Job.MostGPUs, own.MostGPUs()), prior.MostGPUs(), now.Fixed, now.Limits)
	perf.UsableGPUs = goodput.Usable(now.Fixed, now.Limits)
	perf.Restart = x.awayForMove()
	perf.Typical, _ = prior.Work()
	if err := perf.Validate(); err != nil {
		return nil, api.Errorf(api.Invalid, "%w", err).On("training")
	}
	return perf, nil
}

// awayForMove returns how long the job was without a step when it was last moved or
// resized, in seconds; 0: it never was, or that is not known.
func (x *entry) awayForMove() float64 {
	for _, l := range slices.Backward(x.Ledger) {
		if moved(l) {
			return l.Away
		}
	}
	return 0
}

// stepTimes returns the times of the work of a step at the initial batch size. A job
// that adapts its batch size does it as its models say, one whose batch is larger as a
// part of a step. Of GPU types on which it has not run, other jobs say how their steps
// there compare with those here.
func (t *tx) stepTimes(x *entry, perf *goodput.Report, profiles map[string]*goodput.Profile) []goodput.StepTime {
	initial := perf.Limits.Initial
	batch := initial
	if perf.Fixed > 0 {
		batch = perf.Fixed
	}
	out := goodput.StepTimes(profiles, batch, perf.Limits)
	for i := range out {
		s := &out[i]
		s.Batch, s.Time = initial, s.Time*float64(initial)/float64(batch)
		if perf.Fixed > 0 {
			continue
		}
		_, rate, _ := perf.Goodput(s.Type, goodput.Shape{Nodes: s.Nodes, GPUs: s.GPUs})
		if time := float64(initial) / rate; time > 0 && !math.IsInf(time, 1) {
			s.Time = time
		}
	}
	return t.borrow(x.Job, out)
}

// borrow adds the step times on the GPU types that the job has not run on.
func (t *tx) borrow(j *sched.Job, own []goodput.StepTime) []goodput.StepTime {
	if len(own) == 0 {
		return own
	}
	least := own[0]
	for _, s := range own {
		if s.Type == least.Type && s.GPUs < least.GPUs {
			least = s
		}
	}
	for _, kind := range t.mem.state.Cluster().Types {
		there := string(kind)
		if !j.Accepts(kind) || slices.ContainsFunc(own, func(s goodput.StepTime) bool { return s.Type == there }) {
			continue
		}
		if ratio, ok := t.store.Pool.StepRatio(least.Type, there); ok {
			s := least
			s.Type, s.Time, s.Borrowed = there, s.Time*ratio, true
			own = append(own, s)
		}
	}
	return own
}

// experienceKey identifies work of the same kind as this job's.
func (x *entry) experienceKey() experience.Key {
	k := experience.Key{Model: x.Job.Model, User: x.Job.User}
	if len(x.Task.Command) > 0 {
		k.Script = scriptOf(x.Task.Command)
	}
	return k
}

// scriptOf returns the part of a command that names what is trained: the first
// Python file or, if there is none, the first argument that is neither an option nor
// the interpreter.
func scriptOf(command []string) string {
	const longest = 200
	for _, a := range command {
		if strings.HasSuffix(a, ".py") && a[0] != '-' {
			return a[max(0, len(a)-longest):]
		}
	}
	for _, a := range command[1:] {
		if len(a) > 0 && a[0] != '-' {
			return a[max(0, len(a)-longest):]
		}
	}
	return command[0][max(0, len(command[0])-longest):]
}

// learn adds what an ended job has measured to the pool.
func (b *Store) learn(x *entry) {
	if x.Job.Phase != sched.Finished || len(x.Profiles) == 0 {
		return
	}
	o := experience.Outcome{Profiles: x.Profiles, Work: x.Job.Done}
	for _, p := range x.Points {
		if w := x.whole(); w > 0 && p.Noise > 0 {
			_ = o.Noise.Add(min(1, p.Done/w), p.Noise) // out of range: the curve stays as it was
		}
	}
	if err := b.Pool.Learn(x.experienceKey(), o); err != nil {
		b.Log.Warn("learn from job", "job", x.Job.ID, "err", err)
		return
	}
	if b.Learned != nil {
		b.Learned()
	}
}
