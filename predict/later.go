// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
)

// The splits of Later.
const (
	LaterAll   = "later"
	LaterKnown = "later, of known families" // of which other models were measured earlier
	LaterNew   = "later, of new families"
)

// Later predicts the models that were first measured in sessions from since on, from
// earlier measurements: a test of a method that was chosen without them. Where a
// method needs the speed of the host, it comes from the other models that were
// measured around the same time.
func Later(samples []Sample, gpu, since string) ([]Split, error) {
	var before, after []Sample
	models, families := map[string]bool{}, map[string]bool{}
	for _, s := range samples {
		if s.Session < since {
			before = append(before, s)
			models[s.Model], families[s.Family] = true, true
		}
	}
	for _, s := range samples {
		if s.Session >= since && !models[s.Model] {
			after = append(after, s)
		}
	}
	if len(after) == 0 {
		return nil, fmt.Errorf("evaluate: no model was first measured in a session from %q on", since)
	}
	m, err := Train(before, gpu)
	if err != nil {
		return nil, err
	}
	others, err := fitBaselines(m, before)
	if err != nil {
		return nil, err
	}
	parts := map[string][]Test{}
	for i := range after {
		s := &after[i]
		t := m.test(*s, m.estimateOn(s.x, m.hostOfOthers(s, after)), others)
		m.fillInterval(&t)
		kind := LaterNew
		if families[s.Family] {
			kind = LaterKnown
		}
		parts[LaterAll], parts[kind] = append(parts[LaterAll], t), append(parts[kind], t)
	}
	var splits []Split
	for _, kind := range []string{LaterAll, LaterKnown, LaterNew} {
		if len(parts[kind]) > 0 {
			splits = append(splits, splitOf(kind, parts[kind]))
		}
	}
	return splits, nil
}

// hostOfOthers is the slowness of a sample's host relative to the mean host, from the
// other models of its stretch.
func (m *Model) hostOfOthers(s *Sample, all []Sample) float64 {
	var others []Sample
	for _, o := range all {
		if o.Host == s.Host && o.Model != s.Model {
			others = append(others, o)
		}
	}
	return m.HostOf(others).Factor
}

// HostPace is the speed of a host, from steps that waited for it.
type HostPace struct {
	Factor float64 // its time relative to the mean host; near 1 if there are few steps
	Steps  int     // that waited for the host
	Spread float64 // standard deviation of the logarithm of a single step's factor
}

// HostOf returns the pace of the host that samples were measured on.
func (m *Model) HostOf(samples []Sample) HostPace {
	var logs []float64
	total, square := 0.0, 0.0
	for i := range samples {
		if s := &samples[i]; s.Util < hostBound {
			logs = append(logs, math.Log(s.StepMS/m.Host.of(s.x.Host)))
			total += logs[len(logs)-1]
		}
	}
	n := float64(len(logs))
	for _, l := range logs {
		square += (l - total/n) * (l - total/n)
	}
	// As in the fit, a factor of 1 counts as one more step.
	return HostPace{math.Exp(total / (n + partWeight*partWeight)), len(logs), math.Sqrt(square / max(n-1, 1))}
}
