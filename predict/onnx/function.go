// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"fmt"
	"strconv"
)

// functionKey names a model-local function.
type functionKey struct{ domain, name string }

// function is a FunctionProto: nodes that replace one node of its name.
type function struct {
	inputs, outputs []string
	nodes           []*Node
	defaults        []Attribute
}

// function reads a FunctionProto into d.functions.
func (d *decoder) function(typ wireType) error {
	var key functionKey
	f := &function{}
	_, err := inside(d, typ, d.limits.Bytes, func(end int64) (struct{}, error) {
		for d.off < end {
			num, typ, err := d.tag(end)
			if err != nil {
				return struct{}{}, err
			}
			switch num {
			case 1:
				key.name, err = d.text(typ, end)
			case 4:
				err = d.addName(&f.inputs, typ, end)
			case 5:
				err = d.addName(&f.outputs, typ, end)
			case 7:
				err = d.addNode(&f.nodes, typ, end, 0)
			case 10:
				key.domain, err = d.text(typ, end)
				key.domain = standard(key.domain)
			case 11:
				var a Attribute
				a, err = inside(d, typ, end, func(end int64) (Attribute, error) { return d.attribute(end, 0) })
				f.defaults = append(f.defaults, a)
			default:
				err = d.skip(typ, end)
			}
			if err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("function %q: %w", key.name, err)
	}
	if !f.holdsGraph() {
		d.functions[key] = f
	}
	return nil
}

// holdsGraph reports whether a node of the function has its own graph. Calls of
// such a function are not expanded and count as an unknown operator.
func (f *function) holdsGraph() bool {
	for _, n := range f.nodes {
		for i := range n.Attrs {
			if n.Attrs[i].Graph != nil {
				return true
			}
		}
	}
	return false
}

// expand replaces every call of a model-local function by its nodes. Each expansion
// counts against the limit on nodes, so functions that call each other many times,
// or themselves, end in an error.
func (d *decoder) expand(g *Graph, depth int) error {
	if len(d.functions) == 0 {
		return nil
	}
	nodes, err := d.expandNodes(g.Nodes, depth)
	if err != nil {
		return err
	}
	g.Nodes = nodes
	return nil
}

func (d *decoder) expandNodes(nodes []*Node, depth int) ([]*Node, error) {
	if depth > d.limits.Depth {
		return nil, fmt.Errorf("calls nest deeper than %d (Limits.Depth)", d.limits.Depth)
	}
	var out []*Node
	for _, n := range nodes {
		for i := range n.Attrs {
			if g := n.Attrs[i].Graph; g != nil {
				if err := d.expand(g, depth); err != nil {
					return nil, err
				}
			}
		}
		f := d.functions[functionKey{n.Domain, n.Op}]
		if f == nil {
			out = append(out, n)
			continue
		}
		body, err := d.instance(f, n)
		if err == nil {
			body, err = d.expandNodes(body, depth+1)
		}
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", n.Op, err)
		}
		out = append(out, body...)
	}
	return out, nil
}

// instance copies the nodes of a function for one call.
func (d *decoder) instance(f *function, call *Node) ([]*Node, error) {
	if d.nodes += len(f.nodes); d.nodes > d.limits.Nodes {
		return nil, fmt.Errorf("more than %d nodes (Limits.Nodes)", d.limits.Nodes)
	}
	rename := map[string]string{"": ""}
	bind := func(formal, actual []string) {
		for i, name := range formal {
			rename[name] = ""
			if i < len(actual) {
				rename[name] = actual[i]
			}
		}
	}
	bind(f.inputs, call.Inputs)
	bind(f.outputs, call.Outputs)
	prefix := "call" + strconv.Itoa(d.nodes) + "/"
	local := func(names []string) []string {
		out := make([]string, len(names))
		for i, name := range names {
			renamed, ok := rename[name]
			if !ok {
				renamed = prefix + name
			}
			out[i] = renamed
		}
		return out
	}
	body := make([]*Node, 0, len(f.nodes))
	for _, n := range f.nodes {
		c := *n
		c.Inputs, c.Outputs = local(n.Inputs), local(n.Outputs)
		c.Attrs = bindAttrs(n.Attrs, call, f)
		if err := d.charge(256 + 32*int64(len(c.Inputs)+len(c.Outputs)) + 192*int64(len(c.Attrs))); err != nil {
			return nil, err
		}
		body = append(body, &c)
	}
	return body, nil
}

// bindAttrs resolves attributes that refer to those of the call.
func bindAttrs(attrs []Attribute, call *Node, f *function) []Attribute {
	out := make([]Attribute, 0, len(attrs))
	for _, a := range attrs {
		if a.ref != "" {
			given := call.Attr(a.ref)
			for i := range f.defaults {
				if given == nil && f.defaults[i].Name == a.ref {
					given = &f.defaults[i]
				}
			}
			if given == nil {
				continue // optional and not given
			}
			name := a.Name
			a = *given
			a.Name = name
		}
		out = append(out, a)
	}
	return out
}
