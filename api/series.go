// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"math"
)

// Series is one metric of a job, in columns of the same length, oldest point first. A
// point is one value that was reported, or the mean of several in a row.
type Series struct {
	Name string `json:"name"`
	// Steps are the steps that the script named, else its work done; of a point for
	// several values, the last of theirs.
	Steps []float64 `json:"steps"`
	// At are Unix times in seconds.
	At     []float64 `json:"at"`
	Values []float64 `json:"values"`
	// Counts are the values of each point, Mins and Maxs the least and the largest of
	// them. All are left out if every point is one value.
	Counts []int     `json:"counts,omitempty"`
	Mins   []float64 `json:"mins,omitempty"`
	Maxs   []float64 `json:"maxs,omitempty"`
	// Last is the value that was reported last, if the last point is not that value.
	Last *float64 `json:"last,omitempty"`
}

// SeriesPoint is one point of a series.
type SeriesPoint struct {
	Step, At        float64
	Value, Min, Max float64
	Count           int
}

// MetricList is the metrics of a job, by name.
type MetricList struct {
	Metrics []Series `json:"metrics"`
	// Full says that the job has reported more metrics than are kept: the first ones are.
	Full bool `json:"full,omitempty"`
}

// Len returns the number of points.
func (s *Series) Len() int { return len(s.Values) }

// Point returns a point.
func (s *Series) Point(i int) SeriesPoint {
	p := SeriesPoint{Step: s.Steps[i], At: s.At[i], Value: s.Values[i], Min: s.Values[i], Max: s.Values[i], Count: 1}
	if len(s.Counts) > 0 {
		p.Count, p.Min, p.Max = s.Counts[i], s.Mins[i], s.Maxs[i]
	}
	return p
}

// Add adds a point behind the others.
func (s *Series) Add(p SeriesPoint) {
	s.Steps, s.At, s.Values = append(s.Steps, 0), append(s.At, 0), append(s.Values, 0)
	if len(s.Counts) > 0 {
		s.Counts, s.Mins, s.Maxs = append(s.Counts, 0), append(s.Mins, 0), append(s.Maxs, 0)
	}
	s.Set(s.Len()-1, p)
}

// Set replaces a point.
func (s *Series) Set(i int, p SeriesPoint) {
	s.Steps[i], s.At[i], s.Values[i] = p.Step, p.At, p.Value
	if p.Count > 1 && len(s.Counts) == 0 {
		n := s.Len()
		s.Counts, s.Mins, s.Maxs = make([]int, n), make([]float64, n), make([]float64, n)
		for k, v := range s.Values {
			s.Counts[k], s.Mins[k], s.Maxs[k] = 1, v, v
		}
	}
	if len(s.Counts) > 0 {
		s.Counts[i], s.Mins[i], s.Maxs[i] = p.Count, p.Min, p.Max
	}
}

// Cut keeps the first n points.
func (s *Series) Cut(n int) {
	s.Steps, s.At, s.Values = s.Steps[:n], s.At[:n], s.Values[:n]
	if len(s.Counts) > 0 {
		s.Counts, s.Mins, s.Maxs = s.Counts[:n], s.Mins[:n], s.Maxs[:n]
	}
}

// Join returns the point for the values of two, of which q is the later one.
func (p SeriesPoint) Join(q SeriesPoint) SeriesPoint {
	n, m := float64(p.Count), float64(q.Count)
	out := SeriesPoint{Step: q.Step, At: q.At, Count: p.Count + q.Count, Min: min(p.Min, q.Min), Max: max(p.Max, q.Max)}
	out.Value = min(max(p.Value*(n/(n+m))+q.Value*(m/(n+m)), out.Min), out.Max) // rounded, it may be outside
	return out
}

// MaxSeries bounds the metrics of a job.
const MaxSeries = 64

const (
	maxSeriesPoints = 4096 // of all series of a report
	mostCount       = 1 << 40
)

// validateSeries says what is wrong with the series of a report.
func validateSeries(all []Series) error {
	if len(all) > MaxSeries {
		return Errorf(Invalid, "has %d entries", len(all)).On("series").Try(fmt.Sprintf("send at most %d", MaxSeries))
	}
	points := 0
	for i := range all {
		s, field := &all[i], fmt.Sprintf("series[%d]", i)
		n := s.Len()
		points += n
		aside := n
		if len(s.Counts) == 0 {
			aside = 0
		}
		switch {
		case s.Name == "" || len(s.Name) > maxMetricName:
			return Errorf(Invalid, "has %d bytes", len(s.Name)).On(field + ".name").Try(fmt.Sprintf("use 1 to %d", maxMetricName))
		case len(s.Steps) != n || len(s.At) != n || len(s.Counts) != aside || len(s.Mins) != aside || len(s.Maxs) != aside:
			return Errorf(Invalid, "has columns of different lengths").On(field).
				Try("send steps, at and values of the same length; counts, mins and maxs too, or none of them")
		case points > maxSeriesPoints:
			return Errorf(Invalid, "have more than %d points", maxSeriesPoints).On("series").Try("send means of several values")
		}
		for k := range n {
			p := s.Point(k)
			if !p.sound() {
				return Errorf(Invalid, "is %+v", p).On(fmt.Sprintf("%s, point %d", field, k)).
					Try("send finite values between min and max, and a step and a time that are not negative")
			}
		}
	}
	return nil
}

func (p SeriesPoint) sound() bool {
	return p.Step >= 0 && p.Step <= mostWork && p.At >= 0 && p.At <= mostWork && p.Count >= 1 && p.Count <= mostCount &&
		p.Min <= p.Value && p.Value <= p.Max && !math.IsInf(p.Min, 0) && !math.IsInf(p.Max, 0)
}
