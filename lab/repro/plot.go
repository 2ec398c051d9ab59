// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Chart is a line chart that is written as SVG.
type Chart struct {
	Title, X, Y string
	Lines       []Line
	LogX        bool
	Step        bool    // values hold until the next point
	MaxX, MaxY  float64 // 0: from the data
}

// Line is one series of a chart.
type Line struct {
	Name   string
	Points [][2]float64 // by x
	Dashed bool         // published by others
}

// palette is distinguishable with all common kinds of colour vision.
var palette = []string{"#0b57d0", "#d1495b", "#00798c", "#edae49", "#6a4c93", "#66a182", "#2e4057", "#8d96a3", "#b5651d", "#c51b8a"}

const (
	chartHeight              = 360
	left, top, bottom        = 62, 34, 46
	plotWidth, plotHeight    = 600, chartHeight - top - bottom
	legendLine, legendLetter = 18, 6.4
)

// width leaves room for the legend right of the plot.
func (c Chart) width() int {
	longest := 0
	for _, l := range c.Lines {
		longest = max(longest, len(l.Name))
	}
	return left + plotWidth + 48 + int(legendLetter*float64(longest))
}

// colour returns the colour of a line; a published line has that of the line it is
// compared with.
func (c Chart) colour(i int) string {
	if c.Lines[i].Dashed {
		for k, l := range c.Lines {
			if !l.Dashed && strings.HasPrefix(c.Lines[i].Name, l.Name+",") {
				return palette[k%len(palette)]
			}
		}
	}
	return palette[i%len(palette)]
}

// Write writes the chart.
func (c Chart) Write(w io.Writer) error {
	x0, x1, y1 := c.bounds()
	px := func(x float64) float64 {
		if c.LogX {
			x, x0, x1 := math.Log(x), math.Log(x0), math.Log(x1)
			return left + plotWidth*(x-x0)/(x1-x0)
		}
		return left + plotWidth*(x-x0)/(x1-x0)
	}
	py := func(y float64) float64 { return top + plotHeight*(1-min(y, y1)/y1) }
	width := c.width()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, chartHeight, width, chartHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="%d" y="18" font-size="13" font-weight="bold" fill="#1c2330">%s</text>`+"\n", left, html.EscapeString(c.Title))
	for _, y := range ticks(y1) {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e7ee"/><text x="%d" y="%.1f" text-anchor="end" fill="#5b6472">%g</text>`+"\n", left, left+plotWidth, py(y), py(y), left-6, py(y)+4, y)
	}
	for _, x := range c.xTicks(x0, x1) {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#aab2bf"/><text x="%.1f" y="%d" text-anchor="middle" fill="#5b6472">%g</text>`+"\n", px(x), px(x), top+plotHeight, top+plotHeight+4, px(x), top+plotHeight+17, x)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#1c2330">%s</text>`, left+plotWidth/2, chartHeight-10, html.EscapeString(c.X))
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle" fill="#1c2330">%s</text>`+"\n", top+plotHeight/2, html.EscapeString(c.Y))
	for i, l := range c.Lines {
		c.line(&b, l, c.colour(i), px, py)
		c.legend(&b, l, i)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Chart) line(b *strings.Builder, l Line, colour string, px, py func(float64) float64) {
	dash := ""
	if l.Dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.8"%s points="`, colour, dash)
	for i, p := range l.Points {
		if c.Step && i > 0 {
			fmt.Fprintf(b, "%.1f,%.1f ", px(p[0]), py(l.Points[i-1][1]))
		}
		fmt.Fprintf(b, "%.1f,%.1f ", px(p[0]), py(p[1]))
	}
	b.WriteString(`"/>` + "\n")
	if len(l.Points) <= 12 && !c.Step {
		for _, p := range l.Points {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, px(p[0]), py(p[1]), colour)
		}
		b.WriteByte('\n')
	}
}

func (c Chart) legend(b *strings.Builder, l Line, i int) {
	x, y := left+plotWidth+14, top+10+legendLine*i
	dash := ""
	if l.Dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2"%s/><text x="%d" y="%d" fill="#1c2330">%s</text>`+"\n",
		x, x+20, y, y, c.colour(i), dash, x+26, y+4, html.EscapeString(l.Name))
}

// bounds returns the range of x, and the largest y.
func (c Chart) bounds() (x0, x1, y1 float64) {
	x0, x1 = math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			x0, x1, y1 = min(x0, p[0]), max(x1, p[0]), max(y1, p[1])
		}
	}
	if c.MaxX > 0 {
		x1 = c.MaxX
	}
	if c.MaxY > 0 {
		y1 = c.MaxY
	}
	switch {
	case x1 > x0:
	case c.LogX && x0 == x1 && x0 > 0: // a logarithmic axis has no 0
		x0, x1 = x0/2, x1*2
	case c.LogX:
		x0, x1 = 1, 2
	default:
		x0, x1 = 0, 1
	}
	if !(y1 > 0) {
		y1 = 1
	}
	if !c.LogX && x0 > 0 && x0 < x1/3 {
		x0 = 0
	}
	return x0, x1, y1 * 1.02
}

// ticks returns round numbers from 0 to most.
func ticks(most float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step < 4 {
		step /= 2
	}
	var out []float64
	for i := 0; float64(i)*step <= most; i++ {
		out = append(out, math.Round(float64(i)*step*1e6)/1e6)
	}
	return out
}

func (c Chart) xTicks(x0, x1 float64) []float64 {
	if !c.LogX {
		var out []float64
		for _, t := range ticks(x1) {
			if t >= x0 {
				out = append(out, t)
			}
		}
		return out
	}
	var out []float64
	for x := math.Pow(2, math.Ceil(math.Log2(x0)-1e-9)); x <= x1*1.0001; x *= 2 {
		out = append(out, x)
	}
	return out
}
