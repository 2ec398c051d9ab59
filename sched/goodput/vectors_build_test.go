// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// The expected values of vectors.json are worked out here, by other ways than
// the package takes: the formulas as they are printed, trying everything, sums
// over the whole past, or by hand. Nothing here calls the package.

var vectorParams = []Params{
	{AlphaGrad: 0.1, BetaGrad: 0.02, AlphaLocal: 0.05, BetaLocal: 0.01, AlphaNode: 0.38, BetaNode: 0.01, Gamma: 2},
	{AlphaGrad: 0.0644, BetaGrad: 0.00449, AlphaLocal: 0.0756, BetaLocal: 0.00109, AlphaNode: 0.32, BetaNode: 0.00618, Gamma: 2.48},
	{AlphaGrad: 0.193, BetaGrad: 0.0256, AlphaLocal: 0.115, BetaLocal: 0.0229, AlphaNode: 0.745, BetaNode: 0.0101, Gamma: 1},
	{AlphaGrad: 0.007, BetaGrad: 6e-7, AlphaLocal: 0.0058, BetaLocal: 0.00025, AlphaNode: 0.0178, BetaNode: 0.00056, AlphaRack: 0.03, BetaRack: 0.001, Gamma: 10},
}

var vectorPlaces = []vectorPlace{{1, 1, false}, {1, 2, false}, {1, 4, false}, {2, 2, false}, {3, 9, false}, {16, 64, false}, {4, 16, true}}

var vectorLimits = []Limits{
	{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 256},
	{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200},
	{Initial: 8, Max: 512, LocalMin: 4, LocalMax: 8},
}

func buildVectors() vectors {
	v := vectors{Fairway: "goodput-vectors", Version: 1}
	for _, p := range vectorParams {
		for i, s := range vectorPlaces {
			v.Times = append(v.Times, buildTimes(p, s, []float64{1, 8, 20.5, 1000}[i%4], i%3))
		}
	}
	for _, noise := range []float64{0, 50, 4580, 1e12} {
		for _, batch := range []int{200, 201, 3200, 12800} {
			v.Efficiency = append(v.Efficiency, buildEfficiency(noise, 200, batch))
		}
	}
	for _, l := range vectorLimits {
		for _, batch := range []int{1, l.Initial, l.Initial + 1, 1000, l.Max} {
			for _, gpus := range []int{1, 2, 3, 64, 2 * l.Max} {
				v.Split = append(v.Split, buildSplit(batch, gpus, l))
			}
		}
		for i, p := range vectorParams {
			for j, s := range vectorPlaces {
				v.Best = append(v.Best, buildBest(p, []float64{10, 1000, 20000}[(i+j)%3], s, l))
			}
		}
	}
	l := vectorLimits[0]
	v.Growth = []growthVector{
		{0, l, 64, 1}, {1, l, 64, 2}, {3, l, 64, 6}, {40, l, 64, 64}, {100, l, 1000, 128}, {4, l, 0, 1},
		{8, Limits{Initial: 10, Max: 100, LocalMin: 10, LocalMax: 10}, 64, 10},
	}
	for _, scale := range []float64{0.5, 1, 2, 32} {
		for _, n := range []gradientNoise{{Sqr: 1, Var: 3}, {Sqr: 0, Var: 2}, {Sqr: 5, Var: 1e-6}} {
			// AdaScale: 1/(share of noise/scale + share of gradient).
			ada := 1 / (n.Var/(n.Var+n.Sqr)/scale + n.Sqr/(n.Var+n.Sqr))
			v.Rules = append(v.Rules, ruleVector{"adascale", scale, n, ada},
				ruleVector{"sqrt", scale, n, math.Exp(math.Log(scale) / 2)}, ruleVector{"linear", scale, n, scale})
		}
	}
	v.Noise = buildNoise()
	v.Loss, v.Fit = buildFits()
	return v
}

func buildTimes(p Params, s vectorPlace, local float64, accum int) timesVector {
	grad := p.AlphaGrad + p.BetaGrad*local
	k := float64(s.GPUs)
	sync := p.AlphaNode + p.BetaNode*(k-2)
	if s.CrossRack && p.AlphaRack > 0 {
		sync = p.AlphaRack + p.BetaRack*(k-2)
	}
	if s.Nodes == 1 {
		sync = p.AlphaLocal + p.BetaLocal*(k-2)
	}
	if s.GPUs == 1 {
		sync = 0
	}
	step := math.Pow(math.Pow(grad, p.Gamma)+math.Pow(sync, p.Gamma), 1/p.Gamma)
	iter := step + float64(accum)*grad
	return timesVector{
		Params: p, Place: s, Local: local, Accum: accum,
		Grad: grad, Sync: sync, Step: step, Iter: iter, Throughput: k * local * (1 + float64(accum)) / iter,
	}
}

// buildEfficiency takes the way over the variance, for a gradient of length 1.
func buildEfficiency(noise float64, initial, batch int) efficiencyVector {
	variance, scale := noise/float64(initial), float64(batch)/float64(initial)
	gain := (variance + 1) / (variance/scale + 1)
	return efficiencyVector{Noise: noise, Initial: initial, Batch: batch, Efficiency: gain / scale, Gain: gain}
}

// buildSplit counts up: accumulated gradients until one fits, examples until
// there are enough, then down until there are not too many.
func buildSplit(batch, gpus int, l Limits) splitVector {
	v := splitVector{Batch: batch, GPUs: gpus, Limits: l}
	if gpus == 1 && batch > l.Initial {
		v.Accum = 1
	}
	for ; ; v.Accum++ {
		for v.Local = 1; v.Local*gpus*(v.Accum+1) < batch; v.Local++ {
		}
		if v.Local <= l.LocalMax {
			break
		}
	}
	for v.Local*gpus*(v.Accum+1) > l.Max {
		v.Local--
	}
	if v.Local == 0 {
		return splitVector{Batch: batch, GPUs: gpus, Limits: l}
	}
	v.OK = true
	return v
}

// buildBest tries all fifty batch sizes.
func buildBest(p Params, noise float64, s vectorPlace, l Limits) bestVector {
	v := bestVector{Params: p, Noise: noise, Place: s, Limits: l}
	k := float64(s.GPUs)
	least, most := math.Max(float64(l.Initial), float64(l.LocalMin)*k), float64(l.Max)
	for i := 0; i < 50 && least <= most; i++ {
		local := least * math.Pow(most/least, float64(i)/49) / k
		accum := math.Max(0, math.Ceil(local/float64(l.LocalMax)-1e-8)-1)
		if s.GPUs == 1 && local > float64(l.Initial)+1e-8 {
			accum = math.Max(1, accum)
		}
		each := math.Ceil(local/(accum+1) - 1e-8)
		each = math.Min(each, math.Floor(most/(k*(accum+1))))
		if each < float64(l.LocalMin) || each > float64(l.LocalMax) {
			continue
		}
		batch := k * each * (accum + 1)
		times := buildTimes(p, s, each, int(accum))
		if g := times.Throughput * buildEfficiency(noise, l.Initial, int(batch)).Efficiency; g > v.Goodput*(1+1e-12) {
			v.Local, v.Accum, v.Goodput = int(each), int(accum), g
		}
	}
	return v
}

func buildNoise() []noiseVector {
	a, b, c, d := []float64{1, 2, -1}, []float64{0.5, 1, 0}, []float64{3, 1, -2}, []float64{-1, 2, 0.25}
	several := func(scale float64, g ...[]float64) noiseStep { return noiseStep{Gradients: g, Scale: scale} }
	bad := func(g ...[]float64) noiseStep { return noiseStep{Gradients: g, Scale: 1, Bad: true} }
	all := []noiseVector{
		{Name: "two replicas", Initial: 100, Steps: []noiseStep{several(1, a, b), several(1, b, c), several(1, c, d)}},
		{Name: "four replicas, growing batch", Initial: 8, Steps: []noiseStep{
			several(1, a, b, c, d), several(2, a, b, b, d), several(16, a, a, c, d), several(500, b, b, c, d)}},
		{Name: "one GPU: pairs", Initial: 12, Steps: []noiseStep{several(1, a), several(1, b), several(1, c), several(2, d)}},
		{Name: "one GPU, then several: reset", Initial: 12, Steps: []noiseStep{
			several(1, a), several(1, b), several(2, c, d), several(2, a, c), several(1, b), several(1, d), several(2, a, b)}},
		{Name: "not a number: skipped", Initial: 12, Steps: []noiseStep{several(1, a, b), bad(c, d), several(1, c, d)}},
		{Name: "not a number in a pair", Initial: 12, Steps: []noiseStep{several(1, a), bad(b), several(1, c), several(1, d)}},
		{Name: "all the same: no noise", Initial: 12, Steps: []noiseStep{several(1, a, a), several(1, a, a)}},
		{Name: "opposite: only noise", Initial: 12, Steps: []noiseStep{several(1, a, []float64{-1, -2, 1})}},
	}
	for i := range all {
		fillNoise(&all[i])
	}
	return all
}

// fillNoise works out what is wanted after every step, each time from the whole
// past: the mean of all samples since the last reset, each weighted by its own
// (1 - 0.999^scale) and by 0.999 to the sum of the scales that came after it.
func fillNoise(v *noiseVector) {
	type sample struct{ sqr, variance, scale float64 }
	var past []sample
	var before []float64
	biased := false
	for i := range v.Steps {
		s := &v.Steps[i]
		gradients, scale, pair := s.Gradients, s.Scale, false
		if len(gradients) == 1 && before != nil {
			gradients, scale, pair = [][]float64{before, gradients[0]}, 2*scale, true
		}
		before = nil
		if len(s.Gradients) == 1 && !s.Bad {
			before = s.Gradients[0]
		}
		if len(gradients) > 1 && !s.Bad {
			if biased && !pair {
				past = nil
			}
			biased = pair
			// By definition: the variance of one gradient, with n-1, and the
			// squared length of the mean less what noise adds to it.
			n, mean, spread := float64(len(gradients)), middle(gradients...), 0.0
			for _, g := range gradients {
				for k := range g {
					spread += (g[k] - mean[k]) * (g[k] - mean[k]) / (n - 1)
				}
			}
			past = append(past, sample{square(mean) - spread/n, spread / n * scale, scale})
		}
		var sqr, variance, weight, later float64
		for k := len(past) - 1; k >= 0; k-- {
			w := (1 - math.Pow(0.999, past[k].scale)) * math.Pow(0.999, later)
			sqr, variance, weight = sqr+w*past[k].sqr, variance+w*past[k].variance, weight+w
			later += past[k].scale
		}
		if weight == 0 {
			continue
		}
		s.Want = noiseWant{OK: true, Biased: biased, Sqr: math.Max(0, sqr/weight), Var: math.Max(1e-6, variance/weight)}
		s.Want.Scale = math.MaxFloat64
		if s.Want.Sqr > 0 {
			s.Want.Scale = float64(v.Initial) * s.Want.Var / s.Want.Sqr
		}
	}
}

func buildFits() (losses []lossVector, fits []fitVector) {
	samples := func(p Params, local []float64, places []vectorPlace, wrong float64) (all []Sample) {
		off := 1 + wrong
		for _, s := range places {
			for _, m := range local {
				times := buildTimes(p, s, m, 0)
				step := math.Max(times.Grad, times.Step*off)
				all = append(all, Sample{Nodes: s.Nodes, GPUs: s.GPUs, Local: int(m), Step: step, Sync: step - times.Grad, Count: 1})
				off = 2 - off // too long and too short in turn
			}
		}
		return all
	}
	charge := func(p Params) float64 {
		return 0.001*math.Pow(p.Gamma-1, 2) + 0.01*(math.Pow(p.BetaLocal/p.AlphaLocal, 2)+math.Pow(p.BetaNode/p.AlphaNode, 2))
	}
	steps := func(p Params, local float64, places ...vectorPlace) (all []fitStep) {
		for _, s := range places {
			all = append(all, fitStep{s, local, buildTimes(p, s, local, 0).Step})
		}
		return all
	}
	for _, p := range vectorParams[:3] {
		all := samples(p, []float64{16, 64, 200}, vectorPlaces[:6], 0.04)
		losses = append(losses, lossVector{all, p, buildLoss(all, p, charge(p))})
		exact := samples(p, []float64{16, 64, 200}, vectorPlaces[:6], 0)
		// The truth explains exact times but for the charge; the best there is
		// may save some of that.
		fits = append(fits, fitVector{"exact times", exact, charge(p) + 1e-4, steps(p, 100, vectorPlaces[:6]...), 0.01})
		fits = append(fits, fitVector{"times 4 percent off", all, buildLoss(all, p, charge(p)) * 1.01, steps(p, 100, vectorPlaces[:6]...), 0.06})
	}
	// By hand: before a job has explored, unknown exchanges are free.
	one := Sample{Nodes: 1, GPUs: 1, Local: 10, Step: 2, Sync: 0, Count: 1}
	two := Sample{Nodes: 1, GPUs: 2, Local: 10, Step: 3, Sync: 1, Count: 1}
	far := Sample{Nodes: 2, GPUs: 2, Local: 10, Step: 5, Sync: 3, Count: 1}
	near, pair, wide := vectorPlace{1, 1, false}, vectorPlace{1, 2, false}, vectorPlace{2, 2, false}
	return losses, append(fits,
		fitVector{"one sample", []Sample{one}, 0.02 + 1e-4, // half of 2 s is constant, the rest grows
			[]fitStep{{near, 10, 2}, {near, 30, 4}, {pair, 10, 2}, {wide, 10, 2}, {vectorPlace{16, 64, false}, 10, 2}}, 1e-3},
		fitVector{"two GPUs", []Sample{one, two}, 0.01 + 1e-4, // a node away: 1.1 s instead of 1 s
			[]fitStep{{near, 10, 2}, {pair, 10, 3}, {vectorPlace{1, 8, false}, 10, 3}, {wide, 10, 3.1}}, 1e-3},
		fitVector{"two nodes only", []Sample{one, far}, 0.01 + 1e-4,
			[]fitStep{{wide, 10, 5}, {vectorPlace{8, 64, false}, 10, 5}, {pair, 10, 2}}, 1e-3},
	)
}

func buildLoss(samples []Sample, p Params, charge float64) float64 {
	grads, steps := 0.0, 0.0
	for _, s := range samples {
		times := buildTimes(p, vectorPlace{s.Nodes, s.GPUs, false}, float64(s.Local), 0)
		grads += math.Pow(math.Log(times.Grad)-math.Log(s.Step-s.Sync), 2)
		steps += math.Pow(math.Log(times.Step)-math.Log(s.Step), 2)
	}
	n := float64(len(samples))
	return math.Sqrt(grads/n) + math.Sqrt(steps/n) + charge
}
