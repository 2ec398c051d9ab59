// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Plot is a chart that can be written as SVG.
type Plot interface {
	Write(io.Writer) error
}

// paperKnob is figure 19 of the Themis paper, read off: max rho and GPU hours
// by lease.
type paperKnob struct {
	f        float64
	maxRho   [4]float64
	gpuHours [4]float64
}

var paperKnobs = []paperKnob{
	{0, [4]float64{9.4, 9.8, 9.8, 10.2}, [4]float64{2080, 2080, 2080, 2080}},
	{0.4, [4]float64{5.1, 5.1, 6.0, 4.8}, [4]float64{2105, 2105, 2105, 2105}},
	{0.8, [4]float64{1.8, 2.3, 3.8, 4.2}, [4]float64{2250, 2215, 2200, 2160}},
	{0.9, [4]float64{1.8, 2.6, 3.8, 3.9}, [4]float64{2415, 2345, 2265, 2260}},
	{1, [4]float64{2.7, 4.0, 4.9, 4.9}, [4]float64{2530, 2580, 2580, 2680}},
}

// Charts returns the plots of the page by file name.
func (t *Themis) Charts() map[string]Plot {
	plots := map[string]Plot{
		"themis-rho.svg":           t.rhoChart("Finish-time fairness of apps", t.Policies),
		"themis-rho-contended.svg": t.rhoChart("Finish-time fairness of apps, full contention", t.Contended),
		"themis-jain.svg":          t.jainBars(),
	}
	for _, of := range []string{ours, published} {
		file := strings.ReplaceAll(of, ":", "-")
		plots[file+"-f-rho.svg"] = t.knobChart(of, knobAxes{
			title: of + ": largest rho by f (dashed: the paper)", y: "largest rho", ours: maxRho,
			paper: func(k paperKnob, lease int) float64 { return k.maxRho[lease] },
		})
		plots[file+"-f-gpu.svg"] = t.knobChart(of, knobAxes{
			title: of + ": GPU time by f (dashed: the paper, above its f = 0)", y: "% above well placed", ours: percentOver,
			paper: func(k paperKnob, lease int) float64 {
				return 100 * (k.gpuHours[lease]/paperKnobs[0].gpuHours[lease] - 1)
			},
		})
	}
	if t.Exchange.Apps[0] != "" {
		plots["themis-exchange.svg"] = t.exchangeChart()
	}
	return plots
}

func percentOver(f Fairness) float64 { return 100 * f.Overhead() }

// rhoChart is the distribution of rho for each policy.
func (t *Themis) rhoChart(title string, outcomes []Outcome) Chart {
	c := Chart{Title: title, X: "rho", Y: "% of apps at or below", MaxX: 6, MaxY: 100}
	for _, o := range outcomes {
		rho := o.Rho()
		l := Line{Name: short(o.Policy), Points: [][2]float64{{0, 0}}}
		for i, r := range rho {
			if r > c.MaxX {
				break
			}
			l.Points = append(l.Points, [2]float64{r, 100 * float64(i+1) / float64(len(rho))})
		}
		last := l.Points[len(l.Points)-1][1]
		l.Points = append(l.Points, [2]float64{c.MaxX, last})
		c.Lines = append(c.Lines, l)
	}
	c.Step = true
	return c
}

func (t *Themis) jainBars() Bars {
	c := Bars{Title: "Jain's index of rho (1: all equal)", Y: "index", MaxY: 1}
	for _, o := range t.Policies {
		s := o.Over(jainRho)
		c.Bars = append(c.Bars, Bar{Name: short(o.Policy), Value: s.Mean, Low: s.Low, High: s.High})
	}
	return c
}

// knobAxes is what a chart over f shows.
type knobAxes struct {
	title, y string
	ours     func(Fairness) float64
	paper    func(k paperKnob, lease int) float64
}

// knobChart is a line for each lease over f, ours and the paper's.
func (t *Themis) knobChart(of string, a knobAxes) Chart {
	c := Chart{Title: a.title, X: "f", Y: a.y}
	for _, lease := range themisLeases {
		l := Line{Name: minutes(lease)}
		for _, f := range themisFs {
			l.Points = append(l.Points, [2]float64{f, t.knob(of, f, lease).Over(a.ours).Mean})
		}
		c.Lines = append(c.Lines, l)
	}
	for i, lease := range themisLeases {
		l := Line{Name: minutes(lease) + ", the paper", Dashed: true}
		for _, k := range paperKnobs {
			l.Points = append(l.Points, [2]float64{k.f, a.paper(k, i)})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// exchangeChart is what two apps held over time.
func (t *Themis) exchangeChart() Chart {
	e := t.Exchange
	c := Chart{Title: "Two apps that trade GPUs", X: "hours", Y: "GPUs held", Step: true}
	for i := range e.Apps {
		c.Lines = append(c.Lines, Line{Name: fmt.Sprintf("%s (rho %.2f)", e.Apps[i], e.Rho[i]), Points: e.Held[i]})
	}
	return c
}

func minutes(d time.Duration) string { return fmt.Sprintf("%.0f min", d.Minutes()) }
