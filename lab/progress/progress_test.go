// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNoTerminal: a file gets a line now and then, or none.
func TestNoTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		b := New(&out)
		b.Show("fifo", 1, 4, "silent")
		b.Interval = 10 * time.Second
		b.Show("fifo", 1, 4, "first")
		b.Show("fifo", 2, 4, "too soon")
		time.Sleep(10 * time.Second)
		b.Show("fifo", 8, 4, "later")
		b.Clear()
		want := "fifo           [#######.......................] first\nfifo           [##############################] later\n"
		if out.String() != want {
			t.Errorf("got %q; want %q", out.String(), want)
		}
	})
}

func TestTerminal(t *testing.T) {
	var out strings.Builder
	b := New(&out)
	b.live = true
	b.Clear() // nothing drawn yet
	b.Show("fifo", 0, 0, "x")
	b.Clear()
	if want := "\rfifo           [..............................] x\x1b[K\r\x1b[K"; out.String() != want {
		t.Errorf("got %q; want %q", out.String(), want)
	}
}
