// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

import "math"

// Form is the shape of a model.
type Form string

// The forms.
const (
	FairShare Form = "fair-share" // see the package comment
	Overload  Form = "overload"   // speed falls linearly with the sum of utilisations
)

// Sharing is the model of one mode.
type Sharing struct {
	Form Form `json:"form"`

	// Of the form fair-share.
	Capacity  float64 `json:"capacity,omitempty"`     // fraction of the GPU's time that is left for work while jobs share it
	Corner    float64 `json:"corner,omitempty"`       // the exponent q
	Turn      float64 `json:"turn_s,omitempty"`       // seconds that a step waits for the turns of others
	ShortStep float64 `json:"short_step_s,omitempty"` // assumed for a job whose step time is unknown

	// Of the form overload.
	Knee  float64 `json:"knee,omitempty"`  // sum of utilisations above which speed falls
	Slope float64 `json:"slope,omitempty"` // speed lost per unit above Knee

	// Spread is the error of the form by pressure, ascending; it is interpolated
	// between the points.
	Spread []Spread `json:"spread"`

	Pairs    int     `json:"pairs"`          // number of measured pairs
	AbsError float64 `json:"mean_abs_error"` // of the slowdown, on pairs of models not used in fitting
}

// Spread is the scatter of measured slowdowns near a pressure.
type Spread struct {
	At      float64 `json:"at"`      // pressure
	Scatter float64 `json:"scatter"` // standard deviation of ln(measured/predicted) that sharing explains
	High    float64 `json:"high"`    // 19 of 20 measured slowdowns were below it
	Jobs    int     `json:"jobs"`    // measured near it
}

// estimate predicts the slowdown of a job in its group.
func (s *Sharing) estimate(c group) Estimate {
	if c.size() == 0 {
		return Estimate{Mean: 1, High: 1}
	}
	e := s.around(s.predict(c))
	if c.uncertain() {
		e.High = s.around(s.predict(c.raised())).High
	}
	return e
}

// predict returns the pressure on a job and the slowdown it causes.
func (s *Sharing) predict(c group) (pressure, mean float64) {
	if s.Form == Overload {
		mean = 1 / max(leastSpeed, 1-s.Slope*max(0, c.total()-s.Knee))
		return mean, mean
	}
	busy := c.own.util()
	want := busy / s.left(c)
	wait := busy + s.Turn*min(1, (c.total()-busy)/always)/c.own.step(s.ShortStep)
	most := s.round(want, wait)
	return max(most, min(1, c.total()/s.Capacity)), s.meanAt(most)
}

// round returns a smooth maximum of two numbers, (a^q + b^q)^(1/q), computed faster
// than by powers.
func (s *Sharing) round(a, b float64) float64 {
	most, least := max(a, b), min(a, b)
	return most * math.Exp(math.Log1p(math.Exp(s.Corner*math.Log(least/most)))/s.Corner)
}

// always is the utilisation above which the others always have work queued when the
// job's turn could come.
const always = 0.1

// leastSpeed keeps the form overload from predicting zero speed where nothing was
// measured.
const leastSpeed = 0.1

// left returns the fraction of the GPU's time that the others would leave to a job
// with unlimited demand. They get what they want or, where that is too much, equal
// parts like the job itself.
func (s *Sharing) left(c group) float64 {
	level := 0.0 // the part of each; rises as jobs that want less are found
	for range c.size() + 1 {
		free, parts := s.Capacity, 1.0 // one for the job itself
		for i := range c.others {
			if i == c.skip {
				continue
			}
			if u := c.load(i).util(); u <= level {
				free -= u
			} else {
				parts++
			}
		}
		next := free / parts
		if next <= level {
			break
		}
		level = next
	}
	return level
}

// around adds the spread to a prediction.
func (s *Sharing) around(pressure, mean float64) Estimate {
	p := s.Spread
	e := Estimate{Pressure: pressure, Mean: mean}
	switch last := p[len(p)-1]; {
	case pressure <= p[0].At:
		e.Scatter, e.High = p[0].Scatter, p[0].High
	case pressure >= last.At: // as far above the mean as there
		e.Scatter, e.High = last.Scatter, last.High*mean/s.meanAt(last.At)
	default:
		i := 1
		for pressure >= p[i].At {
			i++
		}
		f := (pressure - p[i-1].At) / (p[i].At - p[i-1].At)
		e.Scatter = p[i-1].Scatter + f*(p[i].Scatter-p[i-1].Scatter)
		e.High = p[i-1].High + f*(p[i].High-p[i-1].High)
	}
	e.High = max(e.High, mean)
	return e
}

// meanAt returns the slowdown at a pressure.
func (s *Sharing) meanAt(pressure float64) float64 {
	if s.Form == Overload {
		return pressure
	}
	return s.round(1, pressure)
}
