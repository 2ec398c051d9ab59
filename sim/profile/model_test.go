// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/google/go-cmp/cmp"
)

// toy is the profile of an invented model, small enough to check by hand. Its
// step time is 1 + nodes + GPUs/10 + local/100 s, of which the exchange takes
// half; "13" takes 0.4 s more than that and "22" as much less.
func toy() fstest.MapFS {
	placements, scalability := "placement,local_bsz,step_time,sync_time\n", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
	for _, local := range []int{10, 20, 40} {
		for digits, shape := range map[string][2]int{"1": {1, 1}, "2": {1, 2}, "4": {1, 4}, "11": {2, 2}, "13": {2, 4}, "22": {2, 4}, "44": {2, 8}} {
			v := toyStep(shape[0], shape[1], local) + map[string]float64{"13": 0.4, "22": -0.4}[digits]
			placements += fmt.Sprintf("%s,%d,%.10f,%.10f\n", digits, local, v, v/2)
		}
		for _, shape := range [][2]int{{4, 4}, {4, 16}, {8, 8}, {8, 32}} {
			v := toyStep(shape[0], shape[1], local)
			scalability += fmt.Sprintf("%d,%d,%d,%.10f,%.10f\n", shape[0], shape[1], local, v, v/2)
		}
	}
	return fstest.MapFS{
		"toy/placements.csv":  {Data: []byte(placements)},
		"toy/scalability.csv": {Data: []byte(scalability)},
		"toy/validation-100.csv": {Data: []byte("progress,iteration,metric,grad_sqr,grad_var\n" +
			"50,50,0.5,4,8\n100,100,-1,2,10\n150,150,0.7,0,20\n")},
		"toy/validation-200.csv": {Data: []byte("progress,iteration,metric,grad_sqr,grad_var\n" +
			"48,25,0.5,8,16\n101,50,0.6,2,30\n")},
		"toy/notes.txt":  {Data: []byte("ignored")},
		"philly.csv":     {Data: []byte("ignored")},
		"other/notes.md": {Data: []byte("ignored")},
	}
}

func toyStep(nodes, gpus, local int) float64 {
	return 1 + float64(nodes) + float64(gpus)/10 + float64(local)/100
}

func toyModel(t *testing.T) *Model {
	t.Helper()
	tables, err := Read(toy())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"toy"}, tables.Models()); diff != "" {
		t.Fatalf("models (-want +got):\n%s", diff)
	}
	m, ok := tables.On("toy", "")
	if !ok {
		t.Fatal("no model toy")
	}
	return m
}

func TestLimitsAndEpochs(t *testing.T) {
	m := toyModel(t)
	if got, want := m.Limits(), (goodput.Limits{Initial: 100, Max: 200, LocalMin: 10, LocalMax: 40}); got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
	if got := m.Epochs(); got != 2 {
		t.Errorf("%d epochs, want 2: the shorter run", got)
	}
	for epochs, want := range map[int]float64{-1: 0, 0: 0, 1: 48, 2: 100, 3: 100} {
		if got := m.Progress(epochs); got != want {
			t.Errorf("Progress(%d) = %v, want %v", epochs, got, want)
		}
	}
}

// What the reference says in its code overrides the tables of its models.
func TestQuirks(t *testing.T) {
	fsys := toy()
	for name, f := range toy() {
		if rest, ok := strings.CutPrefix(name, "toy/"); ok {
			fsys["yolov3/"+rest], fsys["bert/"+rest] = f, f
		}
	}
	long := "progress,iteration,metric,grad_sqr,grad_var\n"
	for i := range 60 {
		long += fmt.Sprintf("%d,%d,0,1,1\n", i+1, i+1)
	}
	for _, name := range []string{"toy", "yolov3", "bert"} {
		for _, batch := range []string{"100", "200"} {
			fsys[name+"/validation-"+batch+".csv"] = &fstest.MapFile{Data: []byte(long)}
		}
	}
	fsys["yolov3/placements.csv"] = &fstest.MapFile{Data: []byte("placement,local_bsz,step_time,sync_time\n1,4,1,0\n1,16,1,0\n")}
	tables, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int{"toy": {60, 40}, "bert": {2, 40}, "yolov3": {50, 8}} {
		m, _ := tables.On(name, "")
		if got := [2]int{m.Epochs(), m.Limits().LocalMax}; got != want {
			t.Errorf("%s: epochs and largest local batch %v, want %v", name, got, want)
		}
	}
}

func TestGradAndIterations(t *testing.T) {
	m := toyModel(t)
	for _, tc := range []struct {
		batch, epoch              int
		sqr, variance, iterations float64
	}{
		{100, 0, 4, 8, 50},
		{200, 0, 8, 16, 25},
		{125, 0, 5, 10, 43.75},
		{150, 1, 2, 20, 75},
	} {
		sqr, variance, err := m.Grad(tc.batch, tc.epoch)
		iterations, err2 := m.Iterations(tc.batch, tc.epoch)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got, want := [3]float64{sqr, variance, iterations}, [3]float64{tc.sqr, tc.variance, tc.iterations}; got != want {
			t.Errorf("batch %d, epoch %d: got %v, want %v", tc.batch, tc.epoch, got, want)
		}
	}
	for _, tc := range []struct {
		batch, epoch int
		want         string
	}{
		{99, 0, "batch size 99; want 100 to 200"},
		{201, 0, "batch size 201"},
		{100, 2, "epoch 2; want 0 to 1"},
		{100, -1, "epoch -1"},
	} {
		_, _, err := m.Grad(tc.batch, tc.epoch)
		_, err2 := m.Iterations(tc.batch, tc.epoch)
		if err == nil || err2 == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err2.Error(), tc.want) {
			t.Errorf("batch %d, epoch %d: got errors %v and %v, want them with %q", tc.batch, tc.epoch, err, err2, tc.want)
		}
	}
}

func TestStep(t *testing.T) {
	m := toyModel(t)
	for _, tc := range []struct {
		name   string
		counts []int
		local  int
		want   float64
	}{
		{"measured", []int{2}, 20, 2.4},
		{"between local batches", []int{2}, 30, 2.5},
		{"zeros do not count", []int{0, 1, 0, 1, 0}, 10, 3.3},
		{"as placed", []int{1, 3}, 10, 3.9},
		{"rotated", []int{3, 1}, 10, 3.9},
		{"spread otherwise", []int{2, 2}, 10, 3.1},
		{"not measured on two nodes", []int{1, 2}, 20, toyStep(2, 3, 20)},
		{"not measured on one node", []int{3}, 25, toyStep(1, 3, 25)},
		{"four nodes, a corner", []int{1, 1, 1, 1}, 10, toyStep(4, 4, 10)},
		{"four nodes, inside", []int{2, 3, 3, 2}, 15, toyStep(4, 10, 15)},
		{"six nodes", []int{4, 4, 4, 4, 4, 4}, 40, toyStep(6, 24, 40)},
		{"more nodes than measured", []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 10, toyStep(8, 12, 10)},
		{"a digit is not enough", []int{10, 1, 1, 1}, 10, toyStep(4, 13, 10)},
	} {
		for range 2 { // the second answer comes from memory
			step, sync, err := m.Step(tc.counts, tc.local)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			if math.Abs(step-tc.want) > 1e-8 || math.Abs(sync-tc.want/2) > 1e-8 {
				t.Errorf("%s: got %v and %v, want %v and %v", tc.name, step, sync, tc.want, tc.want/2)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		counts []int
		local  int
		want   string
	}{
		{"no GPUs", []int{0, 0}, 10, "want at least one"},
		{"negative", []int{-1, 2}, 10, "want 0 or more"},
		{"no batch", []int{1}, 0, "local batch 0"},
		{"below the measured batches", []int{4}, 9, "local batch 9 on placement [4]; measured from 10 to 40"},
		{"above the measured batches", []int{4, 4}, 41, "local batch 41 on placement [4 4]"},
		{"too many on a node", []int{8}, 10, "8 GPUs on 1 nodes with local batch 10 are outside the measurements"},
		{"too many on many", []int{12, 12, 12, 12}, 10, "48 GPUs on 4 nodes"},
		{"outside, batch", []int{1, 2}, 41, "local batch 41 are outside"},
	} {
		if _, _, err := m.Step(tc.counts, tc.local); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

// Two placements with the same number of nodes and GPUs count as their mean
// for those that were not measured. "13" and "22" differ by 0.8 s, and their
// mean is the value of the plane through all other points.
func TestStepUsesMeanOfPlacements(t *testing.T) {
	fsys := toy()
	text := string(fsys["toy/placements.csv"].Data)
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "22,") {
			kept = append(kept, line)
		}
	}
	fsys["toy/placements.csv"].Data = []byte(strings.Join(kept, ""))
	tables, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := tables.On("toy", "")
	step, _, err := m.Step([]int{2, 2}, 10)
	if want := toyStep(2, 4, 10) + 0.4; err != nil || math.Abs(step-want) > 1e-8 {
		t.Errorf("got %v, %v; want %v: all that is known about 4 GPUs on 2 nodes", step, err, want)
	}
}

func TestStepWithoutEnoughMeasurements(t *testing.T) {
	fsys := toy()
	delete(fsys, "toy/scalability.csv")
	fsys["toy/placements.csv"].Data = []byte("placement,local_bsz,step_time,sync_time\n1,10,1,0\n1,20,2,0\n2,10,1,0.5\n2,20,2,0.5\n")
	tables, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := tables.On("toy", "")
	if step, _, err := m.Step([]int{2}, 15); step != 1.5 || err != nil {
		t.Errorf("got %v, %v; want 1.5", step, err)
	}
	if _, _, err := m.Step([]int{1, 1}, 10); err == nil || !strings.Contains(err.Error(), "outside the measurements") {
		t.Errorf("got error %v, want that it lies outside the measurements", err)
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{"1": "1", "21": "12", "4143": "1434", "2121": "1212", "3333": "3333", "443": "344"} {
		p, ok := parsePlacement(in)
		w, _ := parsePlacement(want)
		if got := p.canonical(); !ok || got != w {
			t.Errorf("canonical(%s) = %v, want %s", in, got[:p.nodes()], want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	tables, err := Read(toy())
	if err != nil {
		b.Fatal(err)
	}
	m, _ := tables.On("toy", "")
	for name, counts := range map[string][]int{
		"measured":     {0, 1, 3, 0},
		"interpolated": {0, 4, 4, 4, 4, 0, 4, 2},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := m.Step(counts, 20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
