// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
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
				return nil, strictyaml.FaultAt(key, key.Value, "is set twice")
			}
			err = strictyaml.Fill(value, &s.ID, key.Value)
		case "search":
			if s.Parameters != nil {
				return nil, strictyaml.FaultAt(key, key.Value, "is set twice")
			}
			err = fillSearch(value, s)
		case "jobs":
			err = strictyaml.FaultAt(key, key.Value, "and search are both set; a search creates its own jobs")
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
	return strictyaml.EachKey(n, path, f, func(key string, value *yaml.Node) error { return f[key](value, strictyaml.Join(path, key)) })
}

// into reads a value into a variable.
func into[T any](v *T) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error { return strictyaml.Fill(n, v, path) }
}

// intoNew reads a number into a variable that knows whether it was given.
func intoNew(v **float64) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		*v = new(float64)
		return strictyaml.Fill(n, *v, path)
	}
}

// orWord reads a plain word into one field, and a mapping into several.
func orWord(word *string, f fillers) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if n.Kind == yaml.ScalarNode {
			return strictyaml.Fill(n, word, path)
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
			if err := strictyaml.Fill(n, &seed, path); err != nil {
				return err
			}
			if seed < 0 {
				return strictyaml.FaultAt(n, path, "is %d; want 0 or more", seed)
			}
			s.Seed = uint64(seed)
			return nil
		},
	}.read(n, "search")
}

// fillParameters reads names with a range, such as {min: 1, max: 9}, or a list.
func fillParameters(n *yaml.Node, path string, out map[string]api.Parameter) error {
	if n.Kind != yaml.MappingNode {
		return strictyaml.FaultAt(n, path, "is %s; want names such as \"lr: {min: 0.001, max: 1, log: true}\"", strictyaml.Describe(n))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strictyaml.Join(path, key.Value)
		_, twice := out[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.Value == "<<" || value.Kind == yaml.AliasNode:
			return strictyaml.FaultAt(key, path, "has %s as a name, or a YAML alias as a value; write them out", strictyaml.Describe(key))
		case twice:
			return strictyaml.FaultAt(key, at, "is set twice")
		}
		var p api.Parameter
		var err error
		if value.Kind == yaml.SequenceNode {
			err = strictyaml.Fill(value, &p.Values, at)
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
	if err := s.Trial.ExpandRun(); err != nil {
		return usageError{fmt.Errorf("%s: %w", path, err)}
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
	return printAnswer(out, struct {
		*api.SearchSpec
		Trial dryJob `json:"trial"`
	}{s, dryly(s.Trial)})
}
