// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"strings"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// cost computes what one run of a unit costs, and sets its macs and steps.
func (g *graph) cost(u *unit) Work {
	w := Work{Kind: u.kind, Name: u.name, Repeat: float64(u.repeat)}
	n := float64(g.elements(u.out))
	u.macs = g.macs(u)
	w.Results = n
	w.Static = len(u.out) > 0 && g.static[u.out[0]]
	w.Inner = u.macs / max(n, 1)
	g.channels(u, &w)
	switch u.kind {
	case Conv, MatMul, Attention, Recurrent:
		w.Flops = 2 * u.macs
		if u.bias {
			w.Flops += n
		}
		if u.kind == Attention {
			w.Flops += 5 * float64(u.scores)
		}
	default:
		w.Flops = g.plainFlops(u, n)
	}
	w.Kernels = g.forwardKernels(u)
	if w.Kernels > 0 {
		w.Bytes = float64(g.bytes(u.in) + g.bytes(u.out))
		if u.kind == Lookup && u.name == "Gather" {
			w.Bytes = float64(2 * g.bytes(u.out)) // reads no more of the table than it writes
		}
	}
	g.backward(u, &w)
	g.addCopies(u, &w)
	w.Casts = g.countCasts(u)
	return w
}

// channels fills in the independent parts of a product and their widths.
func (g *graph) channels(u *unit, w *Work) {
	w.Groups = 1
	switch weight := g.dims(u, 1); {
	case u.kind == Lookup && len(u.out) > 0 && g.s.Values[u.out[0]].Known():
		w.Out = float64(g.lastDim(u.out[0]))
	case u.kind == Recurrent:
		in, hidden := g.cellWidths(u)
		w.In, w.Out = float64(in), float64(hidden)
		if r := g.dims(u, 2); len(r) == 3 && r[0] > 0 {
			w.Groups = float64(r[0]) // directions
		}
	case u.kind == Conv && len(weight) > 2:
		w.Groups = float64(max(u.node.Int("group", 1), 1))
		w.Out, w.In = float64(weight[0])/w.Groups, float64(weight[1])
		if u.name == "ConvTranspose" {
			w.In, w.Out = w.Out, w.In
		}
	case u.kind == MatMul && u.name != "Einsum":
		// A batch of matrices on both sides.
		if a := g.dims(u, 0); len(a) > 2 && len(weight) > 2 {
			w.Groups = float64(product(a[:len(a)-2]))
		}
		w.In = w.Inner
		if len(u.out) > 0 && g.s.Values[u.out[0]].Known() {
			w.Out = float64(g.lastDim(u.out[0]))
		}
	}
}

// elements sums the elements of values.
func (g *graph) elements(ids []int) int64 {
	total := int64(0)
	for _, id := range ids {
		total += g.s.Values[id].Elements()
	}
	return total
}

// bytes sums the sizes of values.
func (g *graph) bytes(ids []int) int64 {
	total := int64(0)
	for _, id := range ids {
		total += g.s.Values[id].Bytes()
	}
	return total
}

// slot returns the value at an input of a unit, nil when it is left out.
func (g *graph) slot(u *unit, i int) *onnx.Value {
	if i >= len(u.slots) || u.slots[i] < 0 {
		return nil
	}
	return g.s.Values[u.slots[i]]
}

// dims returns the dimensions at an input, nil when not known.
func (g *graph) dims(u *unit, i int) []int64 {
	if v := g.slot(u, i); v != nil && v.Known() {
		return v.Dims
	}
	return nil
}

// macs returns the multiply-adds of a product, 0 for other units or where
// shapes are not known.
func (g *graph) macs(u *unit) float64 {
	if len(u.out) == 0 {
		return 0
	}
	n := float64(g.s.Values[u.out[0]].Elements())
	switch u.kind {
	case Conv:
		return g.convMACs(u, n)
	case MatMul:
		return g.productMACs(u, n)
	case Recurrent:
		return g.recurrentMACs(u)
	case Attention:
		return g.attentionMACs(u)
	}
	return 0
}

func (g *graph) convMACs(u *unit, n float64) float64 {
	at := 1
	if u.name == "QLinearConv" {
		at = 3
	}
	weight := g.dims(u, at)
	if len(weight) < 3 {
		return 0
	}
	perPoint := 1.0
	for _, k := range weight[1:] {
		perPoint *= float64(k)
	}
	if u.name == "ConvTranspose" {
		return float64(product(g.dims(u, 0))) * perPoint
	}
	return n * perPoint
}

// product multiplies known dimensions; 0 for none.
func product(dims []int64) int64 {
	if dims == nil {
		return 0
	}
	total := int64(1)
	for _, n := range dims {
		total *= n
	}
	return total
}

func (g *graph) productMACs(u *unit, n float64) float64 {
	a := g.dims(u, 0)
	if len(a) == 0 {
		return 0
	}
	inner := a[len(a)-1]
	switch {
	case u.name == "Einsum":
		return g.einsumMACs(u)
	case strings.HasSuffix(u.name, "Gemm") && u.node.Int("transA", 0) != 0:
		inner = a[0]
	case u.node.Int("transA", 0) != 0 && len(a) > 1:
		inner = a[len(a)-2]
	}
	return n * float64(inner)
}

// einsumMACs multiplies the sizes of all letters.
func (g *graph) einsumMACs(u *unit) float64 {
	terms, _, ok := onnx.EinsumTerms(u.node.Text("equation"))
	if !ok || len(terms) != len(u.slots) {
		return 0
	}
	sizes, total := map[rune]bool{}, 1.0
	for i, term := range terms {
		dims := g.dims(u, i)
		if len(dims) < len(term) {
			continue
		}
		extra := len(dims) - len(term) // dimensions of an ellipsis beyond one
		at := 0
		for _, letter := range term {
			width := 1
			if letter == '.' {
				width += extra
			}
			for ; width > 0 && at < len(dims); width-- {
				if !sizes[letter] || letter == '.' && i == 0 {
					total *= float64(dims[at])
				}
				at++
			}
			sizes[letter] = true
		}
	}
	return total
}

// gates is the number of linear maps in a recurrent cell.
func gates(name string) int64 {
	switch name {
	case "LSTM":
		return 4
	case "GRU":
		return 3
	}
	return 1
}

// recurrentMACs also sets the unit's steps.
func (g *graph) recurrentMACs(u *unit) float64 {
	x, r := g.dims(u, 0), g.dims(u, 2)
	if len(x) != 3 || len(r) != 3 {
		return 0
	}
	u.steps = x[0]
	if u.node.Int("layout", 0) == 1 {
		u.steps = x[1]
	}
	directions, hidden := float64(r[0]), float64(r[2])
	return directions * float64(x[0]) * float64(x[1]) * float64(gates(u.name)) * hidden * (float64(x[2]) + hidden)
}

// attentionMACs covers the pattern (queries, keys, values as operands) and
// the operators of that name.
func (g *graph) attentionMACs(u *unit) float64 {
	q, v := g.dims(u, 0), g.dims(u, 2)
	if len(q) == 0 {
		return 0
	}
	if u.name == "Attention" && u.node.Domain != "" {
		weight := g.dims(u, 1)
		if len(q) != 3 || len(weight) != 2 {
			return 0
		}
		rows, hidden := float64(q[0]*q[1]), float64(weight[1])/3
		u.scores = q[0] * q[1] * q[1] * max(u.node.Int("num_heads", 1), 1)
		return rows*float64(weight[0])*float64(weight[1]) + 2*rows*float64(q[1])*hidden
	}
	if len(q) < 2 || len(v) < 3 {
		return 0
	}
	width := float64(q[len(q)-1] + v[len(v)-1])
	if u.scores == 0 {
		heads, rows := int64(1), q[0]*q[len(q)-2]
		if len(q) == 4 {
			rows *= q[1]
		} else {
			heads = max(u.node.Int("num_heads", 0), u.node.Int("q_num_heads", 0), 1)
		}
		u.scores = rows * heads * v[len(v)-2]
		width /= float64(heads)
	}
	return float64(u.scores) * width
}

// plainFlops returns the arithmetic of a unit that is no product.
func (g *graph) plainFlops(u *unit, n float64) float64 {
	in := 0.0
	if len(u.in) > 0 {
		in = float64(g.s.Values[u.in[0]].Elements())
	}
	switch u.kind {
	case Norm:
		return 8 * in
	case Softmax:
		return 5 * in
	case Loss:
		return 8 * in
	case Curve:
		return curveFlops(u.name) * n
	case Reduce:
		return in
	case Elements:
		if u.name == "Cast" || u.name == "Dropout" || u.name == "Where" {
			return n
		}
		return n * float64(max(len(u.in)-1, 1))
	case Pool:
		if strings.HasPrefix(u.name, "Global") {
			return in
		}
		window := 1.0
		for _, k := range u.node.Ints("kernel_shape") {
			window *= float64(k)
		}
		return window * n
	case Move:
		if u.name == "Resize" || u.name == "Upsample" {
			switch u.node.Text("mode") {
			case "linear":
				return 8 * n
			case "cubic":
				return 32 * n
			}
		}
		return 0
	case View, Lookup:
		return 0
	}
	return n
}

// curveFlops is the arithmetic of a non-linear function, per element.
func curveFlops(name string) float64 {
	switch name {
	case "Relu", "LeakyRelu", "Clip", "ThresholdedRelu", "PRelu", "Shrink":
		return 1
	case "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "HardSigmoid", "HardSwish", "Elu", "Celu", "Selu":
		return 4
	}
	return 8
}
