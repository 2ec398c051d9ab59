// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import "math"

// physics is the physical estimate of a step, milliseconds and percent.
type physics struct {
	Busy, Host, Step, Util float64
}

// sharpness is how abruptly the longer of busy and host dominates: the step is their
// norm of this order.
const sharpness = 6

func physicsOf(busy, host float64) physics {
	longer := max(busy, host)
	step := longer * math.Pow(math.Pow(busy/longer, sharpness)+math.Pow(host/longer, sharpness), 1/float64(sharpness))
	return physics{busy, host, step, 100 * busy / step}
}

// hostDoubt is the usual error of the host's time over that of the kernels' time, as
// logarithms: hosts differ, GPUs of one type do not.
const hostDoubt = 1.5

// during corrects the estimate by the measured time of a step: by the most likely change
// of both times that gives this step.
func (p physics) during(step float64) physics {
	if !(step > 0) {
		return p
	}
	const parts = 1000
	best, least := p, math.Inf(1)
	for i := 1; i < parts; i++ {
		share := float64(i) / parts
		busy, host := step*share, step*math.Pow(1-math.Pow(share, sharpness), 1/float64(sharpness))
		b, h := math.Log(busy/p.Busy), math.Log(host/p.Host)/hostDoubt
		if cost := b*b + h*h; cost < least {
			best, least = physics{busy, host, step, 100 * share}, cost
		}
	}
	return best
}

// estimate applies the fitted sums to the mean host.
func (m *Model) estimate(v *vector) physics {
	if v.compiled && m.Recipe != nil && m.Recipe.Compiled != nil {
		return m.compiled(v)
	}
	return m.Recipe.apply(v, m.estimateOn(v, 1))
}

// estimateFor applies them to the host of a sample.
func (m *Model) estimateFor(s *Sample) physics {
	factor := m.Hosts[s.Host]
	if factor == 0 {
		factor = 1
	}
	return m.estimateOn(s.x, factor)
}

// estimateOn applies them to a host that is slower by a factor.
func (m *Model) estimateOn(v *vector, factor float64) physics {
	return physicsOf(max(m.Busy.of(v.Busy), 1e-6), max(factor*m.Host.of(v.Host), 1e-6))
}

// ln1 is the logarithm of a figure that may be zero.
func ln1(v float64) float64 { return math.Log1p(max(v, 0)) }

// paperInputs are the inputs that Horus names, for the baselines.
func paperInputs(v *vector) []float64 {
	return []float64{ln1(v.at("flops")), ln1(v.at("params")), v.Batch, ln1(v.at("activation_mib") * mib),
		v.at("gemms"), v.at("relus"), v.at("convs"), ln1(v.at("input_mib") * mib)}
}

// linearInputs add the physical estimate with the guessed coefficients.
func linearInputs(v *vector, guess physics) []float64 {
	return append(paperInputs(v), ln1(guess.Util), math.Log(guess.Busy/guess.Host), math.Log(guess.Host), math.Log(v.Batch))
}

// shareGroups are the classes of kernels whose shares of the busy time are inputs of
// the trees.
func shareGroups() [][]string {
	return [][]string{
		{"conv1_tflop", "conv1_tb", "conv_tflop", "conv_tb", "thin_tflop", "thin_tb"},
		{"group_tflop", "group_tb", "depth_tflop", "depth_tb"},
		{"matmul_tflop", "matmul_tb", "batched_tflop", "batched_tb", "attention_tflop", "attention_tb"},
		{"recurrent_tflop", "recurrent_tb", "cell_tb", "recurrent_launches"},
		{"norm_tb", "plain_tb"},
		{"lookup_tb", "fill_tb", "optimizer_tb", "sorts", "lookup_krows"},
		{"launches"},
	}
}

// treeInputs are the physical estimate, the figures of the graph, and the
// shares.
func (m *Model) treeInputs(v *vector, p physics) []float64 {
	kernels := max(v.at("kernels"), 1)
	x := []float64{
		ln1(p.Util), math.Log(p.Busy / p.Host), math.Log(p.Host), math.Log(max(v.Batch, 1)),
		ln1(v.at("params")), ln1(v.at("train_flops")), ln1(v.at("activation_mib")),
		math.Log(max(v.at("train_flops"), 1) / max(v.at("train_bytes"), 1)),
		math.Log(kernels), math.Log(max(v.at("train_bytes"), 1) / kernels),
	}
	return append(x, m.shares(v, p)...)
}

// afterInputs are treeInputs for an estimate that a measured step has corrected, and
// by how much it did.
func (m *Model) afterInputs(v *vector, guess, corrected physics) []float64 {
	return append(m.treeInputs(v, corrected), math.Log(corrected.Step/guess.Step))
}

func (m *Model) shares(v *vector, p physics) []float64 {
	at := map[string]float64{}
	for i, name := range m.Busy.Columns {
		at[name] = m.Busy.Values[i] * v.Busy[i]
	}
	var list []float64
	for _, group := range shareGroups() {
		part := 0.0
		for _, name := range group {
			part += at[name]
		}
		list = append(list, part/max(p.Busy, 1e-9))
	}
	return list
}
