// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/fairway-gpu/fairway/sched"
)

// clean makes text of other people safe to print: what could move the cursor,
// colour the screen or end the line becomes a question mark.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

// columns returns how many columns of a terminal a rune takes.
func columns(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// fit cuts text to a width; an ellipsis shows that something is missing.
func fit(s string, width int) string {
	if textWidth(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	var b strings.Builder
	used := 0
	for _, r := range s {
		if used+columns(r) > width-1 {
			break
		}
		used += columns(r)
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// pad fits text and fills it up with blanks.
func pad(s string, width int) string {
	s = fit(s, width)
	return s + strings.Repeat(" ", max(0, width-textWidth(s)))
}

// grid prints rows in columns as wide as they need to be. No line is wider than
// the width that is asked for; 0: they may be.
type grid struct {
	rows  [][]string
	right []bool // columns whose text ends at the same place
	wrap  bool   // the last column goes on below itself, instead of being cut
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) print(w io.Writer, indent string, width int) {
	var widths []int
	for _, row := range g.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], textWidth(cell))
		}
	}
	for _, row := range g.rows {
		var b strings.Builder
		b.WriteString(indent)
		last := 0
		for i, cell := range row {
			last = textWidth(b.String())
			gap := strings.Repeat(" ", widths[i]-textWidth(cell))
			switch {
			case i < len(g.right) && g.right[i]:
				b.WriteString(gap + cell + "  ")
			case i == len(row)-1:
				b.WriteString(cell)
			default:
				b.WriteString(cell + gap + "  ")
			}
		}
		line := strings.TrimRight(b.String(), " ")
		for g.wrap && width > last+minWrap && textWidth(line) > width {
			var first string
			first, line = breakLine(line, width, last)
			fmt.Fprintln(w, first)
		}
		if width > 0 {
			line = fit(line, width)
		}
		fmt.Fprintln(w, line)
	}
}

// minWrap is the least room in which wrapped text can still be read.
const minWrap = 20

// breakLine parts a line at the last blank before width, or within a word that
// is longer than that; the rest begins below the column at indent.
func breakLine(line string, width, indent int) (first, rest string) {
	used, cut := 0, 0
	for i, r := range line {
		if r == ' ' && used > indent {
			cut = i
		}
		if used += columns(r); used > width {
			if cut == 0 {
				cut = i
			}
			break
		}
	}
	return line[:cut], strings.Repeat(" ", indent) + strings.TrimLeft(line[cut:], " ")
}

func briefSeconds(s float64) string {
	const most = 100 * 365 * 86400
	return sched.Brief(time.Duration(min(s, most) * float64(time.Second)))
}

// number prints a number with the digits that matter.
func number(f float64) string {
	switch {
	case f == float64(int64(f)) && f < 1e15 && f > -1e15:
		return fmt.Sprintf("%d", int64(f))
	case f >= 100 || f <= -100:
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// gibibytes prints a size of memory.
func gibibytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// several prints a count with its noun.
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// meter draws a share of 0 to 1 as a bar.
func meter(share float64, width int) string {
	full := max(0, min(width, int(share*float64(width)+0.5)))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// clock prints a moment so that a person knows the day, if it is not today.
func clock(now, t time.Time) string {
	t = t.In(now.Location())
	if now.Format(time.DateOnly) == t.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("Jan 02 15:04:05")
}

// orDash replaces text that is not there.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return clean(s)
}
