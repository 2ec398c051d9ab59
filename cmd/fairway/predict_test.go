// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fairway-gpu/fairway/predict"
)

// field appends a length-delimited protobuf field.
func field(b []byte, n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), content)
}

func varint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// tinyONNX is a linear layer and a ReLU, [batch 64] to [batch 32], with its
// weights in a file that does not exist.
func tinyONNX() []byte {
	node := func(op, out string, in ...string) (b []byte) {
		for _, name := range in {
			b = field(b, 1, []byte(name))
		}
		return field(field(b, 2, []byte(out)), 4, []byte(op))
	}
	dim := func(n uint64) []byte { return field(nil, 1, varint(nil, 1, n)) }
	tensorType := field(varint(nil, 1, 1), 2, slices.Concat(dim(1), dim(64)))
	input := field(field(nil, 1, []byte("x")), 2, field(nil, 1, tensorType))
	weight := field(varint(varint(varint(nil, 1, 64), 1, 32), 2, 1), 8, []byte("w"))
	location := field(field(nil, 1, []byte("location")), 2, []byte("absent.bin"))
	weight = varint(field(weight, 13, location), 14, 1)
	graph := field(field(nil, 1, node("MatMul", "h", "x", "w")), 1, node("Relu", "y", "h"))
	graph = field(field(field(graph, 5, weight), 11, input), 12, field(nil, 1, []byte("y")))
	return field(field(varint(nil, 1, 8), 7, graph), 8, varint(nil, 2, 17))
}

// fairway runs the command line in the process.
func fairway(t *testing.T, stdin []byte, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(bytes.NewReader(stdin))
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestPredictJSON(t *testing.T) {
	out, err := fairway(t, tinyONNX(), "predict", "-", "--batch", "32", "--gpu", "h200", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`activation_bytes activations batch confidence flops gpu gpu_mem_high_mib gpu_mem_mib gpu_mem_parts_mib gpu_util
		gpu_util_high gpu_util_low kernels model ops params step_ms step_ms_high step_ms_low train_flops`)
	optional := map[string]bool{"notes": true, "unknown_ops": true}
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(got)), func(k string) bool { return optional[k] })
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	for key, value := range map[string]any{
		"model": "-", "batch": 32.0, "gpu": "h200", "params": 64.0 * 32, "flops": 2.0*32*64*32 + 32*32, "activations": 32.0 * 32,
	} {
		if got[key] != value {
			t.Errorf("%s is %v, want %v", key, got[key], value)
		}
	}
	if diff := cmp.Diff(map[string]any{"MatMul": 1.0, "Relu": 1.0}, got["ops"]); diff != "" {
		t.Errorf("ops (-want +got):\n%s", diff)
	}
	sum := 0.0
	for _, part := range got["gpu_mem_parts_mib"].(map[string]any) {
		sum += part.(float64)
	}
	if total := got["gpu_mem_mib"].(float64); sum < total-4 || sum > total+4 {
		t.Errorf("parts sum to %g MiB, want about %g", sum, total)
	}
}

func TestPredictText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tiny.onnx")
	if err := os.WriteFile(name, tinyONNX(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := fairway(t, nil, "predict", name, "--gpu", "a100")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tiny.onnx, batch 1, on a100", "GPU utilisation", "CUDA context", "1 MatMul, 1 Relu", "no measurements of a100"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestPredictErrors(t *testing.T) {
	good := tinyONNX()
	for _, tc := range []struct {
		stdin []byte
		args  []string
		want  string
	}{
		{good, []string{"-", "--gpu", "voodoo2"}, `unknown GPU type "voodoo2"; want one of h200`},
		{good, []string{"-", "--batch", "-3"}, "--batch -3"},
		{good, []string{"-", "--dim", "sequence"}, `--dim "sequence"`},
		{good, []string{"-", "--dim", "sequence=0"}, `the size is "0"`},
		{good, []string{"-", "--dim", "sequence=7"}, `--dim sequence=7: the model has no such dimension; none is dynamic`},
		{good, []string{"-", "--host-speed", "0"}, "--host-speed 0"},
		{good, []string{}, "0 models named"},
		{good, []string{"no-such-file.onnx"}, "no-such-file.onnx"},
		{good[:len(good)/2], []string{"-"}, "read ONNX model"},
		{[]byte("PK\x03\x04 not a model"), []string{"-"}, "read ONNX model"},
		{nil, []string{"-"}, "read ONNX model"},
	} {
		_, err := fairway(t, tc.stdin, append([]string{"predict"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: error %v, want one with %q", tc.args, err, tc.want)
		}
	}
}

// TestPredictFeatures reads an archive and writes the rows that were measured.
func TestPredictFeatures(t *testing.T) {
	dir := t.TempDir()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	tarred := tar.NewWriter(zipped)
	for name, text := range map[string][]byte{
		"tiny.onnx":  tinyONNX(),
		"index.json": []byte(`{"files":{"my/tiny":{"file":"tiny.onnx"},"my/other":{"file":"other.onnx"}}}`),
	} {
		if err := tarred.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		tarred.Write(text)
	}
	tarred.Close()
	zipped.Close()
	graphs, out := filepath.Join(dir, "graphs.tar.gz"), filepath.Join(dir, "h200-features.csv")
	solo := "model,family,batch,status,util_mean,step_ms_mean,mem_device_mib,mem_reserved_mib,session\n" +
		"my/tiny,f,64,ok,50,10,900,100,s\nmy/tiny,f,8,ok,50,10,900,100,s\nmy/tiny,f,512,oom,,,,,s\nmy/lost,f,8,ok,50,10,900,100,s\n"
	recipes := "recipe,decoder,model,family,batch,status,util_mean,step_ms_mean,mem_device_mib,mem_reserved_mib,session\n" +
		"amp+adam,,my/tiny,f,8,ok,50,10,900,100,s\nadam,,my/tiny,f,8,ok,50,10,900,100,s\n"
	for name, text := range map[string][]byte{
		graphs: archive.Bytes(), filepath.Join(dir, "h200-solo.csv"): []byte(solo), filepath.Join(dir, "h200-recipes.csv"): []byte(recipes),
	} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fairway(t, nil, "predict", "features", "--graphs", graphs, "--out", out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "my/tiny,8,") || !strings.HasPrefix(lines[2], "my/tiny,64,") {
		t.Errorf("wrote %d lines; want a header and my/tiny at 8 and 64:\n%s", len(lines), text)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "h200-recipe-features.csv")); err != nil {
		t.Fatal(err)
	}
	if lines = strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "adam,my/tiny,8,") || !strings.HasPrefix(lines[2], "amp+adam,my/tiny,8,") {
		t.Errorf("wrote %d lines; want a header and my/tiny with both recipes:\n%s", len(lines), text)
	}
	if read, without, err := predict.ReadRecipes(os.DirFS(dir), "h200"); err != nil || len(read) != 2 || without != 0 {
		t.Errorf("read %d recipes, %d without features, %v; want 2", len(read), without, err)
	}
}

// TestPredictHostSpeed says of a measured session how fast its host was.
func TestPredictHostSpeed(t *testing.T) {
	const data = "../../lab/profiling/data"
	all, err := os.ReadFile(filepath.Join(data, "h200-solo.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(all), "\n")
	slow, busy := lines[0], lines[0]
	for _, line := range lines[1:] {
		if strings.Contains(line, "20261115T095440Z") { // the slowest host of all
			slow += line
		}
		if strings.Contains(line, ",vgg,") {
			busy += line
		}
	}
	for _, tc := range []struct{ solo, want, fails string }{
		{solo: slow, want: "--host-speed 0.8"},
		{solo: busy, fails: "is host-bound"},
		{solo: lines[0] + strings.ReplaceAll(lines[1], "plain/lenet", "my/own"), fails: "none of 1 measured steps"},
		{solo: "model\n", fails: "column"},
	} {
		file := filepath.Join(t.TempDir(), "mine-solo.csv")
		if err := os.WriteFile(file, []byte(tc.solo), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := fairway(t, nil, "predict", "host-speed", "--data", data, "--solo", file)
		switch {
		case tc.fails == "" && (err != nil || !strings.HasPrefix(out, tc.want)):
			t.Errorf("printed %q, %v; want %q", out, err, tc.want)
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("error %v; want one that says %q", err, tc.fails)
		}
	}
	if _, err := fairway(t, nil, "predict", "host-speed"); err == nil {
		t.Error("no flags: no error")
	}
}

// TestPredictRecomputes: with recomputed layers, one more layer keeps only its input, and
// its forward pass runs twice.
func TestPredictRecomputes(t *testing.T) {
	grown := func(recipe string) (more forecast) {
		var of [2]forecast
		for i, layers := range []string{"2", "3"} {
			out, err := fairway(t, nil, "predict", "--json", "--batch", "4", "--recipe", recipe,
				"--decoder", "layers="+layers+",width=256,heads=4,vocabulary=1000,sequence=128")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(out), &of[i]); err != nil {
				t.Fatal(err)
			}
		}
		a, b := of[0], of[1]
		return forecast{Flops: b.Flops - a.Flops, TrainFlops: b.TrainFlops - a.TrainFlops,
			Activations: b.Activations - a.Activations, ActBytes: b.ActBytes - a.ActBytes, Kernels: b.Kernels - a.Kernels}
	}
	plain, again := grown("bf16"), grown("bf16+checkpoint")
	const input = 4 * 128 * 256
	if again.Activations != input || again.ActBytes != 2*input {
		t.Errorf("a recomputed layer keeps %d numbers in %d bytes; want its input, %d in %d", again.Activations, again.ActBytes, input, 2*input)
	}
	if again.TrainFlops != plain.TrainFlops+plain.Flops || again.Kernels <= plain.Kernels {
		t.Errorf("a recomputed layer takes %g operations and %d launches; without, %g, %g of them forward, and %d",
			again.TrainFlops, again.Kernels, plain.TrainFlops, plain.Flops, plain.Kernels)
	}
}
