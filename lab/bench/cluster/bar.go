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
)

// bar shows how far a run is: on a terminal all the time, elsewhere now and then.
type bar struct {
	out   io.Writer
	live  bool
	begin time.Time
	shown time.Time
}

func newBar(out io.Writer) *bar {
	f, ok := out.(*os.File)
	return &bar{out: out, live: ok && term.IsTerminal(int(f.Fd())), begin: time.Now()}
}

// say prints a line.
func (b *bar) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// show draws the bar.
func (b *bar) show(name string, done, all int, more string) {
	const width, seldom = 30, 10 * time.Second
	if !b.live && time.Since(b.shown) < seldom {
		return
	}
	b.shown = time.Now()
	full := min(width, width*done/max(1, all))
	line := fmt.Sprintf("%s [%s%s] %d of %d jobs bound, %s, %s", name, strings.Repeat("#", full), strings.Repeat(".", width-full), done, all, more, time.Since(b.begin).Round(time.Second))
	if b.live {
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(b.out, line)
}

// end leaves the line of the bar.
func (b *bar) end() {
	if b.live {
		fmt.Fprintln(b.out)
	}
}
