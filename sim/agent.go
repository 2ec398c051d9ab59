// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"

	"github.com/fairway-gpu/fairway/goodput"
)

// agent is what runs inside a job beside the training: it measures steps and
// gradients, fits the throughput model, tells the scheduler, and chooses the
// batch size. It sees what a real one would see and nothing else: the
// observations of what it has run, with measurement noise if there is any.
type agent struct {
	limits goodput.Limits
	fixed  int // batch size of a job that does not adapt it; 0: it adapts
	most   int // GPUs the model can use; 0: no bound
	blur   float64
	rand   *rand.Rand

	// By GPU type: what was measured, and the model fitted to it.
	profiles map[string]*goodput.Profile
	fitted   map[string]goodput.Params
	noise    float64
	started  bool // something was measured
	report   *goodput.Report
}

// newAgent returns the agent of a job, or nil if there is nothing to measure:
// the truth about the job does not depend on its batch size.
func (r *run) newAgent(j *job) *agent {
	t, ok := j.truth.(trainer)
	if !ok || !r.CoAdapt {
		return nil
	}
	a := &agent{
		limits: t.limits(), most: r.usable(j), blur: r.Noise,
		profiles: map[string]*goodput.Profile{}, fitted: map[string]goodput.Params{},
	}
	if !j.work.Batch.Adapt {
		a.fixed = r.fixedBatch(t, j.work.Model)
	}
	if a.blur > 0 {
		a.rand = rand.New(rand.NewPCG(r.Seed, uint64(j.result)))
	}
	a.tell()
	return a
}

// usable returns how many GPUs a job's model can use.
func (r *run) usable(j *job) int {
	if m, ok := r.Zoo.Model(j.work.Model); ok {
		return m.MaxGPUs
	}
	return 0
}

// fixedBatch is the batch size of a job that does not adapt it. In comparison
// mode the reference runs ncf at its largest batch whatever the workload says.
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
			c, good := a.limits.Best(p, a.noise, s.shape())
			return c, good > 0
		}
		batch = max(a.limits.Initial, a.limits.LocalMin*s.gpus)
	}
	return goodput.Split(batch, s.gpus, a.limits)
}

// learn takes in what was measured in a setting, and fits the model again if
// that was new.
func (a *agent) learn(s setting, o observation) error {
	a.noise = a.blurred(o.noise(a.limits))
	a.started = true
	t := string(s.gpuType)
	p := a.profiles[t]
	if p == nil {
		p = &goodput.Profile{}
		a.profiles[t] = p
	}
	before := p.Len()
	step := a.blurred(o.step)
	if err := p.Add(goodput.Sample{
		Nodes: len(s.placement), GPUs: s.gpus, Local: s.config.Local,
		Step: step, Sync: min(a.blurred(o.sync), 0.999*step), Count: 1,
	}); err != nil {
		return err
	}
	if p.Len() > before || a.blur > 0 {
		params, err := goodput.Fit(p)
		if err != nil {
			return err
		}
		a.fitted[t] = params
	}
	a.tell()
	return nil
}

// blurred adds measurement noise: a factor around 1.
func (a *agent) blurred(x float64) float64 {
	if a.blur == 0 {
		return x
	}
	return x * math.Exp(a.blur*a.rand.NormFloat64())
}

// tell makes a report, if there is news.
func (a *agent) tell() {
	next := &goodput.Report{Noise: a.noise, Limits: a.limits, Fixed: a.fixed, MostGPUs: a.mostGPUs()}
	if len(a.fitted) > 0 {
		next.Params = make(map[string]goodput.Params, len(a.fitted))
		for t, p := range a.fitted {
			next.Params[t] = p
		}
	}
	if old := a.report; old != nil && old.Noise == next.Noise && old.MostGPUs == next.MostGPUs && sameParams(old.Params, next.Params) {
		return // policies remember what they worked out for a report
	}
	a.report = next
}

func sameParams(a, b map[string]goodput.Params) bool {
	if len(a) != len(b) {
		return false
	}
	for t, p := range a {
		if b[t] != p {
			return false
		}
	}
	return true
}

// mostGPUs is the growth cap: twice the most GPUs it has run on, and no more
// than its model and its batch can use.
func (a *agent) mostGPUs() int {
	ran := 0
	for _, p := range a.profiles {
		ran = max(ran, p.MostGPUs())
	}
	most := max(1, 2*ran)
	if a.most > 0 {
		most = min(most, a.most)
	}
	largest := a.limits.Max
	if a.fixed > 0 {
		largest = a.fixed
	}
	return max(1, min(most, largest/max(1, a.limits.LocalMin)))
}

// noise returns the gradient noise scale in examples.
func (o observation) noise(l goodput.Limits) float64 {
	if o.sqr <= 0 {
		return math.Inf(1)
	}
	return float64(l.Initial) * o.variance / o.sqr
}
