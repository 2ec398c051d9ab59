// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// The workload of the Horus paper (TPDS'22), a month of a cluster with low GPU
// utilisation, was not published. This one has its shape: jobs of 1 to 8 GPUs, most
// of them of one, utilisation in a few regimes, heavy-tailed run times, and more work
// than the cluster can do at once.
//
// The load of a job on a GPU is measured: a model and a batch size of horusProfiles.
// In that table, utilisation above lightUtil is rare between the smallest useful
// batches and those that fill the GPU, so a mix is described by the share of light
// jobs. Run times are those of Philly.

const (
	horusLoad  = 1.3
	horusLight = 0.8
	// lightUtil divides the profiles into light and heavy ones.
	lightUtil = 0.6
)

// horusSizes are our choice after the paper's "1 to 8 GPUs, mostly 1".
var horusSizes = [...]struct {
	gpus  int
	share float64
}{{1, 0.72}, {2, 0.12}, {4, 0.10}, {8, 0.06}}

// horus draws jobs that may share GPUs, with prediction errors.
func (g *Gen) horus(wl *sim.Workload) {
	rnd := g.stream(jobStream)
	light := g.Light
	if light == 0 {
		light = horusLight
	}
	byLoad := [2][]horusProfile{}
	for _, p := range horusProfiles {
		class := 0
		if p.util >= lightUtil {
			class = 1
		}
		byLoad[class] = append(byLoad[class], p)
	}
	wl.Work = make([]sim.Work, g.Jobs)
	var used float64
	for i := range wl.Work {
		class := byLoad[0]
		if rnd.Float64() >= light {
			class = byLoad[1]
		}
		wl.Work[i] = g.horusJob(rnd, class[rnd.IntN(len(class))])
		used += gpuSeconds(&wl.Work[i])
	}
	span := g.spanFor(used, horusLoad)
	hourly := newRate(span, time.Hour, func(at time.Duration) float64 { return phillyHours[int(at/time.Hour)%24] })
	arrivals := g.stream(arrivalStream)
	for i := range wl.Work {
		wl.Work[i].Submitted = Epoch.Add(hourly.at(arrivals.Float64(), span).Truncate(time.Second))
	}
	number(wl, KindHorus)
}

// horusJob draws a job that trains a profiled model.
func (g *Gen) horusJob(rnd *rand.Rand, p horusProfile) sim.Work {
	w := sim.Work{TrueUtil: p.util, BatchSize: p.batch}
	w.GPUs = g.horusGPUs(rnd.Float64())
	w.BatchSize *= w.GPUs
	w.RunTime = g.cap(phillyRuns[runIndex(w.GPUs)].quantiles().at(rnd.Float64()))
	w.Model, w.Shareable, w.GPUMemory = p.model, true, p.mib<<20
	w.GPUUtil = predicted(p.util, g.Error*rnd.NormFloat64())
	w.Work = w.RunTime.D().Seconds()
	return w
}

// predicted returns a utilisation with an error of ln(1 + percent), the quantity of
// the predictor's RMSLE.
func predicted(util, off float64) float64 {
	percent := (1+100*util)*math.Exp(off) - 1
	return math.Round(10*min(max(percent, 1), 100)) / 1000
}

func (g *Gen) horusGPUs(u float64) int {
	for _, s := range horusSizes {
		if u -= s.share; u < 0 {
			return min(s.gpus, g.MaxGPUs)
		}
	}
	return min(horusSizes[len(horusSizes)-1].gpus, g.MaxGPUs)
}

// HorusCluster returns the cluster of the Horus simulations: 4 racks of 32 nodes with
// 8 GPUs, 128 cores and 512 GB. GPUs have 32 GB as in the paper, although the
// profiles are from an H200 with 141 GB: with less memory, memory also limits which
// jobs can share.
func HorusCluster() (*sched.Cluster, error) { return sched.NewCluster(horusNodes()) }

func horusNodes() []sched.Node {
	nodes := make([]sched.Node, 4*32)
	for i := range nodes {
		nodes[i] = sched.Node{
			Name: "n" + strconv.Itoa(i), Rack: "r" + strconv.Itoa(i/32), GPUs: 8, Type: "h200",
			GPUMemory: 32 << 30, CPUs: 128, Memory: 512 << 30,
		}
	}
	return nodes
}
