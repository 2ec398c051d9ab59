// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"math"
	"sort"
)

// LossPoint is the loss at one point of training, relative to that of its first step.
type LossPoint struct {
	At   float64 `json:"at"` // share of the iterations done, 0 to 1
	Loss float64 `json:"loss"`
}

// commonLoss is for models without a curve of their own: the geometric mean of the
// curves of bert, cifar10, deepspeech2, imagenet, ncf and yolov3.
var commonLoss = []LossPoint{
	{0.01, 0.86}, {0.02, 0.77}, {0.05, 0.6}, {0.1, 0.45}, {0.2, 0.35},
	{0.3, 0.3}, {0.5, 0.22}, {0.7, 0.2}, {1, 0.19},
}

// LossAt returns the loss after a share of the iterations, relative to that of the
// first step, which is 1: the points of Loss joined by straight lines over its
// logarithm.
func (m *Model) LossAt(frac float64) float64 {
	points := m.Loss
	if len(points) == 0 {
		points = commonLoss
	}
	i := sort.Search(len(points), func(i int) bool { return points[i].At > frac })
	if i == len(points) {
		return points[i-1].Loss
	}
	before := LossPoint{Loss: 1}
	if i > 0 {
		before = points[i-1]
	}
	w := (frac - before.At) / (points[i].At - before.At)
	return math.Exp((1-w)*math.Log(before.Loss) + w*math.Log(points[i].Loss))
}
