// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"errors"
	"fmt"
)

// scopeNames is the chain of names that a graph may read: its own and those
// of the graphs around it.
type scopeNames struct {
	outer *scopeNames
	names map[string]bool
}

func (s *scopeNames) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.names[name] {
			return true
		}
	}
	return false
}

// check refuses a graph whose names clash, that reads what nothing produces
// or that has a cycle, and sorts its nodes so that producers come before
// consumers.
func (g *Graph) check(outer *scopeNames) error {
	scope := &scopeNames{outer, map[string]bool{}}
	producer, err := g.define(scope)
	if err != nil {
		return err
	}
	if err := g.sort(scope, producer); err != nil {
		return err
	}
	for _, v := range g.Outputs {
		if v.Name != "" && !scope.has(v.Name) {
			return fmt.Errorf("output %q is produced by nothing", v.Name)
		}
	}
	for _, n := range g.Nodes {
		for i := range n.Attrs {
			if sub := n.Attrs[i].Graph; sub != nil {
				if err := sub.check(scope); err != nil {
					return fmt.Errorf("%s: %s: %w", n, n.Attrs[i].Name, err)
				}
			}
		}
	}
	return nil
}

// define enters every name that the graph gives a value and returns which
// node produces which. An initializer may repeat the name of an input: it is
// the input's default.
func (g *Graph) define(scope *scopeNames) (producer map[string]int, err error) {
	initial := map[string]bool{}
	for _, t := range g.Initializers {
		if initial[t.Name] {
			return nil, fmt.Errorf("two initializers are named %q", t.Name)
		}
		initial[t.Name] = true
		scope.names[t.Name] = true
	}
	inputs := map[string]bool{}
	for _, v := range g.Inputs {
		if inputs[v.Name] {
			return nil, fmt.Errorf("two inputs are named %q", v.Name)
		}
		inputs[v.Name] = true
		scope.names[v.Name] = true
	}
	producer = make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if n.Op == "" {
			return nil, fmt.Errorf("node %d (%q) has no operator", i, n.Name)
		}
		for _, name := range n.Outputs {
			if name == "" {
				continue
			}
			if scope.names[name] {
				return nil, fmt.Errorf("%s produces %q, which already has a value", n, name)
			}
			scope.names[name] = true
			producer[name] = i
		}
	}
	return producer, nil
}

// reads calls f with every name that a node reads, those of its graphs'
// nodes included.
func (n *Node) reads(f func(string)) {
	for _, name := range n.Inputs {
		f(name)
	}
	for i := range n.Attrs {
		if g := n.Attrs[i].Graph; g != nil {
			for _, inner := range g.Nodes {
				inner.reads(f)
			}
			for _, v := range g.Outputs {
				f(v.Name)
			}
		}
	}
}

// sort orders the nodes by Kahn's algorithm; among nodes that are ready the
// order of the file holds.
func (g *Graph) sort(scope *scopeNames, producer map[string]int) error {
	waits := make([]int, len(g.Nodes))
	next := make([][]int, len(g.Nodes))
	inOrder := true
	for i, n := range g.Nodes {
		for _, name := range n.Inputs {
			if name != "" && !scope.has(name) {
				return fmt.Errorf("%s reads %q, which nothing produces", n, name)
			}
		}
		n.reads(func(name string) {
			if p, ok := producer[name]; ok && name != "" {
				waits[i]++
				next[p] = append(next[p], i)
				inOrder = inOrder && p < i
			}
		})
	}
	if inOrder {
		return nil
	}
	sorted := make([]*Node, 0, len(g.Nodes))
	var ready []int
	for i, w := range waits {
		if w == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		sorted = append(sorted, g.Nodes[i])
		for _, j := range next[i] {
			if waits[j]--; waits[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	if len(sorted) < len(g.Nodes) {
		for i, w := range waits {
			if w > 0 {
				return fmt.Errorf("the graph has a cycle, through or before %s", g.Nodes[i])
			}
		}
		return errors.New("the graph has a cycle")
	}
	g.Nodes = sorted
	return nil
}
