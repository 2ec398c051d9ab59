// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/lab/repro"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim/autoscale"
)

// Scaling by goodput with the default band is cheaper than by throughput and
// takes little longer: on ImageNet, as in the paper, and on other models of the zoo.
func TestGoodputScalingIsCheaper(t *testing.T) {
	d := autoscale.Default(1, 16)
	own := repro.Band{U: d.U, L: d.L}
	runs, err := repro.Autoscale(nil, []repro.Band{repro.Bands()[0], own})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range runs.Alone {
		mean, _, _ := s.Mean(s.With(own))
		if mean.Cost > 0.85 || mean.Time > 1.10 {
			t.Errorf("%s: %.2f of the cost and %.2f of the time by throughput; want at most 0.85 and 1.10", s.Model, mean.Cost, mean.Time)
		}
	}
	if got := runs.Choice(); got != own {
		t.Errorf("of the paper's band and the default, %s is chosen; want %s", got, own)
	}
	for _, s := range runs.Shared[1:] {
		if cost, base := num.Mean(s.Cost), num.Mean(runs.Shared[0].Cost); cost >= base {
			t.Errorf("many jobs, rule %s: cost %.0f; want less than the %.0f of 16 nodes", s.Rule, cost, base)
		}
	}
	var out bytes.Buffer
	runs.Print(&out, "images")
	for _, want := range []string{"| -25 %, +6 % |", "our default**", "(images/autoscale.svg)", "(paper) |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := runs.Chart().Write(&out); err != nil || !strings.Contains(out.String(), "the paper") || strings.Contains(out.String(), "NaN") {
		t.Errorf("chart: error %v\n%s", err, out.String())
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
	for _, c := range []repro.Chart{
		{},
		{LogX: true},
		{LogX: true, Lines: []repro.Line{{Name: "of one x", Points: [][2]float64{{300, 2}, {300, 3}}}}},
	} {
		out.Reset()
		if err := c.Write(&out); err != nil || strings.Contains(out.String(), "NaN") {
			t.Errorf("%+v: error %v\n%s", c, err, out.String())
		}
	}
}
