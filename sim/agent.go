// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// agent is what runs inside a job beside the training: it measures steps and
// gradients, fits the throughput model, reports to the scheduler and chooses the
// batch size. It sees only what a real agent would: the observations of its own runs,
// with measurement noise if configured, and the experience of similar past jobs.
type agent struct {
	limits goodput.Limits
	fixed  int // batch size of a job that does not adapt it; 0: it adapts
	most   int // GPUs the model can use; 0: no bound
	fits   func(setting) goodput.Limits
	facts  *typeFacts // nil: none
	blur   float64
	rand   *rand.Rand

	prior *experience.Prior // nil: no experience
	// By GPU type: the measurements, the model fitted to them, and the model from
	// experience alone.
	profiles map[string]*goodput.Profile
	fitters  goodput.Fitters
	fitted   map[string]goodput.Params
	past     map[string]goodput.Params
	noise    float64
	restart  float64  // seconds that the last start took, else those of past jobs; 0: unknown
	unit     float64  // of the job's work for each step
	typical  float64  // work that past jobs had done when they completed; 0: unknown
	measured int      // measurements of the noise scale
	average  *average // of gradient statistics; nil: they are known without lag
	curve    experience.Curve
	losses   *lossLog           // nil: losses are not reported
	trials   []goodput.StepTime // on each GPU type at submission
	report   *goodput.Report
}

// newAgent returns the agent of a job, or nil if there is nothing to measure because
// the truth does not depend on the batch size, or it is a plain script.
func (r *run) newAgent(j *job) (*agent, error) {
	t, ok := j.truth.(trainer)
	if !ok || !r.CoAdapt || j.plain {
		return nil, nil
	}
	a := &agent{
		limits: t.limits(), unit: j.unit, most: r.usable(j), fits: t.limitsOn, facts: r.typeFacts(j), blur: r.Noise,
		profiles: map[string]*goodput.Profile{},
		fitted:   map[string]goodput.Params{}, past: map[string]goodput.Params{},
	}
	var err error
	if !j.work.Batch.Adapt || r.Losses {
		a.fixed = r.fixedBatch(t, j.work.Model)
	}
	if !r.Optimistic {
		a.average = &average{}
	}
	if r.Losses {
		if a.losses, err = newLossLog(t, a.fixed, [2]uint64{r.Seed, uint64(j.result)}); err != nil {
			return nil, err
		}
	}
	if a.blur > 0 {
		a.rand = rand.New(rand.NewPCG(r.Seed, uint64(j.result)))
	}
	if a.trials, err = r.bootstrap(j, a.fixed > 0); err != nil {
		return nil, err
	}
	for i := range a.trials {
		if !a.trials[i].Borrowed {
			a.trials[i].Time = a.blurred(a.trials[i].Time)
		}
	}
	if r.Experience != nil {
		a.prior = r.Experience.Prior(j.key(), experience.Default())
		a.noise = a.prior.Noise(0, 0, 0)
		a.restart, _ = a.prior.Restart()
		if steps, ok := a.prior.Work(); ok {
			a.typical = steps * a.unit
		}
		for _, gpuType := range r.Cluster.Types {
			if err := a.fit(string(gpuType)); err != nil {
				return nil, err
			}
			if p, ok := a.fitted[string(gpuType)]; ok {
				a.past[string(gpuType)] = p
			}
		}
	}
	a.tell()
	return a, nil
}

// key identifies jobs of the same kind.
func (j *job) key() experience.Key {
	return experience.Key{Model: j.work.Model, User: j.work.User}
}

// usable returns how many GPUs a job's model can use; 0: no bound.
func (r *run) usable(j *job) int {
	if m, ok := r.Zoo.Model(j.work.Model); ok {
		return m.MaxGPUs
	}
	return 0
}

// fixedBatch is the batch size of a job that does not adapt it. In comparison mode
// the reference runs ncf at its largest batch size, whatever the workload says.
func (r *run) fixedBatch(t trainer, model string) int {
	if r.Profiles != nil && model == "ncf" {
		return t.limits().Max
	}
	return t.batch()
}

// choose returns the batch configuration for a setting.
func (a *agent) choose(s setting) (goodput.Config, bool) {
	batch := a.fixed
	if batch == 0 {
		if p, ok := a.fitted[string(s.gpuType)]; ok {
			c, good := a.fits(s).Best(p, a.noise, s.shape())
			return c, good > 0
		}
		batch = max(a.limits.Initial, a.limits.LocalMin*s.replicas())
	}
	return goodput.Split(batch, s.replicas(), a.fits(s))
}

// learn adds the measurement of a setting after a part of the training of work in
// all, and fits the model again if it is new.
func (a *agent) learn(s setting, o observation, part, work float64) error {
	measured := a.blurred(a.average.add(o, s, a.limits, part*work).noise(a.limits))
	a.measured++
	a.prior.CheckNoise(part, measured)
	a.noise = a.prior.Noise(part, measured, a.measured)
	if err := a.curve.Add(part, measured); err != nil {
		return err
	}
	if a.losses != nil {
		if err := a.losses.look(part, o.gain(a.fixed, a.limits), a.blurred); err != nil {
			return err
		}
	}
	t := string(s.gpuType)
	if a.profiles[t] == nil {
		a.profiles[t] = &goodput.Profile{}
	}
	step := a.blurred(o.step)
	sample := goodput.Sample{
		Nodes: len(s.placement), GPUs: s.replicas(), Local: s.config.Local,
		Step: step, Sync: min(a.blurred(o.sync), 0.999*step), Count: 1,
	}
	dropped := false
	if p, ok := a.past[t]; ok {
		dropped = a.prior.Check(t, sample, &p)
	}
	before := a.profiles[t].Len()
	if err := a.profiles[t].Add(sample); err != nil {
		return err
	}
	if a.profiles[t].Len() > before || a.blur > 0 || dropped {
		if err := a.fit(t); err != nil {
			return err
		}
	}
	a.tell()
	return nil
}

// fit fits the model of a GPU type to the measurements and the experience.
func (a *agent) fit(gpuType string) error {
	own := a.profiles[gpuType]
	if own == nil {
		own = &goodput.Profile{}
	}
	if a.prior != nil {
		own = a.prior.Profile(gpuType, own)
	}
	p, ok, err := a.fitters.Fit(gpuType, own)
	if ok {
		a.fitted[gpuType] = p
	} else {
		delete(a.fitted, gpuType)
	}
	return err
}

// outcome is what the job adds to the experience.
func (a *agent) outcome(work, restart float64) experience.Outcome {
	return experience.Outcome{Profiles: a.profiles, Noise: a.curve, Restart: restart, Work: work}
}

// blurred adds measurement noise: a factor around 1.
func (a *agent) blurred(x float64) float64 {
	if a.blur == 0 {
		return x
	}
	return x * math.Exp(a.blur*a.rand.NormFloat64())
}

// tell makes a report if there is something new.
func (a *agent) tell() {
	next := &goodput.Report{Noise: a.noise, Limits: a.limits, Fixed: a.fixed, MostGPUs: a.mostGPUs(), UsableGPUs: a.usableGPUs(), Restart: a.restart, Typical: a.typical, Examples: float64(a.limits.Initial) / a.unit}
	if len(a.fitted) > 0 {
		next.Params = maps.Clone(a.fitted)
	}
	if a.losses != nil {
		next.Losses, next.Stop = a.losses.Points, a.losses.stop
		next.StepTimes = goodput.StepTimes(a.profiles, a.fixed, a.limits)
	}
	next.StepTimes = a.withTrials(next.StepTimes)
	a.facts.add(next, a)
	if old := a.report; old != nil && same(old, next) {
		return // policies cache what they computed for a report
	}
	a.report = next
}

// same reports whether two reports of an agent are equal.
func same(a, b *goodput.Report) bool {
	return a.Noise == b.Noise && a.MostGPUs == b.MostGPUs && a.Restart == b.Restart && maps.Equal(a.Params, b.Params) &&
		slices.Equal(a.Losses, b.Losses) && slices.Equal(a.StepTimes, b.StepTimes)
}

// mostGPUs is the growth limit: twice the most GPUs the job has run on, or as many as
// similar past jobs had, and no more than its model and its batch can use.
func (a *agent) mostGPUs() int {
	ran := 0
	for _, p := range a.profiles {
		ran = max(ran, p.MostGPUs())
	}
	return min(goodput.Growth(ran, a.prior.MostGPUs(), a.fixed, a.limits), a.usableGPUs())
}

// usableGPUs is the most that the model and its batch can use.
func (a *agent) usableGPUs() int {
	usable := goodput.Usable(a.fixed, a.limits)
	if a.most > 0 {
		usable = min(usable, a.most)
	}
	return usable
}

// noise returns the gradient noise scale in examples.
func (o observation) noise(l goodput.Limits) float64 {
	if o.sqr <= 0 {
		return math.Inf(1)
	}
	return float64(cmp.Or(o.base, l.Initial)) * o.variance / o.sqr
}
