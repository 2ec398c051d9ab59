// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func folder(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestExtend(t *testing.T) {
	z := &Zoo{}
	err := z.Extend(folder(map[string]string{
		"a.json":     `{"name": "Net", "class": "vision", "step_time": {"T4": 1}}`,
		"b.json":     `{"name": "nET", "class": "nlp", "step_time": {"T4": 2}}`,
		"c.json":     `{"name": "other", "class": "speech", "slowdown": {"rack": 1.5}}`,
		"notes.txt":  `not a model`,
		"sub/d.json": `{"name": "deeper", "class": "vision"}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"nET", "other"}, z.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	m, ok := z.Model("NET")
	if !ok || m.Class != "nlp" {
		t.Errorf("got %+v, %v; want the later file's model", m, ok)
	}
	if s, ok := m.StepTimeOn("t4"); s != 2 || !ok {
		t.Errorf("step time %v, %v; want 2, true", s, ok)
	}
}

func TestExtendReplacesBuiltin(t *testing.T) {
	z := builtinZoo(t)
	before := len(z.Names())
	if err := z.Extend(folder(map[string]string{"x.json": `{"name": "bert", "class": "nlp", "iterations": 7}`})); err != nil {
		t.Fatal(err)
	}
	if m, _ := z.Model("bert"); m.Iterations != 7 || len(m.Throughput) != 0 || len(z.Names()) != before {
		t.Errorf("got %+v; want the file's model and nothing of the old one", m)
	}
}

func TestExtendAddsNothingOnError(t *testing.T) {
	z := &Zoo{}
	err := z.Extend(folder(map[string]string{
		"a.json": `{"name": "good", "class": "vision"}`,
		"b.json": `{"name": "bad"}`,
	}))
	if err == nil || len(z.Names()) != 0 {
		t.Errorf("got error %v and models %v; want an error and none", err, z.Names())
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string // parts of the error
	}{
		{"unknown field", `{"name": "x", "class": "vision", "itterations": 3}`, []string{"f.json", `unknown field "itterations"`}},
		{"unknown field inside", `{"name": "x", "class": "vision", "throughput": {"t4": {"alpha": 3}}}`, []string{"f.json", `unknown field "alpha"`}},
		{"wrong type", "{\"name\": \"x\",\n \"class\": 3}", []string{"line 2, column", "field class", "number"}},
		{"not JSON", "{\"name\":\n  nonsense}", []string{"line 2, column 4"}},
		{"cut off", `{"name": "x"`, []string{"unexpected EOF"}},
		{"two models", "{\"name\": \"x\", \"class\": \"vision\"}\n{}", []string{"line 2, column 1", "one JSON object"}},
		{"no name", `{"class": "vision"}`, []string{`name = ""`}},
		{"class", `{"name": "x", "class": "audio"}`, []string{`class = "audio"`, "speech"}},
		{"iterations", `{"name": "x", "class": "nlp", "iterations": -1}`, []string{"iterations = -1"}},
		{"restart without unit", `{"name": "x", "class": "nlp", "restart": 30}`, []string{"30", "unit"}},
		{"restart", `{"name": "x", "class": "nlp", "restart": "-1s"}`, []string{"restart = -1s"}},
		{"interference", `{"name": "x", "class": "nlp", "interference": 1}`, []string{"interference = 1"}},
		{"gpu_util", `{"name": "x", "class": "nlp", "gpu_util": 57}`, []string{"gpu_util = 57"}},
		{"gpu_memory", `{"name": "x", "class": "nlp", "gpu_memory": -1}`, []string{"gpu_memory = -1"}},
		{"max_gpus", `{"name": "x", "class": "nlp", "max_gpus": -1}`, []string{"max_gpus = -1"}},
		{"batch", `{"name": "x", "class": "nlp", "batch": {"initial": 8, "max": 4, "local_min": 1, "local_max": 8}}`, []string{"batch.max = 4"}},
		{"throughput needs batch", `{"name": "x", "class": "nlp", "throughput": {"t4": {"alpha_grad": 1, "gamma": 1}}}`, []string{"batch.initial = 0"}},
		{"throughput", `{"name": "x", "class": "nlp", "batch": {"initial": 8, "max": 8, "local_min": 1, "local_max": 8}, "throughput": {"t4": {"alpha_grad": 1, "gamma": 0}}}`, []string{"throughput.t4.gamma = 0"}},
		{"type twice", `{"name": "x", "class": "nlp", "step_time": {"t4": 1, "T4": 2}}`, []string{"step_time", `"t4"`, "twice"}},
		{"step_time", `{"name": "x", "class": "nlp", "step_time": {"t4": 0}}`, []string{"step_time.t4 = 0"}},
		{"noise order", `{"name": "x", "class": "nlp", "noise": [{"at": 0.5, "phi": 1}, {"at": 0.5, "phi": 2}]}`, []string{"noise[1].at = 0.5"}},
		{"noise value", `{"name": "x", "class": "nlp", "noise": [{"at": 0.5, "phi": 0}]}`, []string{"noise[0].phi = 0"}},
		{"loss order", `{"name": "x", "class": "nlp", "loss": [{"at": 0, "loss": 1}]}`, []string{"loss[0].at = 0"}},
		{"loss value", `{"name": "x", "class": "nlp", "loss": [{"at": 1, "loss": 0}]}`, []string{"loss[0].loss = 0"}},
		{"loss scatter", `{"name": "x", "class": "nlp", "loss_scatter": 1}`, []string{"loss_scatter = 1"}},
		{"slowdown", `{"name": "x", "class": "nlp", "slowdown": {"rack": 0.9}}`, []string{"slowdown.rack = 0.9"}},
		{"slowdown order", `{"name": "x", "class": "nlp", "slowdown": {"machine": 1.5, "cross_rack": 1.2}}`, []string{"slowdown.cross_rack = 1.2", "1.5"}},
		{"too large", `{"name": "x", "class": "nlp", "task": "` + strings.Repeat("x", MaxFile) + `"}`, []string{"more than 1048576 bytes"}},
	} {
		err := (&Zoo{}).Extend(folder(map[string]string{"f.json": tc.text}))
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %q", tc.name, err, want)
			}
		}
	}
}

// The example of the README is a model.
func TestReadmeExample(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no example")
	}
	m, err := Decode([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Params("A100"); !ok {
		t.Errorf("the example has no parameters for the GPU type it names: %+v", m)
	}
}

func FuzzDecode(f *testing.F) {
	z, err := Builtin()
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range z.Names() {
		text, err := builtin.ReadFile("models/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"name": "x", "class": "nlp", "noise": [{"at": 1e-300, "phi": 1e300}, {"at": 2e-300, "phi": 1e-300}]}`))
	f.Add([]byte(`{"name": "x", "class": "nlp", "step_time": {"": 1}}`))
	f.Add([]byte(`{"name": 1e999}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		if err := m.Validate(); err != nil {
			t.Errorf("an accepted model is not valid: %v", err)
		}
		for _, frac := range []float64{0, 0.5, 1} {
			if phi := m.NoiseAt(frac); !(phi >= 0) {
				t.Errorf("NoiseAt(%v) = %v", frac, phi)
			}
			if loss := m.LossAt(frac); !(loss > 0) {
				t.Errorf("LossAt(%v) = %v", frac, loss)
			}
			if until := m.NoiseUntil(frac); !(until > frac) {
				t.Errorf("NoiseUntil(%v) = %v", frac, until)
			}
		}
	})
}
