// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/num"
)

// Hyper-parameters of the fit. They were chosen by cross-validation over models on
// the H200's measurements; results change little around them.
const (
	busyWeight  = 0.3 // of the prior, see sumFit
	hostWeight  = 0.3
	hostBound   = 88 // percent; below it the host determines the step
	busyBound   = 97 // percent; from there on the GPU does
	fewSamples  = 50 // below it, a linear model
	innerFolds  = 5  // for the residuals that trees learn
	outerFolds  = 10 // for intervals
	linearRidge = 0.02
	memoryRidge = 0.5
	memoryLift  = 0.05
	coverage    = 0.9
)

func residualTrees() treeConfig {
	return treeConfig{Trees: 100, Depth: 3, MinLeaf: 6, Shrink: 0.06, Subsample: 0.7, Seed: 1, Forests: 4}
}

func memoryTrees() treeConfig {
	return treeConfig{Trees: 200, Depth: 3, MinLeaf: 6, Shrink: 0.03, Subsample: 0.5, Seed: 1}
}

// bandEdges are the bounds of predictions with separate intervals: predictions near
// 100 percent are nearly always right.
func bandEdges() []float64 { return []float64{60, busyBound, 100} }

// Train makes the model of a GPU type. The same samples in the same order
// give the same model.
func Train(samples []Sample, gpu string) (*Model, error) {
	if len(samples) < 10 {
		return nil, fmt.Errorf("train: %d measured steps; want at least 10", len(samples))
	}
	device, err := deviceOf(gpu)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	m, err := fit(samples)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	m.GPU, m.device = device.Name, device
	tests, err := crossValidate(samples, byModel)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	m.setIntervals(tests)
	return m, nil
}

// fit returns a model without intervals.
func fit(samples []Sample) (*Model, error) {
	m, err := fitSums(samples)
	if err != nil {
		return nil, err
	}
	m.Rows, m.Models = len(samples), countModels(samples)
	if len(samples) < fewSamples {
		m.Method = byLinear
		m.Linear, err = m.fitLinear(samples)
	} else {
		m.Method = byTrees
		m.Residual, m.After, err = fitResiduals(samples)
	}
	if err != nil {
		return nil, err
	}
	var rows []memoryRow
	for _, s := range samples {
		rows = append(rows, memoryRow{s.x, s.MemMiB, s.ReservedMiB})
	}
	if m.Memory, err = fitMemory(rows, memoryLift); err != nil {
		return nil, err
	}
	m.Space = m.spaceOf(samples)
	return m, nil
}

func countModels(samples []Sample) int {
	seen := map[string]bool{}
	for _, s := range samples {
		seen[s.Model] = true
	}
	return len(seen)
}

// fitSums fits the sum of kernel times to the busy time of every row, and that of
// host times to the steps of rows that the GPU does not bound. Hosts of machines with
// the same GPU differ in speed, and so does one host over time, so every stretch of a
// session has a factor.
func fitSums(samples []Sample) (*Model, error) {
	m := &Model{Version: Version}
	busy := sumFit{prior: priors(busyColumns()), weight: busyWeight}
	host := sumFit{prior: priors(hostColumns()), weight: hostWeight}
	var hosts []string
	for _, s := range samples {
		busy.x = append(busy.x, s.x.Busy)
		busy.y = append(busy.y, max(s.Util, 0.5)/100*s.StepMS)
		if s.Util < hostBound {
			host.x = append(host.x, s.x.Host)
			host.y = append(host.y, s.StepMS)
			if !slices.Contains(hosts, s.Host) {
				hosts = append(hosts, s.Host)
			}
			host.part = append(host.part, slices.Index(hosts, s.Host))
		}
	}
	host.parts = len(hosts)
	var err1, err2 error
	var factors []float64
	m.Busy, _, err1 = busy.sum(names(busyColumns()))
	m.Host, factors, err2 = host.sum(names(hostColumns()))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	// Host is for the mean of the measured hosts.
	mean := 0.0
	for _, k := range host.part {
		mean += math.Log(factors[k]) / float64(len(host.part))
	}
	for j := range m.Host.Values {
		m.Host.Values[j] = rounded(m.Host.Values[j] * math.Exp(mean))
	}
	m.Hosts = map[string]float64{}
	for i, f := range factors {
		m.Hosts[hosts[i]] = rounded(f / math.Exp(mean))
	}
	return m, nil
}

func priors(columns []column) []float64 {
	var list []float64
	for _, c := range columns {
		list = append(list, c.prior)
	}
	return list
}

func (f sumFit) sum(columns []string) (sum, []float64, error) {
	values, factors, err := f.run()
	for j := range values {
		values[j] = rounded(values[j])
	}
	return sum{columns, values}, factors, err
}

// fitLinear is the fallback for few samples.
func (m *Model) fitLinear(samples []Sample) (*ridge, error) {
	var x [][]float64
	var y []float64
	for _, s := range samples {
		x = append(x, linearInputs(s.x, m.estimateFor(&s)))
		y = append(y, ln1(s.Util))
	}
	return fitRidge(x, y, linearRidge)
}

// fitResiduals fits trees to the error of the physical estimate on models that it was
// not fitted to: of the estimate for the host of each sample, and of the one for an
// unknown host that the measured step has corrected.
func fitResiduals(samples []Sample) (known, after *forest, err error) {
	n := len(samples)
	x, y := [2][][]float64{make([][]float64, n), make([][]float64, n)}, [2][]float64{make([]float64, n), make([]float64, n)}
	for _, fold := range foldsOf(samples, byModel, innerFolds) {
		m, err := fitSums(fold.rest(samples))
		if err != nil {
			return nil, nil, err
		}
		for _, i := range fold {
			s := &samples[i]
			p, guess := m.estimateFor(s), m.estimate(s.x)
			q := guess.during(s.StepMS)
			x[0][i], x[1][i] = m.treeInputs(s.x, p), m.afterInputs(s.x, guess, q)
			y[0][i], y[1][i] = ln1(s.Util)-ln1(p.Util), ln1(s.Util)-ln1(q.Util)
		}
	}
	var trees [2]*forest
	for k := range trees {
		trees[k] = growForest(x[k], y[k], residualTrees())
		trees[k].Base = rounded(trees[k].Base)
	}
	return trees[0], trees[1], nil
}

// spaceOf returns the region of the samples.
func (m *Model) spaceOf(samples []Sample) space {
	var s space
	for i := range samples {
		point := m.treeInputs(samples[i].x, m.estimateFor(&samples[i]))
		for j := range point {
			point[j] = rounded(point[j])
		}
		s.Points = append(s.Points, point)
	}
	for j := range s.Points[0] {
		mean, square := 0.0, 0.0
		for _, p := range s.Points {
			mean += p[j] / float64(len(s.Points))
		}
		for _, p := range s.Points {
			square += (p[j] - mean) * (p[j] - mean) / float64(len(s.Points))
		}
		s.Scale = append(s.Scale, rounded(max(math.Sqrt(square), 1e-3)))
	}
	var gaps []float64
	for i, p := range s.Points {
		least := math.Inf(1)
		for k, q := range s.Points {
			if samples[i].Model != samples[k].Model {
				least = min(least, s.between(p, q))
			}
		}
		if !math.IsInf(least, 1) {
			gaps = append(gaps, least)
		}
	}
	s.Typical = rounded(max(num.Quantile(gaps, coverage), 1e-3))
	return s
}

// fold has the indexes of the samples of one part.
type fold []int

// rest returns the samples that are not in the fold.
func (f fold) rest(samples []Sample) []Sample {
	var list []Sample
	for i, s := range samples {
		if !slices.Contains(f, i) {
			list = append(list, s)
		}
	}
	return list
}

// byModel and byFamily name the groups that must stay together.
func byModel(s *Sample) string  { return s.Model }
func byFamily(s *Sample) string { return s.Family }

// foldsOf divides samples into at most n parts, with samples of the same name in the
// same part.
func foldsOf(samples []Sample, name func(*Sample) string, n int) []fold {
	groups := map[string][]int{}
	var order []string
	for i := range samples {
		k := name(&samples[i])
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], i)
	}
	slices.Sort(order)
	folds := make([]fold, min(n, len(order)))
	for i, k := range order {
		folds[i%len(folds)] = append(folds[i%len(folds)], groups[k]...)
	}
	for _, f := range folds {
		slices.Sort(f)
	}
	return folds
}
