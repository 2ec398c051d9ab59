// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/fairway-gpu/fairway/predict/features"
)

// rate is the hardware rate by which a column's coefficient scales.
type rate int

const (
	hosts   rate = iota // none: host time and launches
	fp32                // inverse of the rate of matrix products
	tf32                // inverse of the rate of convolutions
	traffic             // inverse of the bandwidth
)

// column is one term of a sum: milliseconds per unit, a guess for an H200 without
// measurements.
type column struct {
	name  string
	prior float64
	rate  rate
}

// busyColumns are the terms of kernel time: 10^12 flops, 10^12 bytes, launches. Flops
// of products are padded to the tiles that kernels compute, and results too small to
// fill the GPU count for more.
func busyColumns() []column {
	return []column{
		{"conv1_tflop", 3.3, tf32}, {"conv1_tb", 500, traffic}, // one point wide
		{"conv_tflop", 3.3, tf32}, {"conv_tb", 1000, traffic},
		{"thin_tflop", 10, tf32}, {"thin_tb", 2000, traffic}, // few channels
		{"group_tflop", 17, fp32}, {"group_tb", 1400, traffic},
		{"depth_tflop", 200, fp32}, {"depth_tb", 3300, traffic}, // one channel per group
		{"matmul_tflop", 21, fp32}, {"matmul_tb", 360, traffic},
		{"batched_tflop", 29, fp32}, {"batched_tb", 770, traffic},
		{"attention_tflop", 18, fp32}, {"attention_tb", 400, traffic},
		{"recurrent_tflop", 4, tf32}, {"recurrent_tb", 400, traffic}, {"cell_tb", 2000, traffic}, // of cells that stay on the GPU
		{"norm_tb", 500, traffic}, {"plain_tb", 330, traffic}, {"lookup_tb", 1700, traffic}, {"fill_tb", 330, traffic},
		{"optimizer_tb", 290, traffic},
		{"launches", 0.005, hosts}, {"recurrent_launches", 0.005, hosts}, {"sorts", 0.02, hosts},
		{"lookup_krows", 0.05, hosts}, // whose gradients are added one after the other
	}
}

// hostColumns are the terms of host time: operators by kind, including their
// gradients.
func hostColumns() []column {
	return []column{
		{"step", 0.4, hosts}, {"param_tensors", 0.012, hosts},
		{"n_conv", 0.1, hosts}, {"n_norm", 0.09, hosts}, {"n_activation", 0.04, hosts}, {"n_matmul", 0.08, hosts},
		{"n_attention", 0.2, hosts}, {"n_recurrent", 0.4, hosts}, {"n_recurrent_launch", 0.006, hosts},
		{"n_pool", 0.05, hosts}, {"n_softmax", 0.04, hosts}, {"n_elementwise", 0.03, hosts}, {"n_reduce", 0.05, hosts},
		{"n_move", 0.06, hosts}, {"n_copy", 0.03, hosts}, {"n_view", 0.01, hosts}, {"n_lookup", 0.09, hosts}, {"n_sort", 0.1, hosts},
	}
}

// plainColumns are figures of the whole graph, for the trees, the linear model and
// the memory.
func plainColumns() []string {
	return []string{
		"flops", "train_flops", "train_bytes", "params", "activation_mib", "input_mib", "gemms", "relus", "convs", "flattens", "norms",
		"units", "depth", "kernels", "recurrent_steps",
		"param_mib", "buffer_mib", "allocated_mib", "reserved_mib", "workspace_mib", "certain", "unknown",
	}
}

// vector is the columns of one model at one batch size.
type vector struct {
	Batch      float64
	Busy, Host []float64
	// RecipeBusy and RecipeHost are the columns of a recipeModel; recipe is false
	// for single precision with SGD; compiled is true with torch.compile.
	RecipeBusy, RecipeHost []float64
	recipe, compiled       bool
	plain                  []float64
	plainByName            map[string]float64
}

func (v *vector) at(name string) float64 { return v.plainByName[name] }

// setPlain fills in the figures of the whole graph.
func (v *vector) setPlain(values []float64) {
	v.plain = values
	v.plainByName = make(map[string]float64, len(values))
	for i, name := range plainColumns() {
		v.plainByName[name] = values[i]
	}
}

const mib = 1 << 20

// vectorOf computes the columns from the features of a graph.
func vectorOf(f *features.Features) *vector {
	v := &vector{Batch: float64(f.Batch)}
	v.Busy = pick(names(busyColumns()), busyOf(f))
	v.Host = pick(names(hostColumns()), hostOf(f))
	v.RecipeBusy, v.RecipeHost = recipeOf(f)
	v.recipe, v.compiled = f.Recipe != features.Recipe{}, f.Recipe.Compile
	unknown := 0
	for _, n := range f.Unknown {
		unknown += n
	}
	bytes := func(n int64) float64 { return float64(n) / mib }
	v.setPlain([]float64{
		f.FlopsForward, f.FlopsTraining(), f.BytesForward + f.BytesBackward, float64(f.Params), bytes(f.ActivationBytes), bytes(f.InputBytes),
		float64(f.Ops["Gemm"] + f.Ops["MatMul"]), float64(f.Ops["Relu"]), float64(f.Kinds[features.Conv]), float64(f.Ops["Flatten"]),
		float64(f.Kinds[features.Norm]), float64(f.Units), float64(f.Depth), float64(f.Kernels.Total()), float64(f.RecurrentSteps),
		bytes(f.ParamBytes), bytes(f.BufferBytes), bytes(f.Footprint.Allocated), bytes(f.Footprint.Reserved), bytes(f.Footprint.Workspace),
		f.Certain, float64(unknown),
	})
	return v
}

func names(columns []column) []string {
	var list []string
	for _, c := range columns {
		list = append(list, c.name)
	}
	return list
}

func pick(names []string, values map[string]float64) []float64 {
	list := make([]float64, len(names))
	for i, name := range names {
		list[i] = values[name]
	}
	return list
}

// busyOf sums the columns of the kernels.
func busyOf(f *features.Features) map[string]float64 {
	x := map[string]float64{}
	half := f.Recipe.Half || f.Recipe.Mixed
	for _, w := range f.Work() {
		class := classOf(w)
		forward, backward := padding(w, class)
		if !half || halfClass(w) == "" {
			x[class+"_tflop"] += w.Repeat * (w.Flops*w.Runs()*forward + w.BackFlops*backward) / 1e12
		}
		moved := class
		if w.Kind == features.Recurrent && w.Out <= features.SmallCell {
			moved = "cell"
		}
		x[moved+"_tb"] += w.Repeat * (w.Bytes*w.Runs() + w.BackBytes - w.Fill) / 1e12
		x["fill_tb"] += w.Repeat * w.Fill / 1e12
		x["plain_tb"] += w.Repeat * w.CopyBytes / 1e12
		x["launches"] += w.Repeat * (w.Copies + w.Casts)
		launches := "launches"
		if w.Kind == features.Recurrent {
			launches = "recurrent_launches"
		}
		x[launches] += w.Repeat * (w.Kernels*w.Runs() + w.BackKernels)
		switch {
		case sorts(w):
			x["sorts"] += w.Repeat
		case w.Kind == features.Lookup && w.Out > 0 && w.Fill > 0:
			x["lookup_krows"] += w.Repeat * w.Results / w.Out / 1e3
		}
	}
	// SGD with momentum reads and writes 8 numbers per parameter.
	x["optimizer_tb"] = 8 * float64(f.ParamBytes) / 1e12
	x["launches"] += float64(f.Kernels.Optimizer)
	return x
}

// sorts reports whether the gradient of a lookup sorts its indices.
func sorts(w features.Work) bool { return w.Kind == features.Lookup && w.BackKernels > 5 }

// thinChannels is the number of channels up to which convolutions wider than a point
// are slow.
const thinChannels = 16

// classOf classifies units by the speed of their kernels.
func classOf(w features.Work) string {
	switch w.Kind {
	case features.Conv:
		switch {
		case w.Groups > 1 && w.In <= 1:
			return "depth"
		case w.Groups > 1:
			return "group"
		case w.Inner <= 1.5*w.In:
			return "conv1"
		case min(w.In, w.Out) <= thinChannels:
			return "thin"
		}
		return "conv"
	case features.MatMul:
		if w.Groups > 1 {
			return "batched"
		}
		return "matmul"
	case features.Attention, features.Recurrent, features.Norm, features.Lookup:
		return string(w.Kind)
	}
	return "plain"
}

// Tiles of product kernels, and the size of a result below which a product does not
// fill the GPU.
const (
	tileWide, tileDeep = 64, 32
	fillResults        = 2e5
	alignedNumbers     = 4
	unalignedCost      = 5
)

// padding returns the ratio of computed flops to needed ones of a product, forward
// and backward.
func padding(w features.Work, class string) (forward, backward float64) {
	forward, backward = 1, 1
	switch class {
	case "conv1", "conv", "thin":
		forward = padded(w.Out, tileWide) * padded(w.Inner, tileDeep)
		backward = (padded(w.In, tileWide)*padded(w.Out, tileDeep) + padded(w.Out, tileWide)*padded(w.Inner, tileWide)) / 2
	case "group", "depth", "matmul":
	case "recurrent":
		// Directions run in parallel. Rows that are not aligned do not use the fast
		// mode.
		cost := 1 / max(w.Groups, 1)
		if math.Mod(w.Out, alignedNumbers) != 0 {
			cost *= unalignedCost
		}
		return cost, cost
	default:
		return forward, backward
	}
	if w.Results > 0 {
		idle := (w.Results + fillResults) / w.Results
		return forward * idle, backward * idle
	}
	return forward, backward
}

func padded(n, tile float64) float64 {
	n = max(n, 1)
	return math.Ceil(n/tile) * tile / n
}

// hostOf counts operators.
func hostOf(f *features.Features) map[string]float64 {
	x := map[string]float64{"step": 1, "param_tensors": float64(f.ParamTensors)}
	for _, w := range f.Work() {
		kind := string(w.Kind)
		switch w.Kind {
		case features.View:
			if w.Name == "Identity" || w.Static {
				continue
			}
			if w.Kernels > 0 {
				kind = "copy"
			}
		case features.Loss:
			kind = "softmax"
		case features.Other:
			kind = "elementwise"
		case features.Recurrent:
			x["n_recurrent_launch"] += w.Repeat * (w.Kernels + w.BackKernels)
		case features.Lookup:
			if sorts(w) {
				x["n_sort"] += w.Repeat
			}
		}
		x["n_"+kind] += w.Repeat
		x["n_copy"] += w.Repeat * w.Copies / 2
	}
	return x
}
