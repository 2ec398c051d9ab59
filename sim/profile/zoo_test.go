// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// zooTypes says which table of the Sia artifact a GPU type of the zoo was fitted to.
var zooTypes = map[sched.GPUType]string{"rtx": "rtx", "a100": "dgx-ext"}

// fitOf fits the throughput model to all measurements, to three digits, and returns the
// mean error of its step times.
func fitOf(t *testing.T, m *Model) (goodput.Params, float64) {
	t.Helper()
	var all goodput.Profile
	for q, v := range m.surface.sums {
		s := goodput.Sample{Nodes: int(q[0]), GPUs: int(q[1]), Local: int(q[2]), Step: v.step / v.n, Sync: v.sync / v.n, Count: 1}
		s.Sync = min(s.Sync, 0.999*s.Step)
		if err := all.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	p, err := (&goodput.Fitter{}).Fit(&all)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*float64{&p.AlphaGrad, &p.BetaGrad, &p.AlphaLocal, &p.BetaLocal, &p.AlphaNode, &p.BetaNode, &p.Gamma} {
		*x, _ = strconv.ParseFloat(strconv.FormatFloat(*x, 'g', 3, 64), 64)
		if *x < 1e-7 {
			*x = 0
		}
	}
	off := 0.0
	for _, s := range all.Samples() {
		off += math.Abs(p.Step(goodput.Shape{Nodes: s.Nodes, GPUs: s.GPUs}, float64(s.Local))/s.Step-1) / float64(all.Len())
	}
	return p, off
}

// The speeds of the zoo on RTX 2080 Ti and A100 are fits of the Sia artifact's tables.
func TestZooIsFittedToSia(t *testing.T) {
	tables := siaTables(t)
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"} {
		known, _ := z.Model(name)
		for gpuType, file := range zooTypes {
			m, ok := tables.On(name, file)
			if !ok {
				t.Errorf("no table of %s on %s", name, file)
				continue
			}
			want, off := fitOf(t, m)
			text, _ := json.Marshal(want)
			t.Logf("%s on %s: mean error %.1f %%: %s", name, gpuType, 100*off, text)
			if got, _ := known.Params(gpuType); got != want {
				t.Errorf("%s on %s: the zoo has %+v; the fit is %+v", name, gpuType, got, want)
			}
		}
	}
}

// siaTables returns the tables of the Sia artifact, where they are present.
func siaTables(t *testing.T) *Tables {
	t.Helper()
	folder := filepath.Join(filepath.Dir(artifact(t)), "sia", "traces")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the tables of the Sia artifact are not here; FAIRWAY_TEST_DATA names the folder that holds them")
	}
	tables, err := Read(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	return tables
}
