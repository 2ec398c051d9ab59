// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"testing"

	"pgregory.net/rapid"
)

const mebi = 1 << 20

func TestArenaReuses(t *testing.T) {
	var a arena
	big := a.take(30 * mebi)
	if a.reserved != 30*mebi || a.live != 30*mebi {
		t.Fatalf("30 MiB taken: %d reserved, %d live", a.reserved, a.live)
	}
	a.give(big)
	// Both fit into what was given back, and the rest of it.
	one, two := a.take(12*mebi), a.take(16*mebi)
	if a.reserved != 30*mebi || a.live != 28*mebi {
		t.Errorf("28 of 30 MiB taken again: %d reserved, %d live", a.reserved, a.live)
	}
	// 2 MiB are left at the end: too few for 3.
	a.take(3 * mebi)
	if want := int64((30 + 20) * mebi); a.reserved != want {
		t.Errorf("3 MiB more: %d reserved, want %d", a.reserved, want)
	}
	// Neighbours join, or 28 MiB would not fit.
	a.give(one)
	a.give(two)
	a.take(28 * mebi)
	if want := int64((30 + 20) * mebi); a.reserved != want {
		t.Errorf("28 MiB in the place of 12 and 16: %d reserved, want %d", a.reserved, want)
	}
}

func TestArenaSegments(t *testing.T) {
	for _, tc := range []struct{ size, reserved int64 }{
		{1, 2 * mebi}, {mebi, 2 * mebi}, {mebi + 1, 20 * mebi}, {10*mebi - 512, 20 * mebi}, {10 * mebi, 10 * mebi}, {10*mebi + 1, 12 * mebi}, {0, 0},
	} {
		var a arena
		a.take(tc.size)
		if a.reserved != tc.reserved {
			t.Errorf("%d bytes: %d reserved, want %d", tc.size, a.reserved, tc.reserved)
		}
	}
}

// However blocks come and go, what is handed out is within what is reserved,
// blocks in use never overlap, and giving all back leaves nothing in use.
func TestArenaHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a arena
		var held []handle
		sum := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				sum -= a.blocks[held[i]].size
				a.give(held[i])
				held = append(held[:i], held[i+1:]...)
				continue
			}
			size := rapid.Int64Range(1, 40*mebi).Draw(t, "size")
			h := a.take(size)
			if a.blocks[h].free || a.blocks[h].size < size {
				t.Fatalf("asked for %d, got a block of %d, free %v", size, a.blocks[h].size, a.blocks[h].free)
			}
			sum += a.blocks[h].size
			held = append(held, h)
		}
		if a.live != sum || a.live > a.reserved || a.most < a.live {
			t.Fatalf("live %d, sum of blocks %d, most %d, reserved %d", a.live, sum, a.most, a.reserved)
		}
		for _, h := range held {
			a.give(h)
		}
		idle := int64(0)
		for _, list := range a.idle {
			for _, h := range list {
				idle += a.blocks[h].size
			}
		}
		if a.live != 0 || idle != a.reserved {
			t.Fatalf("all given back: %d live, %d idle of %d reserved", a.live, idle, a.reserved)
		}
	})
}

func TestFootprint(t *testing.T) {
	const n, width = 4096, 4096
	b := &net{}
	x := b.input("x", onnxFloat, 1, width)
	for range 3 {
		x = b.op("Relu", nil, b.op("Gemm", nil, x, b.weight(width, width)))
	}
	f := b.extract(t, n)
	// All tensors are 64 MiB: the input, 3 parameters, their momentum and
	// gradients, the results of 3 ReLUs (written over those of the products),
	// a gradient on the way back; and the workspace of products. When the
	// gradients of the parameters are all there, most results are gone.
	const tensor, tensors = 64, 1 + 3 + 3 + 3 + 1 + 1
	got := f.Footprint.Allocated / mebi
	if got < tensor*(tensors-1) || got > tensor*(tensors+2) {
		t.Errorf("allocated %d MiB, want about %d", got, tensor*tensors)
	}
	if f.Footprint.Reserved < f.Footprint.Allocated || f.Footprint.Workspace != 0 {
		t.Errorf("footprint %+v: less reserved than allocated, or a workspace without convolutions", f.Footprint)
	}
}

// The gradient of a maximum is made from a mask of one byte per number and a product,
// which both live beside it.
func TestFootprintOfExtremes(t *testing.T) {
	const n, width = 4096, 4096
	of := func(reduce string) int64 {
		b := &net{}
		x := b.op("Relu", nil, b.op("Gemm", nil, b.input("x", onnxFloat, 1, 16), b.weight(16, width)))
		b.op(reduce, ints("axes", 1), x)
		return b.extract(t, n).Footprint.Allocated / mebi
	}
	// The result that is kept, a mask of it, the product and the gradient; of a mean
	// only the gradients before and after the ReLU beside its result.
	const tensor = 64
	mean, most := of("ReduceMean"), of("ReduceMax")
	if least := of("ReduceMin"); most-mean != tensor/4 || least != most {
		t.Errorf("allocated %d MiB for a maximum, %d for a minimum, %d for a mean; want as much for both, and a mask of %d more than for the mean", most, least, mean, tensor/4)
	}
}

// A graph of more units than are replayed is added up, in bounded time.
func TestHugeGraph(t *testing.T) {
	b := &net{}
	x := b.op("MatMul", nil, b.input("x", onnxFloat, 1, 4), b.weight(4, 4))
	for range maxReplayed + 1 {
		x = b.op("Tanh", nil, x)
	}
	f := b.extract(t, 2)
	if f.Footprint.Allocated < f.ActivationBytes || f.Footprint.Reserved != f.Footprint.Allocated {
		t.Errorf("footprint %+v, activations %d bytes", f.Footprint, f.ActivationBytes)
	}
}
