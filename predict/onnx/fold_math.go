// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "math"

func foldWhere(c *call) {
	if !c.foldable(0, 1, 2) || (c.data(1).ints == nil) != (c.data(2).ints == nil) || c.data(0).ints == nil {
		return
	}
	dims := c.out[0].Dims
	cond := c.data(0).stretch(c.dims(0), dims)
	yes, no := c.data(1).stretch(c.dims(1), dims), c.data(2).stretch(c.dims(2), dims)
	if cond == nil || yes == nil || no == nil {
		return
	}
	for i, b := range cond.ints {
		switch {
		case b != 0 && b != unknownInt:
		case yes.ints != nil:
			if b == 0 {
				yes.ints[i] = no.ints[i]
			} else if yes.ints[i] != no.ints[i] {
				yes.ints[i] = unknownInt
			}
		case b == 0:
			yes.floats[i] = no.floats[i]
		default:
			return
		}
	}
	c.out[0].data = yes
}

func foldUnary(c *call) {
	if !c.foldable(0) {
		return
	}
	from := c.data(0)
	out := &constant{}
	for i := range from.count() {
		f := from.float(i)
		switch c.Op {
		case "Neg":
			f = -f
		case "Abs":
			f = math.Abs(f)
		case "Floor":
			f = math.Floor(f)
		case "Ceil":
			f = math.Ceil(f)
		case "Round":
			f = math.RoundToEven(f)
		case "Sqrt":
			f = math.Sqrt(f)
		case "Reciprocal":
			f = 1 / f
		case "Not":
			f = float64(boolInt(f == 0))
		case "Sign":
			f = float64(boolInt(f > 0) - boolInt(f < 0))
		}
		if from.ints == nil {
			out.floats = append(out.floats, f)
			continue
		}
		out.ints = append(out.ints, intOf(f, from.ints[i]))
	}
	if from.count() > 0 {
		c.out[0].data = out
	}
}

// intOf turns a result back into an integer; an unknown operand stays unknown.
func intOf(f float64, operand int64) int64 {
	if operand == unknownInt || math.IsNaN(f) {
		return unknownInt
	}
	return int64(max(-1<<62, min(f, 1<<62)))
}

func foldBinary(c *call) {
	if len(c.in) != 2 || !c.foldable(0, 1) {
		return
	}
	a, b := c.data(0).stretch(c.dims(0), c.out[0].Dims), c.data(1).stretch(c.dims(1), c.out[0].Dims)
	if a == nil || b == nil {
		return
	}
	out := &constant{}
	for i := range a.count() {
		switch {
		case a.ints != nil && b.ints != nil:
			out.ints = append(out.ints, intBinary(c.Op, a.ints[i], b.ints[i]))
		case c.out[0].Type == Bool:
			out.ints = append(out.ints, comparison(c.Op, a.float(i), b.float(i)))
		default:
			out.floats = append(out.floats, floatBinary(c.Op, a.float(i), b.float(i)))
		}
	}
	c.out[0].data = out
}

func intBinary(op string, a, b int64) int64 {
	if a == unknownInt || b == unknownInt {
		return unknownInt
	}
	switch op {
	case "Add":
		return a + b
	case "Sub":
		return a - b
	case "Mul":
		return a * b
	case "Min":
		return min(a, b)
	case "Max":
		return max(a, b)
	case "And":
		return boolInt(a != 0 && b != 0)
	case "Or":
		return boolInt(a != 0 || b != 0)
	case "Pow":
		return intOf(math.Pow(float64(a), float64(b)), a)
	case "Div", "Mod":
		if b == 0 || b == -1 {
			return unknownInt
		}
		if op == "Div" {
			return a / b
		}
		return ((a % b) + b) % b
	}
	return comparison(op, float64(a), float64(b))
}

func floatBinary(op string, a, b float64) float64 {
	switch op {
	case "Add":
		return a + b
	case "Sub":
		return a - b
	case "Mul":
		return a * b
	case "Div":
		return a / b
	case "Min":
		return min(a, b)
	case "Max":
		return max(a, b)
	case "Pow":
		return math.Pow(a, b)
	}
	return math.NaN()
}

func comparison(op string, a, b float64) int64 {
	if math.IsNaN(a) || math.IsNaN(b) {
		return unknownInt
	}
	switch op {
	case "Equal":
		return boolInt(a == b)
	case "Less":
		return boolInt(a < b)
	case "LessOrEqual":
		return boolInt(a <= b)
	case "Greater":
		return boolInt(a > b)
	case "GreaterOrEqual":
		return boolInt(a >= b)
	}
	return unknownInt
}

// foldReduce folds reductions to one element.
func foldReduce(c *call) {
	if !c.foldable(0) || c.out[0].Elements() != 1 || c.data(0).count() == 0 {
		return
	}
	from := c.data(0)
	op := map[string]string{"ReduceProd": "Mul", "ReduceSum": "Add", "ReduceMax": "Max", "ReduceMin": "Min"}[c.Op]
	if from.ints != nil {
		total := from.ints[0]
		for _, n := range from.ints[1:] {
			total = intBinary(op, total, n)
		}
		c.out[0].data = &constant{ints: []int64{total}}
		return
	}
	total := from.floats[0]
	for _, f := range from.floats[1:] {
		total = floatBinary(op, total, f)
	}
	c.out[0].data = &constant{floats: []float64{total}}
}

// foldClip takes its bounds from inputs; with attributes it is not folded.
func foldClip(c *call) {
	if !c.foldable(0) || c.Attr("min") != nil || c.Attr("max") != nil {
		return
	}
	from := c.data(0)
	out := from.pick(make([]int, 0))
	for i := range from.count() {
		f := from.float(i)
		for at, bound := range []func(a, b float64) float64{1: math.Max, 2: math.Min} {
			if at == 0 || !c.has(at) {
				continue
			}
			if !c.data(at).single() {
				return
			}
			f = bound(f, c.data(at).float(0))
		}
		if from.ints != nil {
			out.ints = append(out.ints, intOf(f, from.ints[i]))
		} else {
			out.floats = append(out.floats, f)
		}
	}
	c.out[0].data = out
}
