// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Decoder is the shape of a GPT-like language model, for models that are too large
// to export: causal attention, norms before each sublayer, a feed-forward part four
// times as wide, and a last layer that shares the weights of the embedding.
type Decoder struct {
	Layers, Width, Heads, Vocabulary, Sequence int64
}

// ParseDecoder reads "layers=24,width=1024,heads=16,vocabulary=50257,sequence=1024".
func ParseDecoder(text string) (Decoder, error) {
	var d Decoder
	to := map[string]*int64{"layers": &d.Layers, "width": &d.Width, "heads": &d.Heads, "vocabulary": &d.Vocabulary, "sequence": &d.Sequence}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		at := to[strings.TrimSpace(name)]
		if at == nil {
			return d, fmt.Errorf("decoder: %q; want layers, width, heads, vocabulary and sequence, such as layers=24", part)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return d, fmt.Errorf("decoder: %s %q; want a number", name, value)
		}
		*at = n
	}
	return d, d.Check()
}

// Limits of a decoder, far beyond what one GPU holds.
const (
	maxLayers     = 1000
	maxWidth      = 1 << 17
	maxVocabulary = 1 << 22
	maxSequence   = 1 << 22
)

// Check reports sizes that no model has.
func (d Decoder) Check() error {
	in := func(name string, value, most int64) error {
		if value < 1 || value > most {
			return fmt.Errorf("decoder: %s %d; want 1 to %d", name, value, most)
		}
		return nil
	}
	if err := errors.Join(in("layers", d.Layers, maxLayers), in("width", d.Width, maxWidth), in("heads", d.Heads, maxWidth),
		in("vocabulary", d.Vocabulary, maxVocabulary), in("sequence", d.Sequence, maxSequence)); err != nil {
		return err
	}
	if d.Width%d.Heads != 0 {
		return fmt.Errorf("decoder: width %d is no multiple of heads %d", d.Width, d.Heads)
	}
	return nil
}

// Model writes the graph; its batch is open.
func (d Decoder) Model() *Model {
	b := decoderGraph{d: d, g: &Graph{Name: "decoder"}}
	b.g.Inputs = []ValueInfo{{Name: "tokens", Type: Int64, Shape: []Dim{{Symbol: "batch", Size: -1}, {Size: d.Sequence}}}}
	table := b.weight("embedding", d.Vocabulary, d.Width)
	x := b.op("/embedding", "Gather", table, "tokens")
	x = b.op("/position", "Add", x, b.weight("position", 1, d.Sequence, d.Width))
	x = b.op("/dropout", "Dropout", x)
	for i := range d.Layers {
		x = b.block(fmt.Sprintf("/blocks.%d", i), x)
	}
	x = b.norm("/norm", x)
	turned := b.op("/head/turn", "Transpose", table)
	b.op("/head", "MatMul", x, turned)
	last := b.g.Nodes[len(b.g.Nodes)-1].Outputs[0]
	b.g.Outputs = []ValueInfo{{Name: last, Type: Float}}
	return &Model{Opsets: map[string]int64{"": 17, "com.microsoft": 1}, Graph: b.g}
}

// decoderGraph adds to a graph; every method returns the name of its result.
type decoderGraph struct {
	d Decoder
	g *Graph
}

func (b *decoderGraph) weight(name string, dims ...int64) string {
	b.g.Initializers = append(b.g.Initializers, &Tensor{Name: name, Type: Float, Dims: dims})
	return name
}

func (b *decoderGraph) op(name, op string, inputs ...string) string {
	n := &Node{Name: name + "/" + op, Op: op, Inputs: inputs, Outputs: []string{name + ":out"}}
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Outputs[0]
}

func (b *decoderGraph) norm(name, x string) string {
	return b.op(name, "LayerNormalization", x, b.weight(name+".scale", b.d.Width), b.weight(name+".shift", b.d.Width))
}

func (b *decoderGraph) linear(name, x string, in, out int64) string {
	x = b.op(name+"/product", "MatMul", x, b.weight(name+".weight", in, out))
	return b.op(name, "Add", x, b.weight(name+".bias", out))
}

func (b *decoderGraph) block(name, x string) string {
	w := b.d.Width
	normed := b.norm(name+"/norm1", x)
	q, k, v := b.linear(name+"/q", normed, w, w), b.linear(name+"/k", normed, w, w), b.linear(name+"/v", normed, w, w)
	y := b.op(name+"/attention", "MultiHeadAttention", q, k, v)
	attention := b.g.Nodes[len(b.g.Nodes)-1]
	attention.Domain = "com.microsoft"
	attention.Attrs = []Attribute{{Name: "num_heads", I: b.d.Heads}}
	y = b.op(name+"/drop1", "Dropout", b.linear(name+"/out", y, w, w))
	x = b.op(name+"/sum1", "Add", x, y)
	y = b.linear(name+"/up", b.norm(name+"/norm2", x), w, 4*w)
	y = b.linear(name+"/down", b.op(name+"/gelu", "Gelu", y), 4*w, w)
	return b.op(name+"/sum2", "Add", x, b.op(name+"/drop2", "Dropout", y))
}
