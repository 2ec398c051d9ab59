// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy is the table of scheduling policies. A policy is a folder
// below this one and a line in Builtin; layers, auctions and interference models
// that policies share live here too. All of it is pure and imports only sched.
//
// # Naming a policy
//
// A policy is asked for by a spec: its name, then words separated by colons.
// A bare word is a variant, a word with "=" sets a knob, a field of the
// policy's Config by its JSON name. Words are read from left to right, so a
// knob after a variant wins.
//
//	tiresias
//	tiresias:gittins
//	las:lease=20m
//	tiresias:gittins:thresholds=1h/16h
//
// The elements of a list are separated by "/".
//
// A layer stands over a policy and changes what it sees or wants; see Layered.
// Layers follow the policy, each after "@", the first one the innermost:
//
//	tiresias@share
//	fifo@defrag:moves=2@reserve@screen
//
// # A binary with more policies
//
// Builtin returns a new table with each call, so a custom binary adds its own
// lines without affecting others:
//
//	table := policy.Builtin()
//	err := table.Add(policy.Of(policy.About{Name: "mine"}, mine.Default(), mine.New))
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/policy/layer/topology"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
	"github.com/fairway-gpu/fairway/sched/suggest"
)

// maxSpec bounds the length of a spec, in bytes.
const maxSpec = 4096

// Registry is a table of policies by name, and of layers by "@" and their name.
type Registry map[string]Entry

// Entry describes a policy in the table.
type Entry struct {
	About
	Variants []Variant   `json:"variants,omitempty"`
	Knobs    []knob.Knob `json:"knobs,omitempty"`
	build    func(words []string) (sched.Policy, About, error)
	wrap     func(words []string) (Layer, error) // of a layer, instead of build
}

// About describes a policy for people.
type About struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Paper   string `json:"paper,omitempty"` // where the idea comes from
	Needs
	Promises Promises `json:"promises,omitempty"`
	Order    Order    `json:"-"`
	// Resizes says that the policy gives elastic jobs other sizes than they ask for.
	Resizes bool `json:"-"`
	// Events says that the policy decides at every event, where others decide in
	// rounds.
	Events bool `json:"-"`
	// Learns says that new jobs start from what past jobs measured.
	Learns bool `json:"-"`
}

// Needs is what a policy needs to know about jobs beyond their specs.
type Needs struct {
	// Agents says that the policy works with jobs whose agents report how they
	// train and adapt their batch size. Under other policies jobs keep the batch
	// size they were submitted with.
	Agents bool `json:"agents,omitempty"`
	// Losses, with Agents, says that agents report training losses and measured
	// step times, and leave batch sizes alone.
	Losses bool `json:"losses,omitempty"`
	// Oracle says that the policy plans with true step times and lengths, which
	// only a simulator has.
	Oracle bool `json:"oracle,omitempty"`
	// Estimates says that decisions depend on how long jobs are estimated to run.
	// With exact estimates, which only a simulator has, the policy is an oracle.
	Estimates bool `json:"estimates,omitempty"`
	// Coordinator says that a simulator models AntMan's local coordinator, which
	// throttles guests on GPUs that they share.
	Coordinator bool `json:"coordinator,omitempty"`
}

// String names what is needed; it is empty if nothing is.
func (n Needs) String() string {
	var out []string
	switch {
	case n.Oracle:
		out = append(out, "true step times and lengths, which only a simulator has")
	case n.Agents && n.Losses:
		out = append(out, "agents that report losses and step times")
	case n.Agents:
		out = append(out, "agents that report models of speed and tune batch sizes")
	}
	if n.Estimates {
		out = append(out, "estimates of run times; exact ones make it an oracle")
	}
	if n.Coordinator {
		out = append(out, "a local coordinator, which only a simulator has; live, guests are suspended")
	}
	return strings.Join(out, "; ")
}

// Variant is a named setting of several knobs.
type Variant struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Needs and Promises are those of the setting; the table fills them in.
	Needs
	Promises Promises `json:"promises,omitempty"`
}

// Preset is a variant together with what it does to a config of type C.
type Preset[C any] struct {
	Variant
	Set func(*C)
}

// Of makes an entry from a policy's default config and its constructor.
func Of[C any](about About, standard C, build func(C) (sched.Policy, error), presets ...Preset[C]) Entry {
	return Varying(about, standard, build, func(C, *About) {}, presets...)
}

// Varying makes an entry of a policy whose needs or promises depend on its config:
// vary adapts about.
func Varying[C any](about About, standard C, build func(C) (sched.Policy, error), vary func(C, *About), presets ...Preset[C]) Entry {
	e := Entry{About: about, Knobs: knob.List(standard)}
	e.build = func(words []string) (sched.Policy, About, error) {
		config := standard
		for _, word := range words {
			if err := apply(&config, word, presets); err != nil {
				return nil, About{}, err
			}
		}
		p, err := build(config)
		about := about
		vary(config, &about)
		if rule, ok := knob.Find[place.Rule](config); ok && rule.Insists() {
			about.Promises &^= WorkConserving
			// On the ladder, a job waits for locality for a part of its run time.
			about.Estimates = about.Estimates || rule == place.OnLadder
		}
		return named{p, knob.Text(about.Name, config, standard)}, about, err
	}
	// A config that is refused has no needs; New returns the error.
	_, e.About, _ = e.build(nil)
	for _, p := range presets {
		_, about, _ := e.build([]string{p.Name})
		p.Needs, p.Promises = about.Needs, about.Promises
		e.Variants = append(e.Variants, p.Variant)
	}
	return e
}

// named is a policy with the spec that builds it.
type named struct {
	sched.Policy
	spec string
}

func (n named) String() string { return n.spec }

// apply applies one word of a spec to the config.
func apply[C any](config *C, word string, presets []Preset[C]) error {
	if name, value, ok := strings.Cut(word, "="); ok {
		return knob.Set(config, name, value)
	}
	names := make([]string, 0, len(presets))
	for _, p := range presets {
		if p.Name == word {
			p.Set(config)
			return nil
		}
		names = append(names, p.Name)
	}
	return fmt.Errorf("unknown variant %s", suggest.Among(word, names))
}

// Add adds policies to the table. A name that is taken is an error.
func (r Registry) Add(entries ...Entry) error {
	for _, e := range entries {
		if e.Name == "" || strings.ContainsAny(e.Name, ":=,/@ ") {
			return fmt.Errorf("add policy: name = %q; want a word without colon, equals sign, comma, slash, at sign or space", e.Name)
		}
		if _, taken := r[e.Key()]; taken {
			return fmt.Errorf("add policy %s: the name is taken", e.Name)
		}
		r[e.Key()] = e
	}
	return nil
}

// Names returns the names of the policies in alphabetical order.
func (r Registry) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(key string) bool { return key[0] == '@' })
}

// About describes the policy that a spec names; it is empty if there is no such
// policy.
func (r Registry) About(spec string) About {
	spec, layers, _ := strings.Cut(spec, "@")
	words := strings.Split(spec, ":")
	e, ok := r[words[0]]
	if !ok {
		return About{}
	}
	if _, about, err := e.build(words[1:]); err == nil {
		e.About = about
	}
	for layer := range strings.SplitSeq(layers, "@") {
		name, _, _ := strings.Cut(layer, ":")
		e.Estimates = e.Estimates || r["@"+name].Estimates
	}
	return e.About
}

// NewLive builds the policy that a spec names, if it can work with real jobs.
func (r Registry) NewLive(spec string) (sched.Policy, error) {
	p, err := r.New(spec)
	if err == nil && r.About(spec).Oracle {
		return nil, fmt.Errorf("policy %s plans with true run times, which only the simulator has; want one that needs no truth", spec)
	}
	return p, err
}

// New builds the policy that a spec names; see the package comment.
func (r Registry) New(spec string) (sched.Policy, error) {
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("policy: the spec has %d bytes; want at most %d", len(spec), maxSpec)
	}
	base, layers, layered := strings.Cut(spec, "@")
	words := strings.Split(base, ":")
	e, ok := r[words[0]]
	if !ok {
		return nil, fmt.Errorf("unknown policy %s", suggest.Among(words[0], r.Names()))
	}
	p, _, err := e.build(words[1:])
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", e.Name, err)
	}
	if layered {
		if p, err = r.over(p, strings.Split(layers, "@")); err != nil {
			return nil, err
		}
	}
	return topology.Over(p, r.About(spec).Promises&NeverPreempts == 0), nil
}
