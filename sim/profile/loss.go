// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

// Loss returns the loss at the end of an epoch (from 0) at a total batch size, as a
// part of that before training, interpolated like Grad.
//
// The tables have a validation metric. One that falls (a loss, an error rate) is taken
// relative to the highest first epoch of all runs. One that rises (an accuracy, a hit
// rate, a score out of 100) is taken as what is missing to 1 or to 100.
func (m *Model) Loss(batch, epoch int) (float64, error) {
	a, b, w, err := m.between(batch, epoch)
	if err != nil {
		return 0, err
	}
	metric := a.metric + w*(b.metric-a.metric)
	first, rises, most := 0.0, 0, 1.0
	for _, r := range m.runs {
		start, end := r.epochs[0].metric, r.epochs[m.Epochs()-1].metric
		first = max(first, start)
		if end > start {
			rises++
		}
		if max(start, end) > 1 {
			most = 100
		}
	}
	const least = 1e-6 // no training ends without any loss
	if 2*rises > len(m.runs) {
		return max(least, (most-metric)/most), nil
	}
	if first <= 0 {
		return 1, nil
	}
	return max(least, metric/first), nil
}
