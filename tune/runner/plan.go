// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/tune"
	"github.com/fairway-gpu/fairway/tune/search"
)

// searchRun is a search with its tuner and source.
type searchRun struct {
	api.OpenSearch
	names  []string // of the parameters, in the order of the space
	space  search.Space
	tuner  *tune.Tuner
	source tune.Source
	trials int
}

func newSearchRun(s api.OpenSearch) (*searchRun, error) {
	spec := &s.Spec
	h := &searchRun{OpenSearch: s, names: slices.Sorted(maps.Keys(spec.Parameters))}
	goal := tune.Minimise
	if spec.Metric.Maximises() {
		goal = tune.Maximise
	}
	var err error
	h.tuner, err = tune.New(tune.Config{
		Rule: tune.Rule(spec.Stopping.Rule), Goal: goal, Target: spec.Stopping.Target,
		Min: spec.Stopping.Min, Max: spec.Stopping.Max, Eta: spec.Stopping.Eta,
	})
	if err != nil {
		return nil, fmt.Errorf("stopping: %w", err)
	}
	c := tune.SourceConfig{Method: tune.Method(spec.Method), Goal: goal, Seed: spec.Seed}
	for _, name := range h.names {
		p := spec.Parameters[name]
		c.Space = append(c.Space, dimension(name, p))
		c.Steps = append(c.Steps, p.Steps)
	}
	h.space, h.trials = c.Space, spec.Trials
	if c.Method == tune.Grid {
		if size := tune.GridSize(c, api.MaxTrials); h.trials == 0 || h.trials > size {
			h.trials = size
		}
	}
	c.Trials = h.trials
	h.source, err = tune.NewSource(c)
	return h, err
}

// Check validates a search beyond its single fields; the daemon calls it before it
// accepts one.
func Check(s api.SearchSpec) error {
	_, err := newSearchRun(api.OpenSearch{Search: api.Search{Spec: s}})
	return err
}

func dimension(name string, p api.Parameter) search.Dimension {
	d := search.Dimension{Name: name, Kind: search.Float}
	switch {
	case len(p.Values) > 0:
		d.Kind, d.Choices = search.Choice, p.Values
		return d
	case p.Log:
		d.Kind = search.LogFloat
	case p.Int:
		d.Kind = search.Int
	}
	d.Low, d.High = *p.Min, *p.Max
	return d
}

// app is the search as its tuner sees it. A trial is one slot: the scheduler decides
// how many GPUs it gets.
func (h *searchRun) app() tune.App {
	a := tune.App{GPUs: max(1, h.Spec.AtOnce), AtOnce: max(1, h.Spec.AtOnce), Trials: h.trials}
	for i := range h.Trials {
		t := &h.Trials[i]
		j := tune.Job{Number: t.Number, State: stateOf(t), Done: t.Done, Work: h.Spec.Trial.Work, Demand: 1, Rung: t.Rung}
		if j.State == tune.Active && !t.Held {
			j.Held = 1
		}
		for _, c := range t.Curve {
			j.Curve = append(j.Curve, tune.Reading(c))
		}
		a.Jobs = append(a.Jobs, j)
	}
	return a
}

// stages returns what is left of the search, for the policy; none: nobody knows how
// long a trial is.
func (h *searchRun) stages(a tune.App) []api.Stage {
	whole := cmp.Or(h.Spec.Stopping.Max, h.Spec.Trial.Work)
	if !(whole > 0) || h.quiet() {
		return nil
	}
	var out []api.Stage
	for _, p := range h.tuner.Phases(a) {
		out = append(out, api.Stage{Jobs: p.Jobs, Part: p.Iterations / whole})
	}
	return out
}

// moved reports whether stages differ enough for the policy to know: the journal keeps
// every change.
func moved(old, now []api.Stage) bool {
	const step = 0.1 // of a trial
	return !slices.EqualFunc(old, now, func(a, b api.Stage) bool {
		return a.Jobs == b.Jobs && math.Abs(a.Part-b.Part) < step
	})
}

func stateOf(t *api.Trial) tune.State {
	switch {
	case t.State == api.Finished:
		return tune.Finished
	case t.State == api.Failed:
		return tune.Failed
	case t.Early:
		return tune.Stopped
	case t.State == api.Cancelled:
		return tune.Failed // by another actor
	}
	return tune.Active
}

// decide turns a plan into the next record; nil: nothing new.
func (h *searchRun) decide(p tune.Plan) *api.SearchRecord {
	r := api.SearchRecord{ID: h.ID}
	for _, s := range p.Stop {
		r.Stop = append(r.Stop, api.TrialStop{Trial: h.Trials[s.Job].Number, Why: s.Why})
	}
	for _, u := range p.Promote {
		r.Promote = append(r.Promote, api.Promotion{Trial: h.Trials[u.Job].Number, Rung: u.Rung})
	}
	for range p.Start {
		number := len(h.Trials) + len(r.Propose)
		point, ok := h.source.Next(number, h.seen())
		if !ok {
			break
		}
		r.Propose = append(r.Propose, api.Proposal{Number: number, Params: h.text(point)})
	}
	if p.Done && len(r.Stop) == 0 && h.quiet() {
		h.end(&r)
	}
	if len(r.Stop)+len(r.Promote)+len(r.Propose) == 0 && r.State == "" {
		return nil
	}
	return &r
}

// quiet reports whether all trials have ended.
func (h *searchRun) quiet() bool {
	return !slices.ContainsFunc(h.Trials, func(t api.Trial) bool { return !api.HasEnded(t.State) })
}

func (h *searchRun) end(r *api.SearchRecord) {
	if h.Best == nil {
		r.State, r.Why = api.Failed, fmt.Sprintf("none of %d trials reported %s and was not cancelled or failed", len(h.Trials), h.Spec.Metric.Name)
		return
	}
	early := 0
	for i := range h.Trials {
		if h.Trials[i].Early {
			early++
		}
	}
	r.State, r.Why = api.Finished, fmt.Sprintf("trial %d is the best of %d; %d were stopped early", *h.Best, len(h.Trials), early)
}

// seen returns the outcomes of the trials that have ended.
func (h *searchRun) seen() []tune.Outcome {
	var out []tune.Outcome
	for i := range h.Trials {
		t := &h.Trials[i]
		if s := stateOf(t); t.Value == nil || s != tune.Finished && s != tune.Stopped {
			continue
		}
		if p, ok := h.point(t.Params); ok {
			out = append(out, tune.Outcome{Params: p, Value: *t.Value})
		}
	}
	return out
}

// text formats a point of the space for a program.
func (h *searchRun) text(p search.Params) map[string]string {
	out := make(map[string]string, len(p))
	for i, d := range h.space {
		switch d.Kind {
		case search.Choice:
			out[d.Name] = d.Choices[int(p[i])]
		case search.Int:
			out[d.Name] = strconv.FormatFloat(p[i], 'f', -1, 64)
		default:
			out[d.Name] = number(p[i], d)
		}
	}
	return out
}

// number prints six digits, unless the result is outside the range.
func number(v float64, d search.Dimension) string {
	const digits = 6
	text := strconv.FormatFloat(v, 'g', digits, 64)
	if short, err := strconv.ParseFloat(text, 64); err == nil && short >= d.Low && short <= d.High {
		return text
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// point is the inverse of text; ok is false for a point outside the space.
func (h *searchRun) point(params map[string]string) (search.Params, bool) {
	p := make(search.Params, len(h.space))
	for i, d := range h.space {
		if d.Kind == search.Choice {
			p[i] = float64(slices.Index(d.Choices, params[d.Name]))
			continue
		}
		v, err := strconv.ParseFloat(params[d.Name], 64)
		if err != nil {
			return nil, false
		}
		p[i] = v
	}
	return p, h.space.Contains(p)
}
