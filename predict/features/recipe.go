// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// Recipe is how a model is trained. The zero value is single precision and SGD with
// momentum.
type Recipe struct {
	Mixed      bool // autocast to bfloat16: weights stay in single precision
	Half       bool // weights, gradients and optimiser state in bfloat16
	Adam       bool // Adam or AdamW
	Checkpoint bool // the activations of each layer are computed again in the backward pass
	Compile    bool // torch.compile; the features are those without it
}

// recipeWords are the words of a recipe, as the tables of measurements spell them.
func (r *Recipe) words() map[string]*bool {
	return map[string]*bool{"amp": &r.Mixed, "bf16": &r.Half, "adam": &r.Adam, "checkpoint": &r.Checkpoint, "compile": &r.Compile}
}

// ParseRecipe reads words joined by "+", such as "amp+adam"; "" and "-" are the zero
// value.
func ParseRecipe(text string) (Recipe, error) {
	var r Recipe
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c == '+' || c == '-' }) {
		set := r.words()[word]
		if set == nil {
			return r, fmt.Errorf("recipe %q: %q is not known; want amp, bf16, adam, checkpoint and compile, joined by +", text, word)
		}
		*set = true
	}
	if r.Mixed && r.Half {
		return r, fmt.Errorf("recipe %q: want amp or bf16, not both", text)
	}
	return r, nil
}

// String is what ParseRecipe reads.
func (r Recipe) String() string {
	var list []string
	for _, word := range []string{"amp", "bf16", "adam", "checkpoint", "compile"} {
		if *r.words()[word] {
			list = append(list, word)
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, "+")
}

// Slots is the number of values that the optimiser keeps per parameter.
func (r Recipe) Slots() int64 {
	if r.Adam {
		return 2
	}
	return 1
}

// applyRecipe changes the types of values to those that the recipe computes with.
func (g *graph) applyRecipe(r Recipe) {
	g.recipe = r
	if !r.Mixed && !r.Half {
		return
	}
	s := *g.s
	s.Values = make([]*onnx.Value, len(g.s.Values))
	for i, v := range g.s.Values {
		twin := *v
		if r.Half && twin.Type == onnx.Float {
			twin.Type = onnx.BFloat16
		}
		s.Values[i] = &twin
	}
	g.s = &s
	if r.Mixed {
		for i := range g.units {
			g.autocast(&g.units[i])
		}
	}
}

// fullPrecision are the operators that autocast runs in single precision.
var fullPrecision = strings.Fields("LayerNormalization GroupNormalization GroupNorm InstanceNormalization RMSNormalization " +
	"Softmax LogSoftmax Softplus Exp Log Pow ReduceSum ReduceProd ReduceL2 CumSum")

// autocast sets the types of a unit's results: products in bfloat16, sums over many
// numbers in single precision, others in the widest type of their operands.
func (g *graph) autocast(u *unit) {
	t := onnx.BFloat16
	switch {
	case isProduct(u.kind):
	case u.kind == Loss || slices.Contains(fullPrecision, u.name):
		t = onnx.Float
	case u.kind == Norm && len(u.in) > 0: // a batch normalisation follows its input, whatever its weights
		t = g.s.Values[u.in[0]].Type
	default:
		for _, id := range u.in {
			if v := g.s.Values[id]; v.Type == onnx.Float && (len(v.Dims) > 0 || len(u.in) == 1) {
				t = onnx.Float
			}
		}
	}
	for _, id := range u.out {
		if v := g.s.Values[id]; v.Type == onnx.Float {
			v.Type = t
		}
	}
}

func isProduct(k Kind) bool { return k == Conv || k == MatMul || k == Attention || k == Recurrent }

// casts replaces the operands that a product keeps in single precision by the
// copies in bfloat16 that autocast makes of them. Those of parameters are kept too.
func (g *graph) casts(u *unit, k kept) kept {
	if !g.recipe.Mixed || !isProduct(u.kind) {
		return k
	}
	values := k.values
	k.values = nil
	for _, id := range values {
		if g.s.Values[id].Type == onnx.Float && !g.static[id] {
			k.extra += g.s.Values[id].Elements() * onnx.BFloat16.Bytes()
		} else {
			k.values = append(k.values, id)
		}
	}
	for _, id := range u.in {
		if g.param[id] {
			k.extra += g.s.Values[id].Elements() * onnx.BFloat16.Bytes()
		}
	}
	return k
}

// countCasts is the number of copies into another precision that a product needs,
// with those of the gradients.
func (g *graph) countCasts(u *unit) float64 {
	n := 0.0
	if g.recipe.Mixed && isProduct(u.kind) {
		for _, id := range u.in {
			if g.s.Values[id].Type == onnx.Float {
				n += 2
			}
		}
	}
	return n
}

// segment is a range of units that are recomputed together.
type segment struct{ from, to int } // to is not part of it

// segments finds the layers of a model by the numbers in the names of its
// operators: "/blocks/blocks.3/attention/MatMul" is of layer "/blocks/blocks.3".
func (g *graph) segments() []segment {
	var list []segment
	last := ""
	for i := range g.units {
		layer := layerOf(g.units[i].node)
		switch {
		case layer == "":
		case layer == last:
			list[len(list)-1].to = i + 1
		default:
			list = append(list, segment{i, i + 1})
		}
		if layer != "" {
			last = layer
		}
	}
	return list
}

// layerOf returns the path to the first numbered part of a name; "" if it has none.
func layerOf(n *onnx.Node) string {
	if n == nil {
		return ""
	}
	parts := strings.Split(n.Name, "/")
	for i, part := range parts[:len(parts)-1] {
		_, number, found := cutLast(part, ".")
		if found && number != "" && strings.Trim(number, "0123456789") == "" {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
