// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/suggest"
)

// Layer wraps a policy in another one.
type Layer = func(inner sched.Policy) sched.Policy

// Layered makes the entry of a layer. A layer calls the policy below it, possibly
// with other jobs (sched.Snapshot.With), and may change the plan. It must return a
// valid plan for its snapshot if the policy below does.
func Layered[C any](about About, standard C, build func(C) (Layer, error)) Entry {
	return Entry{
		About: about, Knobs: knob.List(standard),
		wrap: func(words []string) (Layer, error) {
			config := standard
			for _, word := range words {
				if err := apply[C](&config, word, nil); err != nil {
					return nil, err
				}
			}
			layer, err := build(config)
			return func(inner sched.Policy) sched.Policy {
				return named{layer(inner), fmt.Sprint(inner) + knob.Text("@"+about.Name, config, standard)}
			}, err
		},
	}
}

// Layers returns the layers of the table, by name.
func (r Registry) Layers() []Entry {
	var out []Entry
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if key[0] == '@' {
			out = append(out, r[key])
		}
	}
	return out
}

// Key returns the name of the entry in the table; that of a layer begins with @.
func (e Entry) Key() string {
	if e.wrap != nil {
		return "@" + e.Name
	}
	return e.Name
}

// over puts layers over a policy, the first one innermost.
func (r Registry) over(p sched.Policy, layers []string) (sched.Policy, error) {
	for _, layer := range layers {
		words := strings.Split(layer, ":")
		e, ok := r["@"+words[0]]
		if !ok {
			var names []string
			for _, e := range r.Layers() {
				names = append(names, e.Name)
			}
			return nil, fmt.Errorf("unknown layer %s", suggest.Among(words[0], names))
		}
		wrap, err := e.wrap(words[1:])
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", e.Name, err)
		}
		p = wrap(p)
	}
	return p, nil
}
