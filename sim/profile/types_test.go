// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/google/go-cmp/cmp"
)

// typed is the toy with a table for each of two GPU types, beside one that names none.
func typed() fstest.MapFS {
	fsys := toy()
	fsys["toy/placements-old.csv"] = &fstest.MapFile{Data: []byte("local_bsz,step_time,sync_time,placement\n10,4,1,1\n20,6,1,1\n10,5,2,4\n")}
	fsys["toy/placements-new-8.csv"] = &fstest.MapFile{Data: []byte("local_bsz,step_time,sync_time,placement\n10,2,1,1\n40,3,1,1\n10,2,1,88\n")}
	fsys["toy/scalability-new-8.csv"] = &fstest.MapFile{Data: []byte("local_bsz,step_time,sync_time,num_nodes,num_replicas\n30,2,1,3,24\n20,2,1,4,24\n")}
	return fsys
}

func TestTypes(t *testing.T) {
	tables, err := Read(typed())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"new-8", "old"}, tables.Types()); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if _, ok := tables.On("toy", "a100"); ok || !tables.Typed() {
		t.Error("a type without a file has a table")
	}
	fast, _ := tables.On("toy", "new-8")
	slow, _ := tables.On("toy", "old")
	for _, tc := range []struct {
		m      *Model
		counts []int
		local  int
		want   float64
	}{{fast, []int{1}, 10, 2}, {fast, []int{1}, 25, 2.5}, {slow, []int{1}, 10, 4}, {fast, []int{8, 8}, 10, 2}} {
		if got, _, err := tc.m.Step(tc.counts, tc.local); err != nil || got != tc.want {
			t.Errorf("%v of %d on %s takes %v, %v; want %v", tc.counts, tc.local, tc.m.gpuType, got, err, tc.want)
		}
	}
	if a, b := fast.Limits(), slow.Limits(); a.LocalMax != 40 || b.LocalMax != 20 || a.Max != 200 {
		t.Errorf("limits %+v and %+v; want local batches up to 40 and 20", a, b)
	}
	for _, tc := range []struct {
		counts []int
		want   int
	}{{[]int{1}, 40}, {[]int{8, 8}, 10}, {[]int{8, 4}, 30}, {[]int{4, 4, 4, 4}, 20}, {[]int{8, 8, 8, 8, 8}, 40}} {
		if got := fast.MaxLocal(tc.counts); got != tc.want {
			t.Errorf("the largest local batch on %v is %d; want %d", tc.counts, got, tc.want)
		}
	}
}

func TestTypeInFileName(t *testing.T) {
	for _, name := range []string{"toy/placements-.csv", "toy/placements-A100.csv"} {
		fsys := typed()
		fsys[name] = fsys["toy/placements-old.csv"]
		if _, err := Read(fsys); err == nil || !strings.Contains(err.Error(), "GPU type") {
			t.Errorf("%s: got error %v, want one about the GPU type", name, err)
		}
	}
}

// gpt is a table of pipelines: of two GPUs, or of eight.
func gpt() fstest.MapFS {
	return fstest.MapFS{
		"gpt_pmp/placements-short.csv":  {Data: []byte("local_bsz,step_time,sync_time,placement\n1,0.1,0.5,2\n2,0.2,0.5,2\n1,0.1,0.6,4\n1,0.1,0.7,88\n")},
		"gpt_pmp/placements-long.csv":   {Data: []byte("local_bsz,step_time,sync_time,placement\n1,0.1,0.5,8\n1,0.1,0.7,88\n")},
		"gpt_pmp/scalability-short.csv": {Data: []byte("local_bsz,step_time,sync_time,num_nodes,num_replicas\n1,0.1,0.7,2,16\n")},
		"gpt_pmp/validation-12.csv":     {Data: []byte("progress,iteration,metric,grad_sqr,grad_var\n5,5,0,1,1\n9,9,0,1,1\n12,12,0,1,1\n")},
		"gpt_pmp/validation-384.csv":    {Data: []byte("progress,iteration,metric,grad_sqr,grad_var\n5,1,0,1,1\n9,2,0,1,1\n12,3,0,1,1\n")},
	}
}

// A replica of a pipeline is several GPUs, and its step is 48 micro-batches through all
// stages: 3 x (48 + stages - 1) forward times, and the exchange.
func TestPipelines(t *testing.T) {
	tables, err := Read(gpt())
	if err != nil {
		t.Fatal(err)
	}
	for gpuType, want := range map[string]struct {
		unit   int
		counts []int
		step   float64
	}{"short": {2, []int{2}, 3*49*0.1 + 0.5}, "long": {8, []int{8}, 3*55*0.1 + 0.5}} {
		m, _ := tables.On("gpt_pmp", gpuType)
		if m.Unit() != want.unit {
			t.Errorf("%s: a replica has %d GPUs; want %d", gpuType, m.Unit(), want.unit)
		}
		if got := m.Limits(); got != (goodput.Limits{Initial: 48, Max: 384, LocalMin: 48, LocalMax: 48}) || m.Base() != 12 {
			t.Errorf("%s: limits %+v, base %d", gpuType, got, m.Base())
		}
		if step, sync, err := m.Step(want.counts, 48); err != nil || math.Abs(step-want.step) > 1e-9 || sync != 0.5 {
			t.Errorf("%s: a step takes %v, %v of it the exchange, %v; want %v and 0.5", gpuType, step, sync, err, want.step)
		}
		if m.Epochs() != 2 {
			t.Errorf("%s: %d epochs; want 2", gpuType, m.Epochs())
		}
	}
}

// The artifact's tables: every type of every model can be read and evaluated.
func TestSiaArtifact(t *testing.T) {
	tables := siaTables(t)
	if diff := cmp.Diff([]string{"aws", "azure", "dgx", "dgx-ext", "quad", "rtx"}, tables.Types()); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	for _, name := range tables.Models() {
		for _, gpuType := range tables.Types() {
			m, ok := tables.On(name, gpuType)
			if want := name != "gpt_pmp" || gpuType == "rtx" || gpuType == "dgx-ext"; ok != want {
				t.Errorf("%s on %s: a table: %v; want %v", name, gpuType, ok, want)
			}
			if !ok {
				continue
			}
			node := map[string]int{"aws": 4, "quad": 4}[gpuType]
			if node == 0 {
				node = 8
			}
			for n := m.Unit(); n <= node; n += m.Unit() {
				if step, sync, err := m.Step([]int{n}, m.Limits().LocalMin); err != nil || !(step > 0) || sync > step {
					t.Errorf("%s on %d of %s: step %v, sync %v, %v", name, n, gpuType, step, sync, err)
				}
			}
		}
	}
}

func FuzzReadTypes(f *testing.F) {
	fsys := typed()
	p, s, v := fsys["toy/placements-new-8.csv"].Data, fsys["toy/scalability-new-8.csv"].Data, fsys["toy/validation-100.csv"].Data
	f.Add(p, s, v, false)
	g := gpt()
	f.Add(g["gpt_pmp/placements-short.csv"].Data, g["gpt_pmp/scalability-short.csv"].Data, g["gpt_pmp/validation-12.csv"].Data, true)
	f.Add([]byte("local_bsz,step_time,sync_time,placement\n87381,1e9,1e9,99999999\n1,1e-300,0,8\n"), s, v, true)
	f.Fuzz(func(t *testing.T, p, s, v []byte, pipeline bool) {
		name := "m"
		if pipeline {
			name = "gpt_pmp"
		}
		tables, err := Read(fstest.MapFS{
			name + "/placements-x.csv":    {Data: p},
			name + "/scalability-x.csv":   {Data: s},
			name + "/validation-1000.csv": {Data: v},
		})
		if err != nil {
			return
		}
		m, _ := tables.On(name, "x")
		l := m.Limits()
		if err := l.Validate(); err != nil {
			t.Errorf("limits of an accepted profile: %v", err)
		}
		for _, counts := range [][]int{{1}, {8}, {2, 6}, {8, 8, 8, 8}} {
			step, sync, err := m.Step(counts, min(l.LocalMin, m.MaxLocal(counts)))
			if err == nil && (!(step > 0) || !(sync >= 0) || sync > step*(1+1e-9)) {
				t.Errorf("%v: step %v, sync %v", counts, step, sync)
			}
		}
	})
}
