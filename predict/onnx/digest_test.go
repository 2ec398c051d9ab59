// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// rawMatrix encodes a model with one stored matrix.
func rawMatrix(rows, cols int, at func(i, j int) float32) []byte {
	var raw []byte
	for i := range rows {
		for j := range cols {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(at(i, j)))
		}
	}
	number := func(b []byte, field protowire.Number, n int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
	}
	part := func(b []byte, field protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
	}
	tensor := number(number(number(nil, 1, rows), 1, cols), 2, int(Float))
	tensor = part(part(tensor, 8, []byte("w")), 9, raw)
	return part(nil, 7, part(nil, 5, tensor))
}

func TestDigest(t *testing.T) {
	const rows, cols = 300, 211
	value := func(i, j int) float32 { return float32(math.Sin(float64(i*cols + j))) }
	digest := func(file []byte) uint64 {
		m, err := Read(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		return m.Graph.Initializers[0].Digest
	}
	plain := digest(rawMatrix(rows, cols, value))
	if plain == 0 {
		t.Fatal("no digest")
	}
	if turned := digest(rawMatrix(cols, rows, func(i, j int) float32 { return value(j, i) })); turned != plain {
		t.Errorf("transposed: digest %x, want %x", turned, plain)
	}
	if other := digest(rawMatrix(rows, cols, func(i, j int) float32 { return value(i, j+1) })); other == plain {
		t.Error("other numbers have the same digest")
	}
	if zeros := digest(rawMatrix(rows, cols, func(int, int) float32 { return 0 })); zeros != 0 {
		t.Errorf("zeros: digest %x, want none", zeros)
	}
	whole := rawMatrix(rows, cols, value)
	if _, err := Read(bytes.NewReader(whole[:len(whole)/2])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half of the file: %v, want %v", err, io.ErrUnexpectedEOF)
	}
}
