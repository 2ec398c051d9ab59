// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// printer writes sections; errors stay in the writer until Flush.
type printer struct{ w *bufio.Writer }

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *printer) section(title string, t *grid) {
	p.line("\n%s", title)
	t.print(p.w)
}

// grid is a table whose columns are aligned: the first one and bars to the
// left, numbers to the right.
type grid struct{ rows [][]string }

func newGrid(head ...string) *grid { return &grid{rows: [][]string{head}} }

func (g *grid) row(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) print(w *bufio.Writer) {
	width := make([]int, len(g.rows[0]))
	for _, row := range g.rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range g.rows {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			line.WriteString("  ")
			if i == 0 || g.isBar(i) {
				line.WriteString(c + pad)
			} else {
				line.WriteString(pad + c)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// isBar reports whether a column has bars.
func (g *grid) isBar(i int) bool {
	for _, row := range g.rows[1:] {
		if r, _ := utf8.DecodeRuneInString(row[i]); r >= '▁' && r <= '▏' {
			return true
		}
	}
	return g.rows[0][i] == ""
}

// bar draws a share as a bar of up to 20 characters.
func bar(share float64) string {
	const width = 20
	eighths := int(math.Round(min(max(share, 0), 1) * width * 8))
	if eighths == 0 && share > 0 {
		eighths = 1
	}
	out := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		out += string(rune('█' + 8 - rest)) // ▏ is one eighth, ▉ seven
	}
	return out
}

// spark draws values as columns, the largest of them full.
func spark(values []float64) string {
	var most float64
	for _, v := range values {
		most = max(most, v)
	}
	var out strings.Builder
	for _, v := range values {
		eighths := 0
		if most > 0 {
			eighths = int(math.Round(v / most * 7))
		}
		out.WriteRune('▁' + rune(eighths))
	}
	return out.String()
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// percentOr leaves out unknown shares.
func percentOr(share float64) string {
	if share == 0 {
		return "-"
	}
	return percent(share)
}

func minutes(m float64) string {
	if m >= 100 {
		return grouped(int(math.Round(m)))
	}
	return fmt.Sprintf("%.2f", m)
}

// span prints seconds with two significant digits: 45s, 3.2m, 5.0h, 12d.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", seconds)
	case d < time.Hour:
		return fmt.Sprintf("%.1fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1fh", d.Hours())
	}
	return fmt.Sprintf("%.1fd", d.Hours()/24)
}

// grouped prints a number with separators between thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
