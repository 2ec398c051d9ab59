// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"strings"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// unfold restores the batch normalisations that an exporter has folded into
// convolutions for inference: training runs them. The given shapes stay unchanged.
func unfold(s *onnx.Shapes) *onnx.Shapes {
	folded := 0
	for i := range s.Ops {
		if foldedNorm(s, &s.Ops[i]) {
			folded++
		}
	}
	if folded == 0 {
		return s
	}
	out := *s
	out.Values = make([]*onnx.Value, len(s.Values), len(s.Values)+6*folded)
	for i, v := range s.Values {
		twin := *v
		out.Values[i] = &twin
	}
	out.Ops = make([]onnx.Op, 0, len(s.Ops)+folded)
	for i := range s.Ops {
		op := s.Ops[i]
		if !foldedNorm(s, &op) {
			out.Ops = append(out.Ops, op)
		} else {
			out.Ops = append(out.Ops, splitNorm(&out, op)...)
		}
	}
	for i := range out.Ops {
		for _, id := range out.Ops[i].Out {
			if id >= 0 {
				out.Values[id].Producer = i
			}
		}
	}
	return &out
}

// foldedNorm reports whether a normalisation was folded into a convolution. Its
// weights are then no parameters of the model, which the names given by exporters
// show: PyTorch's tracer numbers such constants ("onnx::Conv_193", and "193" in
// older releases), its newer exporter leaves the name of the normalisation's result
// ("getitem_3").
func foldedNorm(s *onnx.Shapes, op *onnx.Op) bool {
	if op.Node.Op != "Conv" || len(op.In) < 2 || op.In[1] < 0 || len(op.Out) != 1 || op.Out[0] < 0 {
		return false
	}
	weight := s.Values[op.In[1]]
	if weight.Source != onnx.Stored || len(weight.Dims) < 3 || weight.Dims[0] <= 0 {
		return false
	}
	if strings.HasPrefix(s.Values[op.Out[0]].Name, "getitem") {
		return true
	}
	return len(op.In) > 2 && op.In[2] >= 0 && numbered(weight.Name) && numbered(s.Values[op.In[2]].Name)
}

// numbered reports whether a name is a number assigned by the tracer.
func numbered(name string) bool {
	name = strings.TrimPrefix(name, "onnx::Conv_")
	return name != "" && strings.Trim(name, "0123456789") == ""
}

// splitNorm splits one operation into a convolution without bias and a
// normalisation. It adds the values between and beside them to s.
func splitNorm(s *onnx.Shapes, op onnx.Op) []onnx.Op {
	result := s.Values[op.Out[0]]
	channels := s.Values[op.In[1]].Dims[0]
	between := len(s.Values)
	inner := *result
	inner.Name += " before normalisation"
	s.Values = append(s.Values, &inner)
	norm := onnx.Op{Node: &onnx.Node{Op: "BatchNormalization", Name: op.Node.Name}, In: []int{between}, Out: op.Out, Repeat: op.Repeat}
	for _, name := range []string{"scale", "shift", "mean", "variance"} {
		norm.In = append(norm.In, len(s.Values))
		s.Values = append(s.Values, &onnx.Value{Name: result.Name + " " + name, Type: s.Values[op.In[1]].Type,
			Source: onnx.Stored, Dims: []int64{channels}, Producer: -1})
	}
	op.In, op.Out = op.In[:2:2], []int{between}
	return []onnx.Op{op, norm}
}
