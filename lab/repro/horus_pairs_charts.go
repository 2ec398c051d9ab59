// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
)

// publishedSpeeds are mean and tenth percentile of the speed of a job that shares
// a GPU, by the sum of utilisations in steps of 20 %, as published with Lucid.
var publishedSpeeds = []struct{ mean, p10 float64 }{
	{0.975, 0.92}, {0.994, 0.94}, {1.02, 0.92}, {0.987, 0.89}, {0.970, 0.87},
	{0.932, 0.81}, {0.869, 0.74}, {0.804, 0.63}, {0.729, 0.55}, {0.680, 0.54},
}

// bySum returns the speeds of all jobs by the sum of utilisations.
func bySum(pairs []learn.Pair) [10][]float64 {
	var out [10][]float64
	for _, p := range pairs {
		sum := p.Sides[0].Load.Util + p.Sides[1].Load.Util
		i := min(int(5*sum), 9)
		for _, s := range p.Sides {
			out[i] = append(out[i], 1/s.Slowdown)
		}
	}
	return out
}

func meanSpeed(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(len(all))
}

// slowTenth returns the tenth percentile, by nearest rank.
func slowTenth(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(all))[(len(all)-1)/10]
}

func speedText(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// Charts returns the plots by file name.
func (h *HorusPairs) Charts() map[string]Plot {
	out := map[string]Plot{"horus-pairs-sum.svg": h.sumChart()}
	for _, mode := range h.modes() {
		c := pairDots{
			Title: fmt.Sprintf("Slowdown of jobs in pairs the fit has not seen, %s", mode), X: "predicted", Y: "measured",
			Diagonal: true, From: 0.8,
		}
		var safe, unsafe [][2]float64
		for _, g := range h.Report.Guesses[mode] {
			if p := [2]float64{g.Mean, g.Measured}; g.High < h.Report.Limit {
				safe = append(safe, p)
			} else {
				unsafe = append(unsafe, p)
			}
		}
		c.Sets = []Line{{Name: "bound below the limit", Points: safe}, {Name: "bound above", Points: unsafe}}
		out[fmt.Sprintf("horus-pairs-%s.svg", mode)] = c
	}
	return out
}

// sumChart is slowdown by sum of utilisations, with the published curve.
func (h *HorusPairs) sumChart() Plot {
	c := pairDots{Title: "Slowdown of a job by the sum of the utilisations of its pair", X: "sum of utilisations", Y: "slowdown", From: 0.8, FromX: 0}
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		var less, more [][2]float64
		for _, p := range learn.OfMode(h.Pairs, mode) {
			sum := p.Sides[0].Load.Util + p.Sides[1].Load.Util
			for i, s := range p.Sides {
				if at := [2]float64{sum, s.Slowdown}; s.Load.Util < p.Sides[1-i].Load.Util {
					less = append(less, at)
				} else {
					more = append(more, at)
				}
			}
		}
		c.Sets = append(c.Sets, Line{Name: mode.String() + ", the busier", Points: more}, Line{Name: mode.String() + ", the less busy", Points: less})
	}
	curve := Line{Name: "published, RTX 3090", Dashed: true}
	m := interfere.Published()
	for i := range 41 {
		sum := float64(i) / 20
		half := interfere.Load{Util: max(sum/2, 1e-3)}
		curve.Points = append(curve.Points, [2]float64{sum, m.Slowdown(interfere.TimeSlice, half, []interfere.Load{half}).Mean})
	}
	c.Curve = &curve
	return c
}

// pairDots is a chart of points that is written as SVG.
type pairDots struct {
	Title, X, Y string
	Sets        []Line
	Curve       *Line   // drawn over the points
	Diagonal    bool    // draw x = y, with the same scale on both axes
	From, FromX float64 // where the axes begin; FromX is From with Diagonal
}

// Write writes the chart.
func (d pairDots) Write(w io.Writer) error {
	toX, toY := d.ends()
	if d.Diagonal {
		d.FromX = d.From
	}
	px := func(x float64) float64 { return left + plotWidth*(x-d.FromX)/(toX-d.FromX) }
	py := func(y float64) float64 { return top + plotHeight*(1-(max(y, d.From)-d.From)/(toY-d.From)) }
	frame := Chart{Title: d.Title, X: d.X, Y: d.Y, Lines: slices.Clone(d.Sets)}
	if d.Curve != nil {
		frame.Lines = append(frame.Lines, *d.Curve)
	}
	width := frame.width()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, chartHeight, width, chartHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="%d" y="18" font-size="13" font-weight="bold" fill="#1c2330">%s</text>`+"\n", left, html.EscapeString(d.Title))
	for _, y := range ticks(toY) {
		if y >= d.From {
			fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e7ee"/><text x="%d" y="%.1f" text-anchor="end" fill="#5b6472">%g</text>`+"\n", left, left+plotWidth, py(y), py(y), left-6, py(y)+4, y)
		}
	}
	for _, x := range ticks(toX) {
		if x >= d.FromX {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#aab2bf"/><text x="%.1f" y="%d" text-anchor="middle" fill="#5b6472">%g</text>`+"\n", px(x), px(x), top+plotHeight, top+plotHeight+4, px(x), top+plotHeight+17, x)
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#1c2330">%s</text>`, left+plotWidth/2, chartHeight-10, html.EscapeString(d.X))
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle" fill="#1c2330">%s</text>`+"\n", top+plotHeight/2, html.EscapeString(d.Y))
	if d.Diagonal {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#8d96a3"/>`+"\n", px(d.From), py(d.From), px(min(toX, toY)), py(min(toX, toY)))
	}
	for i, s := range d.Sets {
		for _, p := range s.Points {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.4" fill="%s" fill-opacity="0.6"/>`, px(p[0]), py(p[1]), frame.colour(i))
		}
		b.WriteByte('\n')
		frame.legend(&b, s, i)
	}
	if d.Curve != nil {
		i := len(d.Sets)
		frame.line(&b, *d.Curve, frame.colour(i), px, py)
		frame.legend(&b, *d.Curve, i)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// ends returns where the axes end.
func (d pairDots) ends() (x, y float64) {
	x, y = d.FromX+0.1, d.From+0.1
	for _, s := range d.Sets {
		for _, p := range s.Points {
			x, y = max(x, p[0]), max(y, p[1])
		}
	}
	x, y = 1.02*x, 1.02*y
	if d.Diagonal {
		return max(x, y), max(x, y)
	}
	return x, y
}
