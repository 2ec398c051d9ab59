// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
)

// chain is a graph of blocks of convolution, normalisation, ReLU and sum.
func chain(blocks int) *onnx.Model {
	g := &onnx.Graph{Inputs: []onnx.ValueInfo{{Name: "v0", Type: onnx.Float, Shape: []onnx.Dim{{Size: 1}, {Size: 64}, {Size: 28}, {Size: 28}}}}}
	store := func(name string, dims ...int64) string {
		g.Initializers = append(g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Float, Dims: dims})
		return name
	}
	add := func(op, out string, attrs []onnx.Attribute, in ...string) {
		g.Nodes = append(g.Nodes, &onnx.Node{Op: op, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	for i := range blocks {
		x, y := fmt.Sprint("v", i), fmt.Sprint("v", i+1)
		name := func(part string) string { return fmt.Sprint("block", i, ".", part) }
		add("Conv", name("c"), []onnx.Attribute{{Name: "pads", Ints: []int64{1, 1, 1, 1}}}, x, store(name("w"), 64, 64, 3, 3))
		add("BatchNormalization", name("n"), nil, name("c"), store(name("g"), 64), store(name("b"), 64), store(name("m"), 64), store(name("v"), 64))
		add("Relu", name("r"), nil, name("n"))
		add("Add", y, nil, name("r"), x)
	}
	g.Outputs = []onnx.ValueInfo{{Name: fmt.Sprint("v", blocks)}}
	return &onnx.Model{Opsets: map[string]int64{"": 17}, Graph: g}
}

func extract(t testing.TB, m *onnx.Model, batch int64) *features.Features {
	t.Helper()
	s, err := onnx.Infer(m, onnx.Options{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	return features.Extract(s, features.Recipe{})
}

func forGPU(t testing.TB, gpu string) *Model {
	t.Helper()
	m, err := For(gpu)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPredictionHoldsTogether(t *testing.T) {
	m := forGPU(t, "h200")
	graph := chain(20)
	var last Prediction
	for _, batch := range []int64{1, 8, 64, 512, 4096} {
		p := m.Predict(extract(t, graph, batch))
		parts := p.Memory.Parameters + p.Memory.Gradients + p.Memory.Optimizer + p.Memory.Activations + p.Memory.Workspace + p.Memory.Allocator + p.Memory.Context
		if math.Abs(parts-p.Memory.Total) > 1e-6*p.Memory.Total {
			t.Errorf("batch %d: parts sum to %g of %g MiB", batch, parts, p.Memory.Total)
		}
		if p.UtilLow > p.Util || p.Util > p.UtilHigh || p.UtilLow < 0 || p.UtilHigh > 100 {
			t.Errorf("batch %d: utilisation %g not within %g to %g", batch, p.Util, p.UtilLow, p.UtilHigh)
		}
		if p.StepLow > p.StepSeconds || p.StepSeconds > p.StepHigh || p.StepLow <= 0 {
			t.Errorf("batch %d: step %g not within %g to %g", batch, p.StepSeconds, p.StepLow, p.StepHigh)
		}
		if p.Confidence <= 0 || p.Confidence > 1 {
			t.Errorf("batch %d: confidence %g", batch, p.Confidence)
		}
		if p.Memory.Total < last.Memory.Total || p.StepSeconds < last.StepSeconds {
			t.Errorf("batch %d needs less than the smaller one: %g MiB after %g, %g s after %g", batch, p.Memory.Total, last.Memory.Total, p.StepSeconds, last.StepSeconds)
		}
		last = p
	}
	if last.Util < 90 {
		t.Errorf("at batch 4096 utilisation is %g %%, want near 100", last.Util)
	}
}

func TestSlowerGPUIsBusier(t *testing.T) {
	x := extract(t, chain(20), 8)
	own, other := forGPU(t, "h200").Predict(x), forGPU(t, "NVIDIA T4").Predict(x)
	if other.Util <= own.Util || other.StepSeconds <= own.StepSeconds {
		t.Errorf("T4: %g %%, %g s; H200: %g %%, %g s; want the T4 busier and slower", other.Util, other.StepSeconds, own.Util, own.StepSeconds)
	}
	if other.Confidence >= 0.5*own.Confidence || other.UtilHigh-other.UtilLow <= own.UtilHigh-own.UtilLow && other.UtilHigh < 100 {
		t.Errorf("T4 without measurements: confidence %g, interval %g to %g; want less sure than %g, %g to %g", other.Confidence, other.UtilLow, other.UtilHigh, own.Confidence, own.UtilLow, own.UtilHigh)
	}
	if len(other.Notes) == 0 || !strings.Contains(other.Notes[0], "no measurements of t4") {
		t.Errorf("notes %q do not say that the T4 was not measured", other.Notes)
	}
	faster := forGPU(t, "h200").WithHostSpeed(2).Predict(x)
	if faster.Util <= own.Util || faster.HostSeconds != own.HostSeconds/2 {
		t.Errorf("on a host twice as fast: %g %%, host %g s; on the measured one %g %%, %g s", faster.Util, faster.HostSeconds, own.Util, own.HostSeconds)
	}
}

func TestUnknownGPU(t *testing.T) {
	_, err := For("voodoo2")
	if err == nil || !strings.Contains(err.Error(), `"voodoo2"`) || !strings.Contains(err.Error(), "h200") || !strings.Contains(err.Error(), "t4") {
		t.Errorf("error %v; want one that names voodoo2 and lists what is known", err)
	}
}

func TestLessSure(t *testing.T) {
	m := forGPU(t, "h200")
	sure := m.Predict(extract(t, chain(20), 32))
	strange := chain(20)
	for i := 0; i < len(strange.Graph.Nodes); i += 4 {
		strange.Graph.Nodes[i+2].Op = "Mystery"
	}
	odd := m.Predict(extract(t, strange, 32))
	if odd.Confidence >= sure.Confidence {
		t.Errorf("with unknown operators confidence is %g, without %g", odd.Confidence, sure.Confidence)
	}
	if !strings.Contains(strings.Join(odd.Notes, "; "), "Mystery (20)") {
		t.Errorf("notes %q do not count the unknown operators", odd.Notes)
	}
	big := m.Predict(extract(t, chain(20), 1<<20))
	if !strings.Contains(strings.Join(big.Notes, "; "), "more memory than a h200 has") {
		t.Errorf("a batch of 2^20: notes %q do not say that it does not fit (%g MiB)", big.Notes, big.Memory.Total)
	}
}

// TestModelFile makes the model that is part of the program again from the
// measurements in the repository.
func TestModelFile(t *testing.T) {
	samples, without, err := ReadSamples(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	if without > 0 {
		t.Errorf("%d measurements have no features; run fairway predict features", without)
	}
	m, err := Train(samples, "h200")
	if err != nil {
		t.Fatal(err)
	}
	recipes, _, err := ReadRecipes(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddRecipes(recipes); err != nil {
		t.Fatal(err)
	}
	steps, err := ReadSteps(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddSteps(steps); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := m.Write(&again); err != nil {
		t.Fatal(err)
	}
	text, err := modelFiles.ReadFile("models/h200.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, again.Bytes()) {
		t.Errorf("models/h200.json is not what the measurements make; run fairway predict train (-file +now):\n%.2000s", cmp.Diff(string(text), again.String()))
	}
	read, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	x := extract(t, chain(5), 16)
	if diff := cmp.Diff(m.Predict(x), read.Predict(x)); diff != "" {
		t.Errorf("the model predicts otherwise once it is written and read (-before +after):\n%s", diff)
	}
}

func TestModelFileErrors(t *testing.T) {
	text, err := modelFiles.ReadFile("models/h200.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ from, to, want string }{
		{`"version": 1`, `"version": 9`, "version 9"},
		{`"gpu": "h200"`, `"gpu": "voodoo2"`, `"voodoo2"`},
		{`"method": "trees"`, `"method": "magic"`, `"magic"`},
		{`"launches"`, `"lunches"`, "train again"},
		{`"l": 1,`, `"l": 99,`, "branches 99"},
		{`"version": 1`, `"versions": 1`, "versions"},
	} {
		if !bytes.Contains(text, []byte(tc.from)) {
			t.Fatalf("the model file has no %s", tc.from)
		}
		_, err := Read(strings.NewReader(strings.Replace(string(text), tc.from, tc.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s for %s: error %v, want one with %q", tc.to, tc.from, err, tc.want)
		}
	}
}

// BenchmarkPredict fails if a prediction for 1,000 nodes takes 50 ms or more.
func BenchmarkPredict(b *testing.B) {
	m, graph := forGPU(b, "h200"), chain(250)
	for b.Loop() {
		m.Predict(extract(b, graph, 32))
	}
	if each := b.Elapsed() / time.Duration(max(b.N, 1)); b.N > 1 && each > 50*time.Millisecond {
		b.Errorf("a prediction took %v; want under 50 ms", each)
	}
}
