// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"strings"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// unmerge restores the activations that an exporter has merged because several layers
// apply the same function to the same value, as the cells of PNASNet do: in training
// each of them runs, and keeps its result. The given shapes stay unchanged.
func unmerge(s *onnx.Shapes) *onnx.Shapes {
	readers := map[int][]int{} // result of a ReLU -> convolutions that read it
	for i := range s.Ops {
		if s.Ops[i].Node.Op != "Conv" || len(s.Ops[i].In) == 0 || s.Ops[i].In[0] < 0 {
			continue
		}
		id := s.Ops[i].In[0]
		if p := s.Values[id].Producer; p >= 0 && s.Ops[p].Node.Op == "Relu" {
			readers[id] = append(readers[id], i)
		}
	}
	merged := map[int][]int{} // ReLU -> readers that have one of their own
	count := 0
	for id, list := range readers {
		at := s.Values[id].Producer
		if foreign := foreignReaders(s, at, list); len(foreign) > 0 {
			merged[at] = foreign
			count += len(foreign)
		}
	}
	if count == 0 {
		return s
	}
	out := *s
	out.Values = make([]*onnx.Value, len(s.Values), len(s.Values)+count)
	for i, v := range s.Values {
		twin := *v
		out.Values[i] = &twin
	}
	own := map[int]int{} // convolution -> the value that it reads instead
	out.Ops = make([]onnx.Op, 0, len(s.Ops)+count)
	for i := range s.Ops {
		op := s.Ops[i]
		if id, ok := own[i]; ok {
			op.In = append([]int{id}, op.In[1:]...)
		}
		out.Ops = append(out.Ops, op)
		for _, reader := range merged[i] {
			value := *s.Values[op.Out[0]]
			value.Name += " for " + s.Ops[reader].Node.Name
			own[reader] = len(out.Values)
			twin := op
			twin.Out = []int{len(out.Values)}
			out.Values, out.Ops = append(out.Values, &value), append(out.Ops, twin)
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

// foreignReaders returns the readers outside the module of an activation, if others
// are inside: a module does not hand out what it computes on the way, so these once
// had an activation of their own. PyTorch's exporter names operators by modules:
// "/cell_1/left/act/Relu" is part of "/cell_1/left".
func foreignReaders(s *onnx.Shapes, activation int, readers []int) []int {
	module := s.Ops[activation].Node.Name
	for range 2 { // the operator, and the module that consists of it
		module = module[:max(strings.LastIndex(module, "/"), 0)]
	}
	if module == "" {
		return nil
	}
	var foreign []int
	for _, i := range readers {
		if !strings.HasPrefix(s.Ops[i].Node.Name, module+"/") {
			foreign = append(foreign, i)
		}
	}
	if len(foreign) == len(readers) {
		return nil
	}
	return foreign
}
