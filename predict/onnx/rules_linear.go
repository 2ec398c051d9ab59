// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "strings"

// gemm: A [M, K] and B [K, N], either transposed.
func gemm(c *call) {
	a, b := c.dims(0), c.dims(1)
	if len(a) != 2 || len(b) != 2 {
		return
	}
	m, k, n := a[0], a[1], b[1]
	kb := b[0]
	if c.Int("transA", 0) != 0 {
		m, k = k, m
	}
	if c.Int("transB", 0) != 0 {
		n, kb = kb, n
	}
	if c.e.reconcile(k, kb) == -2 {
		c.misfit("inner dimensions differ")
		return
	}
	c.set(0, c.typ(0), []int64{m, n})
}

func matMul(c *call) {
	t := c.typ(0)
	if c.Op == "MatMulInteger" {
		t = Int32
	}
	c.set(0, t, c.multiply(c.dims(0), c.dims(1)))
}

func qLinearMatMul(c *call) { c.set(0, c.typ(7), c.multiply(c.dims(0), c.dims(3))) }

// fusedMatMul is ONNX Runtime's MatMul with built-in transposes.
func fusedMatMul(c *call) {
	flip := func(dims []int64, attr string) []int64 {
		dims = clone(dims)
		if n := len(dims); n >= 2 && c.Int(attr, 0) != 0 {
			dims[n-1], dims[n-2] = dims[n-2], dims[n-1]
		}
		return dims
	}
	c.set(0, c.typ(0), c.multiply(flip(c.dims(0), "transA"), flip(c.dims(1), "transB")))
}

// matMulNBits is ONNX Runtime's MatMul with packed weights of [N, ...].
func matMulNBits(c *call) {
	if out := clone(c.dims(0)); len(out) > 0 {
		out[len(out)-1] = c.Int("N", -1)
		c.set(0, c.typ(0), out)
	}
}

// multiply returns the dimensions of a matrix product as in NumPy; nil if they are
// unknown or do not match.
func (c *call) multiply(a, b []int64) []int64 {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	rowless, columnless := len(a) == 1, len(b) == 1
	if rowless {
		a = []int64{1, a[0]}
	}
	if columnless {
		b = []int64{b[0], 1}
	}
	ra, rb := len(a), len(b)
	batch := c.e.broadcast(a[:ra-2], b[:rb-2])
	if batch == nil || c.e.reconcile(a[ra-1], b[rb-2]) == -2 {
		c.misfit("matrices do not multiply")
		return nil
	}
	out := clone(batch)
	if !rowless {
		out = append(out, a[ra-2])
	}
	if !columnless {
		out = append(out, b[rb-1])
	}
	return out
}

// einsum sizes every letter from the inputs. An ellipsis stands for the dimensions
// without letters, broadcast.
func einsum(c *call) {
	terms, result, ok := EinsumTerms(c.Text("equation"))
	if !ok || len(terms) != len(c.in) {
		return
	}
	sizes, rest := map[rune]int64{}, []int64{}
	for i, term := range terms {
		dims := c.dims(i)
		if dims == nil {
			return
		}
		dots := strings.Count(string(term), ".")
		over, j := len(dims)-len(term)+dots, 0
		if over < 0 || dots > 1 || over > 0 && dots == 0 {
			c.misfit("the equation does not fit the ranks")
			return
		}
		for _, letter := range term {
			if letter == '.' {
				if rest = c.e.broadcast(rest, dims[j:j+over]); rest == nil {
					return
				}
				j += over
				continue
			}
			if old, seen := sizes[letter]; !seen || old == 1 || old < 0 {
				sizes[letter] = dims[j]
			}
			j++
		}
	}
	out := []int64{}
	for _, letter := range result {
		if letter == '.' {
			out = append(out, rest...)
			continue
		}
		size, ok := sizes[letter]
		if !ok {
			return
		}
		out = append(out, size)
	}
	c.set(0, c.typ(0), out)
}

// EinsumTerms splits an equation into the letters of its inputs and of its result,
// '.' for an ellipsis. Without "->" the result is, as in NumPy, the letters that
// occur once, in alphabetical order.
func EinsumTerms(equation string) (terms [][]rune, result []rune, ok bool) {
	equation = strings.ReplaceAll(strings.ReplaceAll(equation, " ", ""), "...", ".")
	left, right, explicit := strings.Cut(equation, "->")
	seen := map[rune]int{}
	for _, term := range strings.Split(left, ",") {
		terms = append(terms, []rune(term))
		for _, letter := range term {
			if letter != '.' && (letter < 'A' || letter > 'z') {
				return nil, nil, false
			}
			seen[letter]++
		}
	}
	if explicit {
		return terms, []rune(right), true
	}
	if seen['.'] > 0 {
		result = append(result, '.')
	}
	for letter := 'A'; letter <= 'z'; letter++ {
		if seen[letter] == 1 {
			result = append(result, letter)
		}
	}
	return terms, result, true
}

// recurrent: input [sequence, batch, features] (batch first with layout 1); outputs
// Y of all steps, Y_h and Y_c of the last.
func recurrent(c *call) {
	in, r := c.dims(0), c.dims(2)
	if len(in) != 3 {
		return
	}
	hidden := c.Int("hidden_size", -1)
	if hidden < 0 && len(r) == 3 {
		hidden = r[2]
	}
	directions := int64(1)
	if c.Text("direction") == "bidirectional" {
		directions = 2
	}
	if c.Int("layout", 0) == 1 {
		c.set(0, c.typ(0), []int64{in[0], in[1], directions, hidden})
		c.set(1, c.typ(0), []int64{in[0], directions, hidden})
		c.set(2, c.typ(0), []int64{in[0], directions, hidden})
		return
	}
	c.set(0, c.typ(0), []int64{in[0], directions, in[1], hidden})
	c.set(1, c.typ(0), []int64{directions, in[1], hidden})
	c.set(2, c.typ(0), []int64{directions, in[1], hidden})
}

// attention is the standard operator (queries, keys and values of rank 4, or
// of rank 3 with the heads side by side) or, in another domain, ONNX
// Runtime's with one packed weight.
func attention(c *call) {
	q := c.dims(0)
	if c.Domain != "" {
		if weight := c.dims(1); len(q) == 3 && len(weight) == 2 {
			hidden := weight[1] / 3
			if sizes := c.Ints("qkv_hidden_sizes"); len(sizes) == 3 {
				hidden = sizes[2]
			}
			c.set(0, c.typ(0), []int64{q[0], q[1], hidden})
		}
		return
	}
	v := c.dims(2)
	switch {
	case len(q) == 4 && len(v) == 4:
		c.set(0, c.typ(0), []int64{q[0], q[1], q[2], v[3]})
	case len(q) == 3 && len(v) == 3:
		width := v[2]
		if heads, of := c.Int("q_num_heads", 0), c.Int("kv_num_heads", 0); heads > 0 && of > 0 && width >= 0 {
			width = times(width/of, heads)
		}
		c.set(0, c.typ(0), []int64{q[0], q[1], width})
	}
}

// multiHead is ONNX Runtime's attention over projected queries, keys and
// values.
func multiHead(c *call) {
	q, v := c.dims(0), c.dims(2)
	switch {
	case len(q) == 3 && len(v) == 3 && c.Op == "MultiHeadAttention":
		c.set(0, c.typ(0), []int64{q[0], q[1], v[2]})
	case len(q) == 3:
		c.set(0, c.typ(0), clone(q))
	}
}
