// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

type wireType = protowire.Type

// smallTensor is the most bytes of contents for which a tensor's elements are
// kept: shapes, axes, scales and index tables are below, weights above.
const smallTensor = 64 << 10

// smallCount is the most elements kept, given in whichever form.
const smallCount = smallTensor / 8

// maxRank is the most dimensions a value may have.
const maxRank = 32

// maxElements is the most elements a value may have: 2^42, 16 TiB of floats,
// more than any machine holds. It keeps products of dimensions far from
// overflow.
const maxElements = 1 << 42

// contents gathers the elements of a TensorProto in any of the forms it
// allows until the type is known.
type contents struct {
	raw    []byte
	ints   []int64
	floats []float64
	lost   bool // too many to keep
}

// tensor reads a TensorProto.
func (d *decoder) tensor(end int64) (*Tensor, error) {
	t, c := &Tensor{}, contents{}
	if err := d.charge(160); err != nil {
		return nil, err
	}
	start := d.off
	for d.off < end {
		num, typ, err := d.tag(end)
		if err != nil {
			return nil, err
		}
		full := false
		switch num {
		case 1:
			t.Dims, full, err = d.numbers(t.Dims, typ, span{end, maxRank})
			if full {
				err = fmt.Errorf("tensor %q: more than %d dimensions", t.Name, maxRank)
			}
		case 2:
			var v int64
			v, err = d.number(typ, end)
			t.Type = DataType(v)
			if v < 0 || v >= int64(typeCount) {
				t.Type = Undefined
			}
		case 4:
			c.floats, full, err = d.fixed(c.floats, typ, 4, span{end, smallCount})
		case 10:
			c.floats, full, err = d.fixed(c.floats, typ, 8, span{end, smallCount})
		case 5, 7, 11:
			c.ints, full, err = d.numbers(c.ints, typ, span{end, smallCount})
		case 8:
			t.Name, err = d.text(typ, end)
		case 9:
			var kept bool
			if len(t.Dims) == 2 && t.Type == Float {
				c.raw, kept, t.Digest, err = d.matrix(typ, end, t.Dims)
				full = !kept
				break
			}
			c.raw, kept, err = d.bytes(typ, end, smallTensor)
			full = !kept
		default:
			err = d.skip(typ, end)
		}
		c.lost = c.lost || full
		if err != nil {
			return nil, err
		}
	}
	d.weights += d.off - start
	count, err := countOf(t.Dims)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	c.fill(t, count)
	return t, nil
}

// A digest looks at so many elements along the longer and the shorter side of
// a matrix: enough to tell trained or random weights apart, and few enough to
// cost nothing.
const (
	digestLong  = 8
	digestShort = 256
)

// matrix reads raw_data as bytes does, but gives the digest of what is too
// long to keep.
func (d *decoder) matrix(typ wireType, end int64, dims []int64) (raw []byte, kept bool, digest uint64, err error) {
	stop, err := d.length(typ, end)
	if err != nil {
		return nil, false, 0, err
	}
	rows, cols := dims[0], dims[1]
	switch size := stop - d.off; {
	case size <= smallTensor:
		raw, err = d.take(stop)
		return raw, err == nil, 0, err
	case rows <= 0 || cols <= 0 || rows == cols || cols > size/4/rows || rows*cols*4 != size:
		return nil, false, 0, d.skipTo(stop)
	}
	deep, wide := min(rows, digestShort), min(cols, digestLong)
	if rows > cols {
		deep, wide = min(rows, digestLong), min(cols, digestShort)
	}
	start, first, same := d.off, uint32(0), true
	for i := range deep {
		if err := d.skipTo(start + i*cols*4); err != nil {
			return nil, false, 0, err
		}
		buf, err := d.r.Peek(int(wide * 4))
		if err != nil {
			return nil, false, 0, truncated(err)
		}
		for j := range wide {
			word := binary.LittleEndian.Uint32(buf[4*j:])
			if i == 0 && j == 0 {
				first = word
			}
			same = same && word == first
			long, short := uint64(j), uint64(i)
			if rows > cols {
				long, short = short, long
			}
			// A sum does not depend on the order in which elements come.
			x := (uint64(word)<<16 | long<<8 | short) * 0x9E3779B97F4A7C15
			x = (x ^ x>>29) * 0xBF58476D1CE4E5B9
			digest += x ^ x>>32
		}
	}
	if same {
		digest = 0
	}
	return nil, false, digest, d.skipTo(stop)
}

// countOf multiplies dimensions.
func countOf(dims []int64) (int64, error) {
	if len(dims) > maxRank {
		return 0, fmt.Errorf("%d dimensions; %d are allowed", len(dims), maxRank)
	}
	count, zero := int64(1), false
	for i, n := range dims {
		switch {
		case n < 0:
			return 0, fmt.Errorf("dimension %d is %d; it must not be negative", i, n)
		case n == 0:
			zero = true
		case n > maxElements || count > maxElements/n:
			return 0, fmt.Errorf("dimensions %v make more than %d elements", dims, int64(maxElements))
		default:
			count *= n
		}
	}
	if zero {
		return 0, nil
	}
	return count, nil
}

// fill gives a tensor its elements where they were kept and match its
// dimensions; otherwise the tensor stays without.
func (c *contents) fill(t *Tensor, count int64) {
	if c.lost || count > smallCount {
		return
	}
	switch {
	case c.raw != nil:
		c.decodeRaw(t.Type)
	case t.Type == Float16 || t.Type == BFloat16:
		// Halves travel in int32_data as bit patterns.
		for _, v := range c.ints {
			c.floats = append(c.floats, halfOf(uint16(v), t.Type))
		}
		c.ints = nil
	case t.Type == Int32 || t.Type == Int8 || t.Type == Int16:
		for i, v := range c.ints {
			c.ints[i] = int64(int32(v))
		}
	}
	if t.Type.integral() && int64(len(c.ints)) == count {
		t.Ints = nonNil(c.ints)
		for i, n := range t.Ints {
			// "From the start" in a Slice: the next integer means the same, and
			// the least one stands for what is not known.
			t.Ints[i] = max(n, unknownInt+1)
		}
	}
	if t.Type.Differentiable() && int64(len(c.floats)) == count {
		t.Floats = nonNil(c.floats)
	}
}

// nonNil makes an empty list differ from an absent one.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// decodeRaw reads the little-endian elements of raw_data.
func (c *contents) decodeRaw(t DataType) {
	size := int(t.Bytes())
	if len(c.raw)%size != 0 {
		return
	}
	for b := c.raw; len(b) > 0; b = b[size:] {
		switch t {
		case Float, Double:
			c.floats = append(c.floats, floatOf(b[:size]))
		case Float16, BFloat16:
			c.floats = append(c.floats, halfOf(binary.LittleEndian.Uint16(b), t))
		case Int64, Uint64:
			c.ints = append(c.ints, int64(binary.LittleEndian.Uint64(b)))
		case Int32:
			c.ints = append(c.ints, int64(int32(binary.LittleEndian.Uint32(b))))
		case Uint32:
			c.ints = append(c.ints, int64(binary.LittleEndian.Uint32(b)))
		case Int16:
			c.ints = append(c.ints, int64(int16(binary.LittleEndian.Uint16(b))))
		case Uint16:
			c.ints = append(c.ints, int64(binary.LittleEndian.Uint16(b)))
		case Int8:
			c.ints = append(c.ints, int64(int8(b[0])))
		case Uint8, Bool:
			c.ints = append(c.ints, int64(b[0]))
		default:
			return
		}
	}
}

// halfOf widens a 16-bit float.
func halfOf(bits uint16, t DataType) float64 {
	if t == BFloat16 {
		return float64(math.Float32frombits(uint32(bits) << 16))
	}
	sign, exp, frac := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// sparse reads a SparseTensorProto as the dense tensor it stands for.
func (d *decoder) sparse(end int64) (*Tensor, error) {
	t := &Tensor{}
	var dims []int64
	for d.off < end {
		num, typ, err := d.tag(end)
		switch {
		case err != nil:
		case num == 1:
			t, err = inside(d, typ, end, d.tensor)
		case num == 3:
			dims, _, err = d.numbers(dims, typ, span{end, maxRank})
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return nil, fmt.Errorf("sparse initializer: %w", err)
		}
	}
	if _, err := countOf(dims); err != nil {
		return nil, fmt.Errorf("sparse tensor %q: %w", t.Name, err)
	}
	return &Tensor{Name: t.Name, Type: t.Type, Dims: dims}, nil
}

// valueInfo reads a ValueInfoProto.
func (d *decoder) valueInfo(end int64) (v ValueInfo, err error) {
	if err := d.charge(64); err != nil {
		return v, err
	}
	for d.off < end {
		num, typ, err := d.tag(end)
		switch {
		case err != nil:
		case num == 1:
			v.Name, err = d.text(typ, end)
		case num == 2:
			_, err = inside(d, typ, end, func(end int64) (struct{}, error) { return struct{}{}, d.typeOf(&v, end) })
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return v, err
		}
	}
	return v, nil
}

// typeOf reads a TypeProto or the tensor type in it; sequences, maps and
// optionals leave the value without a type. Field 1 of TypeProto is the tensor
// type, 8 the sparse one; inside them 1 is the element type and 2 the shape.
func (d *decoder) typeOf(v *ValueInfo, end int64) error {
	for d.off < end {
		num, typ, err := d.tag(end)
		if err != nil {
			return err
		}
		switch {
		case (num == 1 || num == 8) && typ == protowire.BytesType:
			_, err = inside(d, typ, end, func(end int64) (struct{}, error) { return struct{}{}, d.tensorType(v, end) })
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) tensorType(v *ValueInfo, end int64) error {
	for d.off < end {
		num, typ, err := d.tag(end)
		switch {
		case err != nil:
		case num == 1:
			var t int64
			if t, err = d.number(typ, end); t > 0 && t < int64(typeCount) {
				v.Type = DataType(t)
			}
		case num == 2:
			v.Shape, err = inside(d, typ, end, d.shape)
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shape reads a TensorShapeProto. A size of -1 is what some exporters write
// for "any"; other negative sizes are refused.
func (d *decoder) shape(end int64) ([]Dim, error) {
	dims := []Dim{}
	for d.off < end {
		num, typ, err := d.tag(end)
		if err != nil {
			return nil, err
		}
		if num != 1 {
			if err := d.skip(typ, end); err != nil {
				return nil, err
			}
			continue
		}
		if len(dims) == maxRank {
			return nil, fmt.Errorf("more than %d dimensions", maxRank)
		}
		dim, err := inside(d, typ, end, d.dim)
		if err != nil {
			return nil, fmt.Errorf("dimension %d: %w", len(dims), err)
		}
		dims = append(dims, dim)
	}
	return dims, d.charge(int64(len(dims)) * 24)
}

func (d *decoder) dim(end int64) (Dim, error) {
	dim := Dim{Size: -1}
	for d.off < end {
		num, typ, err := d.tag(end)
		switch {
		case err != nil:
		case num == 1:
			if dim.Size, err = d.number(typ, end); err == nil && (dim.Size < -1 || dim.Size > maxElements) {
				err = fmt.Errorf("size %d; it must be within 0 and %d", dim.Size, int64(maxElements))
			}
		case num == 2:
			dim.Symbol, err = d.text(typ, end)
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return dim, err
		}
	}
	return dim, nil
}
