// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// artifact returns the folder with the tables of the Pollux artifact, where
// they are present.
func artifact(t *testing.T) string {
	t.Helper()
	folder := cmp.Or(os.Getenv("FAIRWAY_TEST_DATA"), "../../../shared/data")
	folder = filepath.Join(folder, "pollux")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the tables of the Pollux artifact are not here; FAIRWAY_TEST_DATA names the folder that holds them")
	}
	return folder
}

func TestArtifactModels(t *testing.T) {
	tables, err := Read(os.DirFS(filepath.Join(artifact(t), "traces")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		limits   goodput.Limits
		epochs   int
		progress float64
	}{
		"bert":        {goodput.Limits{Initial: 12, Max: 384, LocalMin: 4, LocalMax: 12}, 2, 14774},
		"cifar10":     {goodput.Limits{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 1024}, 100, 39062.9},
		"ncf":         {goodput.Limits{Initial: 256, Max: 32768, LocalMin: 32, LocalMax: 32768}, 10, 194174},
		"imagenet":    {goodput.Limits{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200}, 90, 576525.6},
		"deepspeech2": {goodput.Limits{Initial: 20, Max: 640, LocalMin: 10, LocalMax: 80}, 80, 28536},
		"yolov3":      {goodput.Limits{Initial: 8, Max: 512, LocalMin: 4, LocalMax: 8}, 50, 103444},
	} {
		m, ok := tables.On(name, "")
		if !ok {
			t.Errorf("no model %s", name)
			continue
		}
		if got := m.Limits(); got != want.limits {
			t.Errorf("%s: limits %+v, want %+v", name, got, want.limits)
		}
		if got := m.Epochs(); got != want.epochs {
			t.Errorf("%s: %d epochs, want %d", name, got, want.epochs)
		}
		if got := m.Progress(m.Epochs()); math.Abs(got-want.progress) > 0.05 {
			t.Errorf("%s: %v iterations in all, want %v", name, got, want.progress)
		}
	}
}

// packed are the shapes that jobs of 24 to 48 GPUs have on 16 nodes of 4 GPUs.
func packed(nodes, gpus int) bool {
	switch gpus {
	case 24:
		return nodes >= 6 && nodes <= 10
	case 32:
		return nodes >= 8 && nodes <= 12
	case 48:
		return nodes >= 12 && nodes <= 16
	}
	return false
}

// relativeErrors are in ascending order.
type relativeErrors []float64

func (e relativeErrors) quantile(q float64) float64 { return e[int(q*float64(len(e)-1))] }

func (e relativeErrors) mean() float64 {
	sum := 0.0
	for _, x := range e {
		sum += x
	}
	return sum / float64(len(e))
}

// The interpolation against the reference's, which has been evaluated on a
// grid of measured local batches: on average within 2 percent, and the same to
// the last digit given for four shapes of five. The others lie in cells whose
// triangulation is a matter of choice.
func TestArtifactInterpolation(t *testing.T) {
	folder := artifact(t)
	tables, err := Read(os.DirFS(filepath.Join(folder, "traces")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tables.Models() {
		m, _ := tables.On(name, "")
		var all, near relativeErrors
		same, outside := 0, 0
		columns := []string{"num_nodes", "num_replicas", "local_bsz", "step_time"}
		err := readRows(os.DirFS(filepath.Join(folder, "derived")), "pollux-interp-"+name+".csv", columns, func(row *table) error {
			var at [3]int
			for i := range at {
				n, err := row.count(i, maxLocal)
				if err != nil {
					return err
				}
				at[i] = n
			}
			want, err := row.seconds(3)
			if err != nil || at[0] < 5 {
				return err
			}
			counts := make([]int, at[0])
			for i := range at[1] {
				counts[i%at[0]]++
			}
			got, _, err := m.Step(counts, at[2])
			if err != nil {
				outside++
				return nil
			}
			e := math.Abs(got/want - 1)
			all = append(all, e)
			if packed(at[0], at[1]) {
				near = append(near, e)
			}
			if e < 1e-6 {
				same++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		slices.Sort(near)
		t.Logf("%-12s %4d shapes: %4.1f %% the same; mean error %.2f %%, p95 %.1f %%, max %.1f %%; packed jobs: mean %.2f %%, p95 %.1f %%, max %.1f %%",
			name, len(all), 100*float64(same)/float64(len(all)),
			100*all.mean(), 100*all.quantile(0.95), 100*all.quantile(1),
			100*near.mean(), 100*near.quantile(0.95), 100*near.quantile(1))
		if all.mean() > 0.02 || near.mean() > 0.02 {
			t.Errorf("%s: mean error %.2f %%, of packed jobs %.2f %%; want at most 2 %%", name, 100*all.mean(), 100*near.mean())
		}
		if float64(same) < 0.8*float64(len(all)) || outside > 0 {
			t.Errorf("%s: only %d of %d are the same, and %d lie outside", name, same, len(all), outside)
		}
	}
}
