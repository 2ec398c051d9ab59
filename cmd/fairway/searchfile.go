// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/tune/runner"
)

// parseSearch reads a search: what to search under "search", and the fields of a
// job beside it.
func parseSearch(n *yaml.Node) (*api.SearchSpec, error) {
	s := &api.SearchSpec{}
	job := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		var err error
		switch key.Value {
		case "id":
			if s.ID != "" {
				return nil, faultAt(key, key.Value, "is set twice")
			}
			err = fill(value, reflect.ValueOf(&s.ID).Elem(), key.Value)
		case "search":
			if s.Parameters != nil {
				return nil, faultAt(key, key.Value, "is set twice")
			}
			err = fillSearch(value, s)
		case "jobs":
			err = faultAt(key, key.Value, "and search are both set; a search creates its own jobs")
		default:
			job.Content = append(job.Content, key, value)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, fillJob(job, &s.Trial)
}

// fillers read the fields of a mapping.
type fillers map[string]func(*yaml.Node, string) error

func (f fillers) read(n *yaml.Node, path string) error {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	return eachKey(n, path, names, func(key string, value *yaml.Node) error { return f[key](value, join(path, key)) })
}

// into reads a value into a variable.
func into[T any](v *T) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error { return fill(n, reflect.ValueOf(v).Elem(), path) }
}

// intoNew reads a number into a variable that knows whether it was given.
func intoNew(v **float64) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		*v = new(float64)
		return fill(n, reflect.ValueOf(*v).Elem(), path)
	}
}

// orWord reads a plain word into one field, and a mapping into several.
func orWord(word *string, f fillers) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if n.Kind == yaml.ScalarNode {
			return fill(n, reflect.ValueOf(word).Elem(), path)
		}
		return f.read(n, path)
	}
}

func fillSearch(n *yaml.Node, s *api.SearchSpec) error {
	s.Parameters = map[string]api.Parameter{}
	return fillers{
		"parameters": func(n *yaml.Node, path string) error { return fillParameters(n, path, s.Parameters) },
		"method":     into(&s.Method),
		"metric":     orWord(&s.Metric.Name, fillers{"name": into(&s.Metric.Name), "goal": into(&s.Metric.Goal)}),
		"stopping": orWord(&s.Stopping.Rule, fillers{
			"rule": into(&s.Stopping.Rule), "min": into(&s.Stopping.Min), "max": into(&s.Stopping.Max),
			"eta": into(&s.Stopping.Eta), "target": intoNew(&s.Stopping.Target),
		}),
		"trials":  into(&s.Trials),
		"at_once": into(&s.AtOnce),
		"key":     into(&s.Key),
		"seed": func(n *yaml.Node, path string) error {
			var seed int64
			if err := fill(n, reflect.ValueOf(&seed).Elem(), path); err != nil {
				return err
			}
			if seed < 0 {
				return faultAt(n, path, "is %d; want 0 or more", seed)
			}
			s.Seed = uint64(seed)
			return nil
		},
	}.read(n, "search")
}

// fillParameters reads names with a range, such as {min: 1, max: 9}, or a list.
func fillParameters(n *yaml.Node, path string, out map[string]api.Parameter) error {
	if n.Kind != yaml.MappingNode {
		return faultAt(n, path, "is %s; want names such as \"lr: {min: 0.001, max: 1, log: true}\"", describe(n))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		_, twice := out[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.Value == "<<" || value.Kind == yaml.AliasNode:
			return faultAt(key, path, "has %s as a name, or a YAML alias as a value; write them out", describe(key))
		case twice:
			return faultAt(key, at, "is set twice")
		}
		var p api.Parameter
		var err error
		if value.Kind == yaml.SequenceNode {
			err = fill(value, reflect.ValueOf(&p.Values).Elem(), at)
		} else {
			err = fillers{
				"min": intoNew(&p.Min), "max": intoNew(&p.Max), "log": into(&p.Log), "int": into(&p.Int),
				"steps": into(&p.Steps), "values": into(&p.Values),
			}.read(value, at)
		}
		if err != nil {
			return err
		}
		out[key.Value] = p
	}
	return nil
}

// readSearch makes a search of a file ready to be sent.
func readSearch(path string, id sched.AppID, s *api.SearchSpec) error {
	if id != "" {
		s.ID = id
	}
	if s.ID == "" {
		return usagef("%s: the search has no id; add a line such as \"id: sweep\", or use --id", path)
	}
	s.Complete()
	if err := settle(&s.Trial, false); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return usageError{fmt.Errorf("%s: %w", path, err)}
	}
	if err := runner.Check(*s); err != nil {
		return usageError{fmt.Errorf("%s: %w", path, err)}
	}
	return nil
}

// printDrySearch prints what would be sent.
func printDrySearch(out, told io.Writer, s *api.SearchSpec) error {
	fmt.Fprintln(told, "dry run: this search would be submitted:")
	return printAnswer(out, s)
}
