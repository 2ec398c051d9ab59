// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// The jobs of Shockwave's traces change their batch size by Accordion or GNS. The
// artifact says at which epochs they do, and how fast each model is at each batch size
// on V100s (uw-mad-dash/shockwave, MIT licence: scheduler/utils.py and
// tacc_throughputs.json, rounded). The trace's duration is that of the submitted batch
// size; the speeds say how much shorter an epoch is at the others.

// adaptive is how a model trains at several batch sizes.
type adaptive struct {
	examples int   // of an epoch
	batches  []int // of one GPU
	// speeds are steps per second on 1, 2, 4 and 8 GPUs, by batch size.
	speeds [4][]float64
	// doubles are the epochs at which GNS doubles the batch size, on 1, 2, 4 and 8
	// GPUs, by the submitted batch size.
	doubles [4][][]int
}

var adaptives = map[string]adaptive{
	"ResNet-18": {
		examples: 50000, batches: []int{16, 32, 64, 128, 256},
		speeds: [4][]float64{
			{57.68, 42.97, 21.43, 11.78, 6.32},
			{84.83, 66.71, 37.35, 21.78, 12.11},
			{151.4, 130.1, 72.91, 43.01, 23.53},
			{194.5, 184.9, 135, 80.25, 44.49},
		},
		doubles: [4][][]int{
			{{31, 41, 51, 71}, {21, 31, 51}, {11, 31}, {11}, {}},
			{{21, 31, 91, 111}, {11, 21, 41}, {21, 41}, {41}, {}},
			{{11, 21, 81, 91}, {21, 31, 61}, {11, 61}, {11}, {}},
		},
	},
	"ResNet-50": {
		examples: 100000, batches: []int{16, 32, 64, 128},
		speeds: [4][]float64{
			{10.6, 5.899, 3.108, 1.598},
			{13.02, 6.969, 5.939, 3.079},
			{36.88, 21.56, 11.64, 6.09},
			{69.47, 42.16, 22.95, 11.68},
		},
		doubles: [4][][]int{
			{{}, {}, {101}, {}},
			{{}, {101, 111}, {81}, {}},
			{{}, {131, 221}, {191}, {}},
		},
	},
	"LM": {
		examples: 59675, batches: []int{5, 10, 20, 40, 80},
		speeds: [4][]float64{
			{133.8, 94.91, 68.05, 46.82, 21.71},
			{125.6, 109.8, 90.37, 66.98, 36.34},
			{198.9, 175, 146.9, 114.9, 68.13},
			{199.3, 188.9, 171.3, 150.3, 103.4},
		},
		doubles: [4][][]int{
			{{31, 41, 61, 71}, {11, 21, 41}, {11, 41}, {11}, {}},
			{{31, 51, 61, 71}, {11, 31, 41}, {31, 41}, {11}, {}},
			{{11, 31, 71, 91}, {11, 31, 61}, {11, 61}, {61}, {}},
		},
	},
	"Recommendation": {
		examples: 117907, batches: []int{512, 1024, 2048, 4096, 8192},
		speeds: [4][]float64{
			{169.3, 107.3, 59.26, 25.07, 11.63},
		},
		doubles: [4][][]int{
			{{21, 41, 71, 91}, {21, 51, 91}, {21, 41}, {41}, {}},
		},
	},
}

// training is a row of a trace.
type training struct {
	model string
	batch int // of one GPU
	steps float64
	mode  string // the rule that changes the batch size
}

// adapt lets the batch size of a job change by the rule of its mode, if that is known
// for its model and size. The run time until then is that at the submitted batch size.
func adapt(w *sim.Work, t training) {
	m := adaptives[t.model]
	first, size := slices.Index(m.batches, t.batch), bits.TrailingZeros(uint(w.GPUs))
	if first < 0 || bits.OnesCount(uint(w.GPUs)) != 1 || size >= len(m.speeds) || m.speeds[size] == nil {
		return
	}
	epochs := int(min(maxCount, math.Ceil(t.steps/math.Ceil(float64(m.examples)/float64(t.batch)))))
	each := w.RunTime.D().Seconds() / float64(max(1, epochs))
	var out []sim.Regime
	for epoch := range epochs {
		k := first
		switch {
		case t.mode == "accordion" && 10*epoch > 3*epochs && !critical(t, epoch):
			k = len(m.batches) - 1
		case t.mode == "gns" && m.doubles[size] != nil:
			k += doubled(m.doubles[size][first], epoch)
		}
		if n := len(out); n == 0 || out[n-1].Batch != m.batches[k]*w.GPUs {
			out = append(out, sim.Regime{Batch: m.batches[k] * w.GPUs})
		}
		speedup := float64(m.batches[k]) * m.speeds[size][k] / (float64(t.batch) * m.speeds[size][first])
		last := &out[len(out)-1]
		last.Epochs++
		last.Time += sched.Duration(each / speedup * float64(time.Second))
	}
	if len(out) < 2 {
		return
	}
	w.Regimes, w.RunTime, w.Work = out, 0, float64(epochs)
	for i := range out {
		out[i].Time = max(sched.Duration(out[i].Time.D().Round(time.Millisecond)), sched.Duration(time.Millisecond))
		w.RunTime += out[i].Time
	}
}

// doubled returns how often the batch size has been doubled by an epoch.
func doubled(at []int, epoch int) int {
	n := 0
	for n < len(at) && epoch >= at[n] {
		n++
	}
	return n
}

// critical reports whether Accordion keeps the submitted batch size in an epoch, because
// gradients change fast there.
func critical(t training, epoch int) bool {
	within := func(from, to int) bool { return epoch >= from && epoch < to }
	switch t.model {
	case "ResNet-18":
		head := 10
		if t.batch == 256 {
			head = 20
		}
		return within(0, head) || within(150, 160) || within(250, 260)
	case "ResNet-50":
		return epoch < 600 && epoch%30 < 10
	case "LM":
		return within(0, 10)
	}
	head := 10
	switch t.batch {
	case 512, 1024:
		head = 30
	case 2048:
		head = 40
	}
	return within(0, head) || within(60, 70) || within(80, 90)
}
