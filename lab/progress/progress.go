// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress draws the progress of a long run on one line of a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Bar is a progress bar. If its writer is not a terminal, it prints a line every
// Interval, or nothing if that is 0.
type Bar struct {
	Interval time.Duration

	out   io.Writer
	live  bool // a terminal
	shown time.Time
}

// New makes a bar on a writer.
func New(out io.Writer) *Bar {
	f, ok := out.(*os.File)
	return &Bar{out: out, live: ok && term.IsTerminal(int(f.Fd()))}
}

// Show draws the name, the bar and the detail, on a terminal at most ten times a
// second.
func (b *Bar) Show(name string, done, all int, detail string) {
	every := b.Interval
	if b.live {
		every = 100 * time.Millisecond
	}
	if every == 0 || time.Since(b.shown) < every {
		return
	}
	b.shown = time.Now()
	const width = 30
	full := min(width, width*done/max(1, all))
	line := fmt.Sprintf("%-14s [%s%s] %s", name, strings.Repeat("#", full), strings.Repeat(".", width-full), detail)
	if b.live {
		fmt.Fprintf(b.out, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(b.out, line)
}

// Clear removes the bar from a terminal.
func (b *Bar) Clear() {
	if b.live && !b.shown.IsZero() {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}
