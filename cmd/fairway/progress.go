// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fairway-gpu/fairway/sim"
)

// bar is a progress bar of one line. On anything but a terminal it prints
// nothing.
type bar struct {
	w     io.Writer
	label string
	last  time.Time
	drawn bool
}

func newBar(w io.Writer, label string) *bar {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		w = nil
	}
	return &bar{w: w, label: label}
}

// update redraws the bar, at most ten times a second.
func (b *bar) update(p sim.Progress) {
	if b.w == nil || time.Since(b.last) < 100*time.Millisecond {
		return
	}
	b.last, b.drawn = time.Now(), true
	const width = 30
	filled := 0
	if p.Jobs > 0 {
		filled = width * p.Ended / p.Jobs
	}
	fmt.Fprintf(b.w, "\r%-14s [%s%s] %d/%d jobs, %s simulated, %d decisions\x1b[K",
		b.label, strings.Repeat("#", filled), strings.Repeat(".", width-filled),
		p.Ended, p.Jobs, human(p.Now.Seconds()), p.Decisions)
}

func (b *bar) done() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// human prints seconds in the unit a person would choose.
func human(s float64) string {
	switch {
	case s < 0:
		return "-"
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.1f min", s/60)
	case s < 2*86400:
		return fmt.Sprintf("%.2f h", s/3600)
	}
	return fmt.Sprintf("%.1f d", s/86400)
}
