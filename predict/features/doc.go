// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package features turns a model's graph, with shapes, into the numbers that
// predict how its training uses a GPU.
//
// The graph is the forward pass. The backward pass and the optimiser are estimated
// from it by the rules of reverse-mode differentiation as PyTorch applies them in
// eager mode: which tensors an operator keeps, how many kernels it launches, how much
// arithmetic and traffic its gradient needs.
//
// # Units of work
//
// Operators of the file are first grouped into units, one for each operation of the
// framework: exporters write a layer normalisation, a GELU or a scaled-dot-product
// attention as many operators (see fuse.go). Operators that only compute shapes, and
// those that only change the view of a tensor, are units without kernels.
//
// Graphs that were exported for inference are treated as if for training: batch
// normalisations folded into convolutions are restored (unfold.go), and the
// exporter's reordering of recurrent weights is ignored.
//
// # Memory
//
// A few steps are replayed against a model of PyTorch's caching allocator (replay.go,
// arena.go), which gives the memory that the process takes from the device.
//
// # Formulas (per unit; n = elements of the output, in one run)
//
//	convolution        macs = n * C_in/groups * prod(kernel)
//	transposed conv.   macs = elements(input) * C_out/groups * prod(kernel)
//	matrix product     macs = n * inner dimension
//	einsum             macs = product of the sizes of all its letters
//	LSTM, GRU, RNN     macs = directions * steps * batch * gates*hidden * (input + hidden)
//	attention          macs = elements(scores) * (d_k + d_v)
//	flops              2*macs, plus n where a bias is added
//	normalisation      8 flops per element, softmax 5, GELU and other curves 8,
//	exp, tanh, sigmoid 4, bilinear resize 8, pooling prod(kernel) per output,
//	reduction 1 per input element, other element-wise operators 1 per operand beyond
//	the first, at least 1
//
// Backward flops of a product are 2*macs for each operand that needs a
// gradient (the first layer has one fewer), of a normalisation twice its
// forward flops, of other arithmetic once. Adding up the gradients of a value
// that several units read counts one flop per element and reader beyond the
// first.
//
// Traffic is the bytes of the operands read and of the results written, once
// each. All sizes are bytes, all times seconds.
package features
