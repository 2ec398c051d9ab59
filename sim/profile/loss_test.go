// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"testing"
	"testing/fstest"
)

// metrics returns a model whose training runs at batch sizes 8 and 16 have two epochs
// with these metrics.
func metrics(t *testing.T, small, large [2]string) *Model {
	t.Helper()
	run := func(m [2]string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("progress,iteration,metric,grad_sqr,grad_var\n100,100," + m[0] + ",1,1\n200,200," + m[1] + ",1,1\n")}
	}
	tables, err := Read(fstest.MapFS{
		"m/placements.csv":    {Data: []byte("placement,local_bsz,step_time,sync_time\n1,8,0.5,0.1\n")},
		"m/validation-8.csv":  run(small),
		"m/validation-16.csv": run(large),
	})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := tables.On("m", "")
	return m
}

func TestLoss(t *testing.T) {
	for _, tc := range []struct {
		name         string
		small, large [2]string
		batch, epoch int
		want         float64
	}{
		{"accuracy", [2]string{"0.5", "0.9"}, [2]string{"0.4", "0.8"}, 8, 1, 0.1},
		{"accuracy, between batch sizes", [2]string{"0.5", "0.9"}, [2]string{"0.4", "0.8"}, 12, 0, 0.55},
		{"score out of 100", [2]string{"80", "90"}, [2]string{"70", "88"}, 16, 1, 0.12},
		{"error, relative to the highest first epoch", [2]string{"24", "12"}, [2]string{"25", "10"}, 8, 1, 0.48},
		{"nothing left", [2]string{"0.5", "1"}, [2]string{"0.5", "1"}, 8, 1, 1e-6},
	} {
		got, err := metrics(t, tc.small, tc.large).Loss(tc.batch, tc.epoch)
		if err != nil || math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: loss %g, error %v; want %g", tc.name, got, err, tc.want)
		}
	}
	if _, err := metrics(t, [2]string{"1", "2"}, [2]string{"1", "2"}).Loss(64, 0); err == nil {
		t.Error("a batch size that was not measured has a loss; want an error")
	}
}
