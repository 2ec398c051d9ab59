// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// Limits of a search.
const (
	MaxTrials     = 1000
	maxParameters = 50
	maxValues     = 1000
	maxValue      = 1000 // bytes
	maxSteps      = 1000
)

var (
	paramName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,59}$`)
	searchRules  = []string{"none", "median", "halving", "hyperband", "asha", "pop"}
	searchSource = []string{"random", "grid", "tpe"}
)

// TrialKey is the key that a trial is submitted with: however often that is
// tried, it becomes one job.
func (s *SearchSpec) TrialKey(number int) string { return fmt.Sprintf("%s/trial-%d", s.ID, number) }

// Complete fills in the defaults.
func (s *SearchSpec) Complete() {
	fill := func(field *string, standard string) {
		if *field == "" {
			*field = standard
		}
	}
	fill(&s.Method, "random")
	fill(&s.Metric.Name, lossName)
	fill(&s.Metric.Goal, Minimise)
	fill(&s.Stopping.Rule, "none")
	if american := strings.TrimSuffix(s.Metric.Goal, "ze"); american == "minimi" || american == "maximi" {
		s.Metric.Goal = american + "se"
	}
	if s.Stopping.Max == 0 {
		s.Stopping.Max = s.Trial.Work
	}
	if s.Stopping.Min == 0 {
		s.Stopping.Min = 1
	}
	s.AtOnce = max(1, s.AtOnce)
	if s.Trial.GPUs == 0 && s.Trial.MinGPUs == 0 {
		s.Trial.GPUs = 1
	}
}

// Validate says what is wrong with a search that was completed, if anything.
func (s *SearchSpec) Validate() error {
	bad := func(field, format string, args ...any) *Error { return Errorf(Invalid, format, args...).On(field) }
	id := string(s.ID)
	switch {
	case id == "" || len(id) > 100 || strings.ContainsAny(id, "/\\") || strings.ContainsFunc(id, unprintable) || id == "." || id == "..":
		return bad("id", "%.40q cannot be the name of an app", id).Try("use a short word")
	case !slices.Contains(searchSource, s.Method):
		return bad("method", "is %.40q", s.Method).Try("use " + strings.Join(searchSource, ", "))
	case s.Metric.Goal != Minimise && s.Metric.Goal != Maximise:
		return bad("metric.goal", "is %.40q", s.Metric.Goal).Try("use minimise or maximise")
	case len(s.Metric.Name) > maxMetricName:
		return bad("metric.name", "has %d bytes", len(s.Metric.Name)).Try(fmt.Sprintf("use at most %d", maxMetricName))
	case s.Trials < 0 || s.Trials > MaxTrials || s.Trials == 0 && s.Method != "grid":
		return bad("trials", "is %d", s.Trials).Try(fmt.Sprintf("use 1 to %d; a grid needs none", MaxTrials))
	case s.AtOnce > MaxTrials:
		return bad("at_once", "is %d", s.AtOnce).Try(fmt.Sprintf("use 1 to %d", MaxTrials))
	case len(s.Key) > maxKey:
		return bad("key", "has %d bytes", len(s.Key)).Try(fmt.Sprintf("use at most %d", maxKey))
	case len(s.Parameters) == 0 || len(s.Parameters) > maxParameters:
		return bad("parameters", "has %d entries", len(s.Parameters)).Try(fmt.Sprintf("give 1 to %d", maxParameters))
	case s.Trial.ID != "" || s.Trial.App != "" || s.Trial.Key != "":
		return bad("trial", "has an id, an app or a key").Try("leave them out: the search chooses them")
	}
	if s.Trial.Array != "" || len(s.Trial.DependsOn) > 0 {
		return bad("trial", "is an array or depends on other jobs").Try("submit the search when those have ended")
	}
	if len(s.Trial.Roles) > 0 {
		return bad("trial", "has roles").Try("leave them out: parameters are filled in for one program only")
	}
	if err := s.Stopping.validate(); err != nil {
		return err
	}
	seen := map[string]string{}
	first := Proposal{Params: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		p := s.Parameters[name]
		if other, twice := seen[strings.ToUpper(name)]; twice || !paramName.MatchString(name) {
			return bad("parameters", "%.60q cannot be a name (beside %.60q)", name, other).Try("use letters, digits and _, at most 60, and no two names that differ in case only")
		}
		seen[strings.ToUpper(name)] = name
		if err := p.validate("parameters." + name); err != nil {
			return err
		}
		first.Params[name] = p.sample()
	}
	sample := s.Submission(first)
	return within("trial", sample.Complete())
}

func (s *StopRule) validate() error {
	finite := func(v float64) bool { return v >= 0 && v <= mostWork }
	rungs := s.Rule == "halving" || s.Rule == "hyperband" || s.Rule == "asha"
	switch {
	case !slices.Contains(searchRules, s.Rule):
		return Errorf(Invalid, "is %.40q", s.Rule).On("stopping.rule").Try("use " + strings.Join(searchRules, ", "))
	case !finite(s.Min):
		return Errorf(Invalid, "is %g", s.Min).On("stopping.min").Try("use an amount of work, in the unit the job reports")
	case !finite(s.Max) || rungs && s.Max < s.Min || s.Rule == "pop" && s.Max == 0:
		return Errorf(Invalid, "is %g", s.Max).On("stopping.max").Try("give the work of a whole trial, at least stopping.min, or set work: " + s.Rule + " needs to know it")
	case s.Eta != 0 && !(s.Eta >= 2 && s.Eta <= 100):
		return Errorf(Invalid, "is %g", s.Eta).On("stopping.eta").Try("use 2 to 100")
	case rungs && math.Log(s.Max/s.Min) > 40:
		return Errorf(Invalid, "is %g and max is %g", s.Min, s.Max).On("stopping.min").Try("use numbers that are less far apart")
	case s.Target != nil && (math.IsNaN(*s.Target) || math.IsInf(*s.Target, 0)):
		return Errorf(Invalid, "is %g", *s.Target).On("stopping.target").Try("use a finite number")
	}
	return nil
}

func (p *Parameter) validate(field string) error {
	bad := func(format string, args ...any) *Error { return Errorf(Invalid, format, args...).On(field) }
	if len(p.Values) > 0 {
		switch {
		case p.Min != nil || p.Max != nil || p.Log || p.Int || p.Steps != 0:
			return bad("has values and a range").Try("give one or the other")
		case len(p.Values) < 2 || len(p.Values) > maxValues:
			return bad("has %d values", len(p.Values)).Try(fmt.Sprintf("give 2 to %d, or write the value into the command", maxValues))
		}
		for i, v := range p.Values {
			if len(v) > maxValue || strings.ContainsRune(v, 0) || slices.Contains(p.Values[:i], v) {
				return bad("value %d, %.40q, is there twice, holds a zero byte or has more than %d bytes", i, v, maxValue)
			}
		}
		return nil
	}
	limit := func(v *float64) bool { return v != nil && math.Abs(*v) <= mostWork }
	switch {
	case !limit(p.Min) || !limit(p.Max) || *p.Min >= *p.Max:
		return bad("has no range").Try("give min below max, both numbers, or a list of values")
	case p.Log && *p.Min <= 0:
		return bad("has min = %g", *p.Min).Try("use a number above 0: a logarithmic scale has no zero")
	case p.Int && (*p.Min != math.Trunc(*p.Min) || *p.Max != math.Trunc(*p.Max)):
		return bad("has min = %g, max = %g", *p.Min, *p.Max).Try("use whole numbers")
	case p.Int && p.Log:
		return bad("has int and log").Try("choose one")
	case p.Steps < 0 || p.Steps > maxSteps:
		return bad("has steps = %d", p.Steps).Try(fmt.Sprintf("use 1 to %d", maxSteps))
	}
	return nil
}

// sample returns a value that the parameter may take, the longest as text.
func (p *Parameter) sample() string {
	if len(p.Values) > 0 {
		return slices.MaxFunc(p.Values, func(a, b string) int { return len(a) - len(b) })
	}
	return fmt.Sprintf("%.17g", *p.Min)
}

// SearchActor is the name under which a search acts on its jobs.
func SearchActor(id sched.AppID) string { return "search " + string(id) }
