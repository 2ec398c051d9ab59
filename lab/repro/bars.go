// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Bars is a bar chart that is written as SVG.
type Bars struct {
	Title, Y string
	Bars     []Bar
	MaxY     float64 // 0: from the data
}

// Bar is one bar, with a whisker from Low to High if they differ.
type Bar struct {
	Name             string
	Value, Low, High float64
}

// Write writes the chart.
func (c Bars) Write(w io.Writer) error {
	most := c.MaxY
	for _, b := range c.Bars {
		if c.MaxY == 0 {
			most = max(most, b.Value, b.High)
		}
	}
	if !(most > 0) {
		most = 1
	}
	most *= 1.02
	py := func(y float64) float64 { return top + plotHeight*(1-min(y, most)/most) }
	const width = left + plotWidth + 24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, chartHeight, width, chartHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="%d" y="18" font-size="13" font-weight="bold" fill="#1c2330">%s</text>`+"\n", left, html.EscapeString(c.Title))
	for _, y := range ticks(most) {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e7ee"/><text x="%d" y="%.1f" text-anchor="end" fill="#5b6472">%g</text>`+"\n", left, left+plotWidth, py(y), py(y), left-6, py(y)+4, y)
	}
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle" fill="#1c2330">%s</text>`+"\n", top+plotHeight/2, html.EscapeString(c.Y))
	slot := float64(plotWidth) / float64(max(1, len(c.Bars)))
	for i, bar := range c.Bars {
		x := left + slot*(float64(i)+0.5)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x-0.32*slot, py(bar.Value), 0.64*slot, top+plotHeight-py(bar.Value), palette[i%len(palette)])
		if bar.High > bar.Low {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#1c2330" stroke-width="1.5"/>`, x, x, py(bar.Low), py(bar.High))
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#1c2330">%.2f</text>`, x, py(max(bar.Value, bar.High))-4, bar.Value)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#5b6472">%s</text>`+"\n", x, top+plotHeight+17, html.EscapeString(bar.Name))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
