// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math"
)

// Sample is a measured step.
type Sample struct {
	Plan Plan    `json:"plan"`
	At   Place   `json:"at"`
	Step float64 `json:"step"` // seconds
	// Parts are a part of what is known of the step; they may have been measured earlier.
	Parts Parts `json:"parts,omitzero"`
}

// ErrNoSamples is the error of a fit to nothing.
var ErrNoSamples = errors.New("fit plan model: no samples")

// Seconds for each parameter of a model that the hardware of these years needs: gradients
// of 4 bytes through a port of 20 GB/s, the optimiser on a GPU, the optimiser on a host.
const (
	networkOf = 0.2e-9
	updateOf  = 75e-12
	hostOf    = 1e-9
)

// gpuSpeed is what a GPU of these years computes in a second while it trains, in
// floating-point operations, and tokenWork how many a parameter costs for each token.
const gpuSpeed, tokenWork = 1e14, 6

// Prior returns what is expected of a model before anything of it was measured.
func Prior(m Model) Params {
	return Typical(m, tokenWork*m.Parameters*float64(m.Batch)*float64(m.Sequence)/gpuSpeed)
}

// Typical returns what is expected of a model of which nothing is known but the seconds of
// computing.
func Typical(m Model, compute float64) Params {
	return Params{
		Compute: compute, Fixed: 0.02, Network: networkOf * m.Parameters, Update: updateOf * m.Parameters,
		Tensor: 0.1 * compute, Host: hostOf * m.Parameters, Kernel: 1,
	}
}

// doubt is the factor, as a logarithm, by which a parameter commonly differs from the
// typical; that of compute is not limited.
var doubt = vector{math.Inf(1), 1, 0.5, 0.5, 0.7, 0.3, 0.3}

const (
	scatter  = 0.05 // relative error of a step that the model does not explain
	unsteady = 0.3  // the same of its exchanges, which last as long as the slowest rank makes them
	outlier  = 2    // scatters beyond which an error counts linearly, not squared
	rounds   = 60
)

// Fit returns the parameters that explain measured steps best: the errors are relative,
// steps that fit badly count for less, and each parameter is drawn to its typical value
// as strongly as that is known.
func Fit(m Model, samples []Sample) (Params, error) {
	if len(samples) == 0 {
		return Params{}, ErrNoSamples
	}
	compute := math.Inf(1)
	for i, s := range samples {
		if !(s.Step > 0) || math.IsInf(s.Step, 1) {
			return Params{}, fmt.Errorf("fit plan model: sample %d: step = %g; want seconds above 0", i, s.Step)
		}
		if !s.Plan.Fits(s.At) {
			return Params{}, fmt.Errorf("fit plan model: sample %d: plan %s on %d GPUs of %d nodes; want one that fits there", i, s.Plan, s.At.GPUs, s.At.Nodes)
		}
		compute = min(compute, s.Step*float64(s.Plan.Data*s.Plan.Tensor))
	}
	f := fit{model: m, typical: Typical(m, compute).vector()}
	for _, s := range samples {
		f.seen = append(f.seen, observation{Sample: s})
		if s.Parts.Exchange > 0 && f.typical.params().Exchange(s.Plan, s.At) > 0 {
			f.seen = append(f.seen, observation{Sample: s, exchange: true})
		}
	}
	return f.search().params(), nil
}

type fit struct {
	model   Model
	seen    []observation
	typical vector
}

// observation is one thing that was measured of a step: its length, or its exchanges.
type observation struct {
	Sample
	exchange bool
}

// search is the method of Levenberg and Marquardt over the logarithms of the parameters.
func (f *fit) search() vector {
	at, damp := logs(f.typical), 1e-2
	best := f.loss(at)
	for range rounds {
		normal, slope := f.normal(at)
		moved := false
		for range 8 {
			next := at
			for i, d := range solve(normal, slope, damp) {
				next[i] += min(max(d, -1), 1) // a step of the search changes no time by more than a factor of e
			}
			if l := f.loss(next); l < best {
				moved = best-l > 1e-9*best
				at, best, damp = next, l, damp/4
				break
			}
			damp *= 5
		}
		if !moved {
			break
		}
	}
	return exps(at)
}

func logs(v vector) vector {
	for i := range v {
		v[i] = math.Log(v[i])
	}
	return v
}

func exps(v vector) vector {
	for i := range v {
		v[i] = math.Exp(v[i])
	}
	return v
}

// off returns the error of an observation, in scatters.
func (f *fit) off(q Params, s *observation) float64 {
	if s.exchange {
		return math.Log(q.Exchange(s.Plan, s.At)/s.Parts.Exchange) / unsteady
	}
	return math.Log(q.Step(f.model, s.Plan, s.At)/s.Step) / scatter
}

// loss is Huber's: square up to outlier, then linear.
func (f *fit) loss(at vector) float64 {
	q, sum := exps(at).params(), 0.0
	for i := range f.seen {
		e := math.Abs(f.off(q, &f.seen[i]))
		if e > outlier {
			e = math.Sqrt(outlier * (2*e - outlier))
		}
		sum += e * e
	}
	for i, x := range at {
		e := (x - math.Log(f.typical[i])) / doubt[i]
		sum += e * e
	}
	return sum
}

// normal returns the normal equations of the linearised problem, with numerical
// derivatives.
func (f *fit) normal(at vector) (a [dims]vector, b vector) {
	const h = 1e-4
	q := exps(at).params()
	var near [dims]Params
	for i := range dims {
		v := at
		v[i] += h
		near[i] = exps(v).params()
	}
	for i := range f.seen {
		s := &f.seen[i]
		e := f.off(q, s)
		weight := min(1, outlier/max(outlier, math.Abs(e)))
		var d vector
		for i := range dims {
			d[i] = (f.off(near[i], s) - e) / h
		}
		for i := range dims {
			b[i] -= weight * d[i] * e
			for k := range dims {
				a[i][k] += weight * d[i] * d[k]
			}
		}
	}
	for i := range dims {
		w := 1 / (doubt[i] * doubt[i])
		a[i][i] += w
		b[i] -= w * (at[i] - math.Log(f.typical[i]))
	}
	return a, b
}

// solve returns x of (a + damp diag a) x = b, by elimination: a is positive definite.
func solve(a [dims]vector, b vector, damp float64) vector {
	for i := range dims {
		a[i][i] += damp*a[i][i] + 1e-12
	}
	for i := range dims {
		for r := i + 1; r < dims; r++ {
			by := a[r][i] / a[i][i]
			for k := i; k < dims; k++ {
				a[r][k] -= by * a[i][k]
			}
			b[r] -= by * b[i]
		}
	}
	for i := dims - 1; i >= 0; i-- {
		for k := i + 1; k < dims; k++ {
			b[i] -= a[i][k] * b[k]
		}
		b[i] /= a[i][i]
	}
	return b
}
