// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/repro"
)

// Scaling by goodput is cheaper than by throughput, and slower: the paper's
// direction.
func TestGoodputScalingIsCheaper(t *testing.T) {
	runs, err := repro.Autoscale()
	if err != nil {
		t.Fatal(err)
	}
	throughput, goodput := runs[0], runs[1]
	if goodput.Autoscale.Cost >= throughput.Autoscale.Cost {
		t.Errorf("cost %.0f by goodput, %.0f by throughput; want less", goodput.Autoscale.Cost, throughput.Autoscale.Cost)
	}
	if goodput.AvgJCT <= throughput.AvgJCT {
		t.Errorf("%.0f s by goodput, %.0f s by throughput; a smaller cluster should take longer", goodput.AvgJCT, throughput.AvgJCT)
	}
	var out bytes.Buffer
	repro.PrintAutoscale(&out, runs)
	if !strings.Contains(out.String(), "| goodput |") {
		t.Errorf("the report lacks the goodput rule:\n%s", out.String())
	}
}

func TestCharts(t *testing.T) {
	var out bytes.Buffer
	c := repro.Chart{Title: "a <b>", X: "x", Y: "y", Lines: []repro.Line{{Name: "l&m", Points: [][2]float64{{1, 2}, {4, 3}}}}, LogX: true}
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a &lt;b&gt;", "l&amp;m", "<polyline", "</svg>"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "NaN") {
		t.Error("the chart has NaN in it")
	}
	out.Reset()
	if err := (repro.Chart{}).Write(&out); err != nil || strings.Contains(out.String(), "NaN") {
		t.Errorf("an empty chart: error %v\n%s", err, out.String())
	}
}
