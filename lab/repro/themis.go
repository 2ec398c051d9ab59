// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// ThemisConfig is the size of the reproduction of Themis.
type ThemisConfig struct {
	Jobs     int // of each mix
	Seeds    int // mixes
	LieSeeds int // smaller mixes, in each of which every app lies once
	LieJobs  int // of each of them, before they are thinned out
	Workers  int // runs at once
	// Progress, if set, is called with the number of finished runs of a part. Calls
	// never overlap.
	Progress func(part string, done, all int)
}

// DefaultThemis has about 25 apps in a mix, and about a dozen in a small one.
func DefaultThemis() ThemisConfig {
	return ThemisConfig{Jobs: 1500, Seeds: 5, LieSeeds: 10, LieJobs: 700, Workers: 2}
}

// Themis is the reproduction of the Themis paper's simulations.
type Themis struct {
	Config     ThemisConfig
	Policies   []Outcome          // every policy on the mix
	Parts      []Outcome          // between themis and themis:paper
	Estimated  []EstimatedOutcome // with worse estimates
	Contended  []Outcome          // nearly every policy, with the apps closer together
	Knobs      []KnobOutcome      // f and lease
	Errors     []ErrorOutcome
	Lies       []LieOutcome
	Exchange   Exchange
	Network    []Outcome // with compute-intensive models only
	NetworkAll []Outcome // with network-intensive models only
}

// The subjects: the policy with its default settings, and with the paper's.
const (
	ours      = "themis"
	published = "themis:paper"
)

// ThemisPolicies are compared on the mix; the first two are the subjects.
var ThemisPolicies = []string{
	ours, published, "drf", "srsf", "srtf", "las", "tiresias", "slaq", "gandiva", "optimus:original", "fifo",
}

// themisParts differ from the default or from the paper in one respect.
var themisParts = []string{
	"themis:slowdown=4", "themis:offer=all", "themis:ideal=paper:forecast=paper", "themis:patience=0", "themis:paper:slowdown=1.05",
}

// contendedPolicies are compared at full contention: all but slaq, which takes as
// long for thousands of waiting jobs as all others together.
func contendedPolicies() []string {
	return slices.DeleteFunc(slices.Clone(ThemisPolicies), func(p string) bool { return p == "slaq" })
}

// The settings that are varied.
var (
	themisFs     = []float64{0, 0.4, 0.8, 0.9, 1}
	themisLeases = []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute}
	themisErrors = []float64{0, 0.1, 0.2}
	themisClaims = []float64{2, 0.5}
)

const (
	themisF     = 0.8
	themisLease = 10 * time.Minute
	errorDraws  = 3 // of the errors, for each mix
	thinner     = 4 // divides the jobs of every app and the GPUs of a smaller mix
	fullLoad    = 4 // the GPU time that apps need, over that of the cluster while they arrive
)

// KnobOutcome is a subject with another f and lease.
type KnobOutcome struct {
	Of    string // the subject
	F     float64
	Lease time.Duration
	Outcome
}

// ErrorOutcome is themis with estimates of rho that are wrong by up to Error.
type ErrorOutcome struct {
	Error float64
	Outcome
}

// EstimatedOutcome is a policy without exact run times.
type EstimatedOutcome struct {
	Estimates sim.Estimates
	Outcome
}

// RunThemis runs the reproduction.
func RunThemis(c ThemisConfig) (*Themis, error) {
	m, err := newMixes(c)
	if err != nil {
		return nil, err
	}
	t := &Themis{Config: c}
	for _, part := range []func(*mixes) error{
		t.comparePolicies, t.varyEstimates, t.varyKnobs, t.addErrors, t.tellLies, t.varyNetwork,
	} {
		if err := part(m); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Themis) comparePolicies(m *mixes) error {
	var err error
	if t.Policies, err = m.outcomes("policies", mix{}, ThemisPolicies); err != nil {
		return err
	}
	if t.Contended, err = m.outcomes("full contention", mix{load: fullLoad}, contendedPolicies()); err != nil {
		return err
	}
	if t.Parts, err = m.outcomes("differences from the paper", mix{}, themisParts); err != nil {
		return err
	}
	res, err := m.run(mix{seed: 1, load: fullLoad}, ours)
	if err != nil {
		return err
	}
	t.Exchange = exchangeOf(res)
	return nil
}

// varyEstimates runs the policies that use estimates with worse ones.
func (t *Themis) varyEstimates(m *mixes) error {
	var specs []string
	for _, o := range t.Policies {
		if o.Oracle {
			specs = append(specs, o.Policy)
		}
	}
	for _, e := range []sim.Estimates{sim.User, sim.History, sim.None} {
		out, err := m.outcomes("estimates: "+string(e), mix{estimates: e}, specs)
		if err != nil {
			return err
		}
		for _, o := range out {
			t.Estimated = append(t.Estimated, EstimatedOutcome{e, o})
		}
	}
	return nil
}

// varyKnobs runs every f with every lease.
func (t *Themis) varyKnobs(m *mixes) error {
	var specs []string
	for _, of := range []string{ours, published} {
		for _, f := range themisFs {
			for _, lease := range themisLeases {
				t.Knobs = append(t.Knobs, KnobOutcome{Of: of, F: f, Lease: lease})
				specs = append(specs, fmt.Sprintf("%s:f=%g:lease=%s", of, f, sched.Duration(lease)))
			}
		}
	}
	out, err := m.outcomes("f and lease", mix{thin: thinner}, specs)
	for i := range out {
		t.Knobs[i].Outcome = out[i]
	}
	return err
}

func (t *Themis) addErrors(m *mixes) error {
	var specs []string
	for _, e := range themisErrors {
		for draw := range errorDraws {
			specs = append(specs, fmt.Sprintf("themis:error=%g:seed=%d", e, draw+1))
		}
	}
	out, err := m.outcomes("errors in estimates", mix{}, specs)
	if err != nil {
		return err
	}
	for i, e := range themisErrors {
		var runs []Fairness
		for _, o := range out[i*errorDraws : (i+1)*errorDraws] {
			runs = append(runs, o.Runs...)
		}
		t.Errors = append(t.Errors, ErrorOutcome{e, Outcome{Policy: fmt.Sprintf("themis:error=%g", e), Runs: runs}})
	}
	return nil
}

// networkPolicies are compared on models of one kind.
var networkPolicies = []string{ours, published, "las", "tiresias"}

// whyTiresias are variants that show why tiresias is so far behind on compute-intensive
// models: placed as closely as others, with the queues of its authors, and a policy that
// goes by apps instead of jobs and knows nothing else.
var whyTiresias = []string{"tiresias:placement=consolidated", "tiresias:placement=consolidated:thresholds=3250s/7200s/18000s", "drf"}

// varyNetwork runs the extremes of what the paper varies: no app and every app
// has a network-intensive model.
func (t *Themis) varyNetwork(m *mixes) error {
	var err error
	if t.Network, err = m.outcomes("compute-intensive", mix{models: []string{"resnet50", "gnmt", "wavenet"}}, slices.Concat(networkPolicies, whyTiresias)); err != nil {
		return err
	}
	t.NetworkAll, err = m.outcomes("network-intensive", mix{models: []string{"vgg16", "transformer", "lm"}}, networkPolicies)
	return err
}

// outcomeOf returns the outcome of a policy.
func outcomeOf(all []Outcome, policy string) Outcome {
	i := slices.IndexFunc(all, func(o Outcome) bool { return o.Policy == policy })
	if i < 0 {
		return Outcome{Policy: policy}
	}
	return all[i]
}

// knob returns the outcome of a subject at a setting.
func (t *Themis) knob(of string, f float64, lease time.Duration) KnobOutcome {
	for _, k := range t.Knobs {
		if k.Of == of && k.F == f && k.Lease == lease {
			return k
		}
	}
	return KnobOutcome{Of: of, F: f, Lease: lease}
}

// short is the name of a policy in charts.
func short(policy string) string { return strings.TrimSuffix(policy, ":original") }
