// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"fmt"
	"strings"
)

// Model is what Read keeps from an ONNX file.
type Model struct {
	IRVersion int64
	Producer  string
	// Opsets holds the version of each operator set by domain; the standard
	// domain is "".
	Opsets map[string]int64
	Graph  *Graph
	// Weights is the sum of the tensor bytes declared in the file, kept or not.
	Weights int64
}

// Opset returns the version of the standard operators; 0 if the model does not
// declare it.
func (m *Model) Opset() int64 { return m.Opsets[""] }

// Graph is a model's graph or the body of an If, Loop or Scan. After Read, nodes
// are in topological order.
type Graph struct {
	Name         string
	Nodes        []*Node
	Inputs       []ValueInfo
	Outputs      []ValueInfo
	Values       []ValueInfo
	Initializers []*Tensor
}

// Node is one operator. An empty input or output name is an omitted optional one.
type Node struct {
	Name    string
	Op      string
	Domain  string
	Inputs  []string
	Outputs []string
	Attrs   []Attribute
}

// String names a node in messages.
func (n *Node) String() string {
	op := n.Op
	if n.Domain != "" {
		op = n.Domain + "." + n.Op
	}
	switch {
	case n.Name != "":
		return fmt.Sprintf("%s %q", op, n.Name)
	case len(n.Outputs) > 0:
		return fmt.Sprintf("%s giving %q", op, n.Outputs[0])
	}
	return op
}

// Attr returns the attribute with a name; nil if the node has none.
func (n *Node) Attr(name string) *Attribute {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return &n.Attrs[i]
		}
	}
	return nil
}

// Int returns an integer attribute, or its default if it is absent.
func (n *Node) Int(name string, absent int64) int64 {
	if a := n.Attr(name); a != nil {
		return a.I
	}
	return absent
}

// Ints returns a list attribute; nil if absent.
func (n *Node) Ints(name string) []int64 {
	if a := n.Attr(name); a != nil {
		return a.Ints
	}
	return nil
}

// Text returns a string attribute; "" if absent.
func (n *Node) Text(name string) string {
	if a := n.Attr(name); a != nil {
		return a.S
	}
	return ""
}

// Attribute is a named constant of a node; which field is set depends on the
// operator.
type Attribute struct {
	Name    string
	I       int64
	F       float32
	S       string
	Ints    []int64
	Floats  []float32
	Strings []string
	Tensor  *Tensor
	Graph   *Graph
	// ref is the attribute of the enclosing function that this one refers to; empty
	// once functions are expanded.
	ref string
}

// Tensor is a constant: its type, its dimensions and, if they are few, its
// elements.
type Tensor struct {
	Name string
	Type DataType
	Dims []int64
	// Ints or Floats hold the elements of a small tensor of integers (or booleans)
	// or of floats; both are nil if the contents were skipped.
	Ints   []int64
	Floats []float64
	// Digest distinguishes large float matrices by some of their elements: a matrix
	// and its transpose have the same one. It is 0 for square matrices, if the
	// contents were not read, and if all elements are equal.
	Digest uint64
}

// ValueInfo is the recorded type of a value. Shape is nil if the rank is not
// recorded.
type ValueInfo struct {
	Name  string
	Type  DataType
	Shape []Dim
}

// Dim is a recorded dimension: a number, a symbol, or unknown (Size -1 and no
// Symbol).
type Dim struct {
	Size   int64
	Symbol string
}

// DataType is the element type of a tensor, numbered as in the ONNX schema.
type DataType int32

// The element types.
const (
	Undefined DataType = iota
	Float
	Uint8
	Int8
	Uint16
	Int16
	Int32
	Int64
	String
	Bool
	Float16
	Double
	Uint32
	Uint64
	Complex64
	Complex128
	BFloat16
	Float8E4M3FN
	Float8E4M3FNUZ
	Float8E5M2
	Float8E5M2FNUZ
	Uint4
	Int4
	Float4E2M1
	typeCount
)

// Bytes returns the size of an element in bytes; half bytes are rounded up
// and text counts as its 8-byte handle.
func (t DataType) Bytes() int64 {
	switch t {
	case Uint8, Int8, Bool, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Uint4, Int4, Float4E2M1:
		return 1
	case Uint16, Int16, Float16, BFloat16:
		return 2
	case Int64, Uint64, Double, Complex64, String:
		return 8
	case Complex128:
		return 16
	}
	return 4
}

// Differentiable reports whether gradients flow through values of the type.
func (t DataType) Differentiable() bool {
	switch t {
	case Float, Float16, Double, BFloat16, Complex64, Complex128:
		return true
	}
	return false
}

// integral reports whether elements fit into int64; booleans as 0 and 1.
func (t DataType) integral() bool {
	switch t {
	case Uint8, Int8, Uint16, Int16, Int32, Int64, Bool, Uint32, Uint64:
		return true
	}
	return false
}

// standard maps a domain to its name in Model.Opsets: the standard operators have
// two names.
func standard(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return strings.TrimSpace(domain)
}
