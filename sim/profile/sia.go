// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"io/fs"
	"time"
)

// siaQuirk is a property of a model that is in the code of the Sia artifact's
// simulator and not in its tables.
type siaQuirk struct {
	slowdown float64       // training is slower than the tables say, fitted to real runs
	restart  time.Duration // a start takes this long
	assumed  time.Duration // the policy plans with this; 0: with restart
	micro    int           // micro-batches of a pipeline in each step; 0: no pipeline
}

// siaQuirks are those of the artifact's models.
var siaQuirks = map[string]siaQuirk{
	"bert":        {slowdown: 1.2, restart: 120 * time.Second},
	"cifar10":     {slowdown: 1.8, restart: 50 * time.Second, assumed: 30 * time.Second},
	"deepspeech2": {slowdown: 1.2, restart: 25 * time.Second},
	"gpt_pmp":     {slowdown: 1, restart: 30 * time.Second, micro: 48},
	"imagenet":    {slowdown: 1.2, restart: 250 * time.Second},
	"ncf":         {slowdown: 1.5, restart: 15 * time.Second, assumed: 30 * time.Second},
	"yolov3":      {slowdown: 1.2, restart: 80 * time.Second, assumed: 45 * time.Second},
}

// Slowdown returns how many times slower the Sia artifact's simulator lets the model
// train than its tables say.
func (m *Model) Slowdown() float64 {
	if q, ok := siaQuirks[m.name]; ok {
		return q.slowdown
	}
	return 1
}

// Restart returns how long a start of the model takes in the Sia artifact's simulator,
// and how long its policy assumes.
func (m *Model) Restart() (takes, assumed time.Duration) {
	q, ok := siaQuirks[m.name]
	switch {
	case !ok:
		return 30 * time.Second, 30 * time.Second
	case q.assumed == 0:
		return q.restart, q.restart
	}
	return q.restart, q.assumed
}

// micro returns the micro-batches of a pipeline in each step; 0: the model is not
// trained in pipelines.
func (m *Model) micro() int { return siaQuirks[m.name].micro }

// Unit returns the number of GPUs of one replica: above 1 if the model is spread over
// a pipeline of GPUs.
func (m *Model) Unit() int { return max(1, m.unit) }

// readUnit finds the length of a model's pipelines: the largest number that divides
// the GPUs of every measured placement.
func (m *Model) readUnit(fsys fs.FS, file string) error {
	return readRows(fsys, file, []string{"placement"}, func(t *table) error {
		if p, ok := parsePlacement(t.text(0)); ok {
			m.unit = gcd(m.unit, p.gpus())
		}
		return nil
	})
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// pipelined returns the times of a step of a pipeline. Its tables have the forward
// time of one micro-batch in one stage, and the exchange between pipelines. A backward
// pass takes twice as long; the stages fill and drain once in a step.
func (m *Model) pipelined(stage times) times {
	passes := 3 * float64(m.unit-1+m.micro())
	return times{step: passes*stage.step + stage.sync, sync: stage.sync}
}

// MaxLocal returns the largest local batch that was measured on a placement; on one
// that was not measured, the largest on as many nodes and GPUs or more.
func (m *Model) MaxLocal(counts []int) int {
	var p placement
	nodes, gpus := 0, 0
	for _, k := range counts {
		if k > 0 && nodes < maxDigits && k <= 9 {
			p[nodes] = uint8(k)
		}
		if k > 0 {
			nodes, gpus = nodes+1, gpus+k
		}
	}
	if samples, ok := m.measured[p.canonical()]; ok && nodes <= maxDigits {
		return samples[len(samples)-1].local
	}
	most := 0
	for _, q := range m.scaled {
		if q[0] >= int64(nodes) && q[1] >= int64(gpus) {
			most = max(most, int(q[2]))
		}
	}
	if most == 0 {
		return m.Limits().LocalMax
	}
	return most
}
