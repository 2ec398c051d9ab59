// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestScenarios plays testdata. Commands:
//
//	scaler rule=R min=N max=N [window=N]    a new scaler, other constants by default
//	cluster nodes=N gpus=N up=N             a new cluster; the first nodes are up
//	job ID gpus=N [min=N max=N] [on=(N,..) of=N] [model=M noise=X most=N] [sizes=(N,..)]
//	                                        a job, on that many GPUs of each of its nodes
//	look nodes=N [times=N]                  what the scaler wants at each of many looks
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

type scenario struct {
	scaler *Scaler
	world  *world
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	number := func(key string) (n int) {
		d.MaybeScanArgs(t, key, &n)
		return n
	}
	switch d.Cmd {
	case "scaler":
		c := Default(number("min"), number("max"))
		var rule string
		d.ScanArgs(t, "rule", &rule)
		c.Rule = Rule(rule)
		d.MaybeScanArgs(t, "window", &c.Window)
		var err error
		if s.scaler, err = New(c); err != nil {
			return err.Error()
		}
	case "cluster":
		var err error
		if s.world, err = newWorld(number("nodes"), number("gpus"), number("up")); err != nil {
			t.Fatal(err)
		}
	case "job":
		s.job(t, d, number)
	case "look":
		var wants []int
		for range max(1, number("times")) {
			wants = append(wants, s.scaler.Desired(s.world.snapshot(), number("nodes")))
		}
		return fmt.Sprintf("utility %.3f, wants nodes %d", UtilityOf(s.world.snapshot()), wants)
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	return ""
}

func (s *scenario) job(t *testing.T, d *datadriven.TestData, number func(string) int) {
	spec := sched.Spec{
		ID:   sched.JobID(d.CmdArgs[0].Key),
		GPUs: number("gpus"), MinGPUs: number("min"), MaxGPUs: number("max"),
	}
	d.MaybeScanArgs(t, "sizes", &spec.Sizes)
	var on []int
	d.MaybeScanArgs(t, "on", &on)
	var perf *goodput.Report
	var model string
	if d.MaybeScanArgs(t, "model", &model) {
		r := map[string]goodput.Report{"imagenet": imagenet, "cifar10": cifar10}[model]
		r.Noise, r.MostGPUs = float64(number("noise")), number("most")
		if r.Noise == 0 {
			r.Noise = math.Inf(1)
		}
		perf = &r
	}
	if err := s.world.add(spec, perf, number("of"), on...); err != nil {
		t.Fatal(err)
	}
}
