// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package onnx reads the graph of a model from an ONNX file and works out
// the shape of every value in it.
//
// It wants the graph, never the weights: Read streams over tensor contents
// and keeps only those small enough to be a shape (the target of a Reshape,
// the axes of a Reduce, the scales of a Resize). A file of many gigabytes
// costs as much memory as its list of nodes, and external data files need
// not exist.
//
// Infer gives every value its dimensions and element type, with the batch
// size of the caller's choice in the first dimension of the inputs. It folds
// the small integer arithmetic by which exporters compute shapes (Shape,
// Gather, Concat, Mul, ...), takes value_info for the operators it does not
// know, and flattens If, Loop and Scan into one list of operations.
//
// A file may come from anyone. Read bounds what it keeps, how deep it goes
// and how much it reads, and returns an error that names the place; Infer
// bounds the size of every value.
package onnx
