// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/predict"
	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
)

// predictFlags are the flags of "fairway predict".
type predictFlags struct {
	batch  int64
	gpu    string
	dims   []string
	assume int64
	speed  float64
	recipe string
	shape  string
	part   string
	stepMS []float64
	with   []string
	mode   string
	asJSON bool
}

// maxBatch is the largest batch that is believed.
const maxBatch = 1 << 30

func newPredict() *cobra.Command {
	var f predictFlags
	c := &cobra.Command{
		Use:   "predict MODEL.onnx | --decoder SHAPE",
		Short: "Predict a model's GPU utilisation, memory and step time from its graph",
		Long: `Predict how training a model will use a GPU, before it runs: utilisation, memory,
step time, and the confidence of the prediction. The model is an ONNX graph; neither
weights nor a GPU are needed. "-" reads standard input.

Training means SGD with momentum in single precision, as PyTorch runs it, unless
--recipe names others: amp (autocast to bfloat16), bf16 (everything in bfloat16), adam,
checkpoint (layers are computed again in the backward pass), compile (torch.compile),
joined by +. --decoder
describes a GPT-like model that is too large to export. --step-ms corrects the
prediction by measured steps: ten or more also tell, by how much they differ, whether
the GPU or the host limits them. --part predicts for a part of the GPU.

The first dimension of the inputs is the batch. Other dynamic dimensions need a size:
--dim sequence=128, or --dim input_ids:1=128 by position, or --assume 128 for all
of them. See docs/predict.md.`,
		Example: `  fairway predict resnet50.onnx --batch 32
  fairway predict bert.onnx --batch 16 --dim sequence=128 --gpu a100 --json
  fairway predict resnet50.onnx --batch 8 --with lstm.onnx:20 --with bert.onnx:32
  fairway predict --decoder layers=32,width=4096,heads=32,vocabulary=32000,sequence=2048 --batch 1 --recipe bf16+adam+checkpoint
  python export.py | fairway predict - --batch 64`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.shape != "" && len(args) == 0 {
				return nil
			}
			if len(args) != 1 || f.shape != "" {
				return usagef("predict: %d models named; want one ONNX file, - for standard input, or --decoder", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, append(args, "decoder")[0]) },
	}
	c.Flags().Int64VarP(&f.batch, "batch", "b", 0, "batch size (default: that of the file, or 1)")
	c.Flags().StringVar(&f.gpu, "gpu", "h200", "GPU type: "+strings.Join(predict.GPUs(), ", "))
	c.Flags().StringSliceVar(&f.dims, "dim", nil, "size of a dynamic dimension, NAME=SIZE or INPUT:POSITION=SIZE")
	c.Flags().Int64Var(&f.assume, "assume", 0, "size of every other dynamic dimension")
	c.Flags().Float64Var(&f.speed, "host-speed", 1, "speed of a host core relative to the measured hosts; see fairway predict host-speed")
	c.Flags().StringVar(&f.recipe, "recipe", "", "how the model is trained: amp or bf16, adam, checkpoint, compile, joined by +")
	c.Flags().StringVar(&f.part, "part", "", "part of the GPU: a share of its threads under MPS (50%), or a profile of MIG (3g.71gb)")
	c.Flags().StringVar(&f.shape, "decoder", "", "shape of a GPT-like model instead of a file: layers, width, heads, vocabulary, sequence")
	c.Flags().Float64SliceVar(&f.stepMS, "step-ms", nil, "measured time of a step, which corrects the prediction; better those of ten steps or more, separated by commas")
	c.Flags().StringSliceVar(&f.with, "with", nil, "also predict the slowdown when sharing the GPU with this model, FILE or FILE:BATCH")
	c.Flags().StringVar(&f.mode, "mode", "time-slice", "with --with: how the GPU is shared, time-slice or mps")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.AddCommand(newPredictFeatures(), newPredictTrain(), newPredictEvaluate(), newPredictHostSpeed())
	return c
}

func (f *predictFlags) run(c *cobra.Command, name string) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	model, err := predict.For(f.gpu)
	if err != nil {
		return usageError{err}
	}
	if f.speed != 1 {
		model = model.WithHostSpeed(f.speed)
	}
	if f.part != "" {
		part, err := predict.ParsePart(f.part, model.Device())
		if err != nil {
			return usageError{fmt.Errorf("--%w", err)}
		}
		model = model.On(part)
	}
	recipe, err := features.ParseRecipe(f.recipe)
	if err != nil {
		return usageError{err}
	}
	graph, err := f.graph(c, name)
	if err != nil {
		return err
	}
	if err := f.checkDims(graph, options); err != nil {
		return err
	}
	x, err := extractFrom(graph, options, recipe)
	if err != nil {
		return fmt.Errorf("predict: %s: %w", name, err)
	}
	p := model.PredictAfter(x, predict.StepsOf(f.seconds()))
	forecast := forecastOf(name, model, x, p)
	if forecast.With, err = f.beside(model, p, options); err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(forecast)
	}
	return forecast.print(c.OutOrStdout())
}

// graph reads the model, or makes it from its shape.
func (f *predictFlags) graph(c *cobra.Command, name string) (*onnx.Model, error) {
	if f.shape != "" {
		d, err := onnx.ParseDecoder(f.shape)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%w", err)}
		}
		return d.Model(), nil
	}
	file := c.InOrStdin()
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("predict: %w", err)
		}
		defer opened.Close()
		file = opened
	}
	graph, err := onnx.Read(file)
	if err != nil {
		return nil, fmt.Errorf("predict: %s: %w", name, err)
	}
	return graph, nil
}

// seconds are the measured steps.
func (f *predictFlags) seconds() []float64 {
	var list []float64
	for _, ms := range f.stepMS {
		list = append(list, ms/1e3)
	}
	return list
}

// options are the sizes that the flags give.
func (f *predictFlags) options() (onnx.Options, error) {
	o := onnx.Options{Batch: f.batch, Assume: f.assume, Dims: map[string]int64{}}
	if f.batch < 0 || f.batch > maxBatch {
		return o, usagef("--batch %d: want 1 to %d", f.batch, maxBatch)
	}
	if !(f.speed >= 0.01 && f.speed <= 100) {
		return o, usagef("--host-speed %g: want 0.01 to 100", f.speed)
	}
	for _, ms := range f.stepMS {
		if !(ms > 0 && ms < 1e9) {
			return o, usagef("--step-ms %g: want the milliseconds of a step", ms)
		}
	}
	if f.assume < 0 {
		return o, usagef("--assume %d: want 1 or more", f.assume)
	}
	for _, d := range f.dims {
		i := strings.LastIndex(d, "=")
		if i < 1 {
			return o, usagef("--dim %q: want NAME=SIZE, such as sequence=128", d)
		}
		n, err := strconv.ParseInt(d[i+1:], 10, 64)
		if err != nil || n < 1 {
			return o, usagef("--dim %q: the size is %q; want a number of 1 or more", d, d[i+1:])
		}
		o.Dims[d[:i]] = n
	}
	return o, nil
}

// checkDims refuses sizes of dimensions that the model does not have, which
// would leave those that were meant open. With other models beside it, a name
// may be one of theirs.
func (f *predictFlags) checkDims(m *onnx.Model, o onnx.Options) error {
	if len(f.with) > 0 {
		return nil
	}
	known, open := map[string]bool{}, []string{}
	for _, in := range m.Graph.Inputs {
		for i, d := range in.Shape {
			at := fmt.Sprintf("%s:%d", in.Name, i)
			switch {
			case known[at]:
			case d.Symbol != "" && !known[d.Symbol]:
				open = append(open, d.Symbol)
			case d.Symbol == "" && d.Size < 0:
				open = append(open, at)
			}
			known[at], known[d.Symbol] = true, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Dims)) {
		if !known[name] {
			if len(open) == 0 {
				return usagef("--dim %s=%d: the model has no such dimension; none is dynamic", name, o.Dims[name])
			}
			return usagef("--dim %s=%d: the model has no such dimension; dynamic ones are %s", name, o.Dims[name], strings.Join(open, ", "))
		}
	}
	return nil
}

// extract reads a graph and sums it up.
func extract(r io.Reader, o onnx.Options, recipe features.Recipe) (*features.Features, error) {
	graph, err := onnx.Read(r)
	if err != nil {
		return nil, err
	}
	return extractFrom(graph, o, recipe)
}

func extractFrom(graph *onnx.Model, o onnx.Options, recipe features.Recipe) (*features.Features, error) {
	shapes, err := onnx.Infer(graph, o)
	if err != nil {
		return nil, err
	}
	return features.Extract(shapes, recipe), nil
}

// forecast is a prediction as it is printed.
type forecast struct {
	Model       string         `json:"model"`
	Batch       int64          `json:"batch"`
	GPU         string         `json:"gpu"`
	Util        float64        `json:"gpu_util"` // percent
	UtilLow     float64        `json:"gpu_util_low"`
	UtilHigh    float64        `json:"gpu_util_high"`
	MemMiB      float64        `json:"gpu_mem_mib"`
	MemHigh     float64        `json:"gpu_mem_high_mib"`
	MemParts    memoryParts    `json:"gpu_mem_parts_mib"`
	StepMS      float64        `json:"step_ms"`
	StepLow     float64        `json:"step_ms_low"`
	StepHigh    float64        `json:"step_ms_high"`
	Flops       float64        `json:"flops"`       // forward, all of the batch
	TrainFlops  float64        `json:"train_flops"` // forward, backward, and forward again where a recipe recomputes
	Params      int64          `json:"params"`
	Activations int64          `json:"activations"` // numbers kept for the backward pass
	ActBytes    int64          `json:"activation_bytes"`
	Kernels     int64          `json:"kernels"` // launches in a step
	Ops         map[string]int `json:"ops"`
	Confidence  float64        `json:"confidence"`
	Unknown     map[string]int `json:"unknown_ops,omitempty"`
	Notes       []string       `json:"notes,omitempty"`
	With        []company      `json:"with,omitempty"`

	busyMS, hostMS, capacityMiB float64
}

type memoryParts struct {
	Parameters  float64 `json:"parameters"`
	Gradients   float64 `json:"gradients"`
	Optimizer   float64 `json:"optimizer"`
	Activations float64 `json:"activations"`
	Workspace   float64 `json:"workspace"`
	Allocator   float64 `json:"allocator"`
	Context     float64 `json:"context"`
}

func forecastOf(name string, m *predict.Model, x *features.Features, p predict.Prediction) forecast {
	short := func(v, unit float64) float64 {
		s, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', int(unit), 64), 64)
		return s
	}
	again, relaunched := x.Again()
	return forecast{
		Model: name, Batch: x.Batch, GPU: m.Device().Name,
		Util: short(p.Util, 1), UtilLow: short(p.UtilLow, 1), UtilHigh: short(p.UtilHigh, 1),
		MemMiB: short(p.Memory.Total, 0), MemHigh: short(p.Memory.High, 0),
		MemParts: memoryParts{short(p.Memory.Parameters, 0), short(p.Memory.Gradients, 0), short(p.Memory.Optimizer, 0),
			short(p.Memory.Activations, 0), short(p.Memory.Workspace, 0), short(p.Memory.Allocator, 0), short(p.Memory.Context, 0)},
		StepMS: short(1e3*p.StepSeconds, 3), StepLow: short(1e3*p.StepLow, 3), StepHigh: short(1e3*p.StepHigh, 3),
		Flops: x.FlopsForward, TrainFlops: x.FlopsTraining() + again, Params: x.Params,
		Activations: x.Activations - x.Recomputed, ActBytes: x.ActivationBytes - x.RecomputedBytes,
		Kernels: x.Kernels.Total() + int64(relaunched), Ops: x.Ops, Confidence: short(p.Confidence, 2), Unknown: x.Unknown, Notes: p.Notes,
		busyMS: 1e3 * p.BusySeconds, hostMS: 1e3 * p.HostSeconds, capacityMiB: m.Device().MemoryMiB,
	}
}

func (f forecast) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", label, clean(fmt.Sprintf(format, args...)))
	}
	line("model", "%s, batch %d, on %s", filepath.Base(f.Model), f.Batch, f.GPU)
	line("GPU utilisation", "%.0f %% (%.0f to %.0f)", f.Util, f.UtilLow, f.UtilHigh)
	line("step", "%s ms (%s to %s): kernels %s, launching them %s", digits(f.StepMS), digits(f.StepLow), digits(f.StepHigh), digits(f.busyMS), digits(f.hostMS))
	line("GPU memory", "%.0f MiB of %.0f; %.0f are enough 98 times out of 100", f.MemMiB, f.capacityMiB, f.MemHigh)
	for _, part := range []struct {
		name string
		mib  float64
	}{
		{"parameters", f.MemParts.Parameters}, {"gradients", f.MemParts.Gradients}, {"optimizer", f.MemParts.Optimizer},
		{"activations", f.MemParts.Activations}, {"workspace", f.MemParts.Workspace}, {"allocator", f.MemParts.Allocator}, {"CUDA context", f.MemParts.Context},
	} {
		line("  "+part.name, "%6.0f MiB", part.mib)
	}
	line("FLOPs", "%s forward, %s a step", count(f.Flops), count(f.TrainFlops))
	line("parameters", "%s", count(float64(f.Params)))
	line("activations", "%s kept for the backward pass (%.0f MiB)", count(float64(f.Activations)), float64(f.ActBytes)/(1<<20))
	line("launches", "%d a step", f.Kernels)
	line("operators", "%s", countedOps(f.Ops))
	line("confidence", "%.2f", f.Confidence)
	for _, other := range f.With {
		line("beside", "%s", other.text())
	}
	for _, note := range f.Notes {
		line("note", "%s", note)
	}
	return t.Flush()
}

// digits prints three significant ones.
func digits(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// count prints a large number with a unit.
func count(v float64) string {
	units := []string{"", " k", " M", " G", " T", " P"}
	i := 0
	for v >= 1000 && i < len(units)-1 {
		v /= 1000
		i++
	}
	return digits(v) + units[i]
}

// countedOps lists operators, the most frequent first.
func countedOps(ops map[string]int) string {
	type entry struct {
		name string
		n    int
	}
	var list []entry
	for name, n := range ops {
		list = append(list, entry{name, n})
	}
	slices.SortFunc(list, func(a, b entry) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.name, b.name)
	})
	var words []string
	for i, e := range list {
		if i == 10 {
			words = append(words, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		words = append(words, fmt.Sprintf("%d %s", e.n, e.name))
	}
	return strings.Join(words, ", ")
}
