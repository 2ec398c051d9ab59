// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const text = "4711 (a) (b c) S 12 4711 99 0 -1 4194304 100 0 0 0 7 8 9 10 20 0 1 0 5555 1000 25 18446744073709551615 1 1 0 0 0 0 0 0 0"
	got, err := parseStat(text)
	want := Process{PID: 4711, Parent: 12, Session: 99, State: 'S', Ticks: 34, Start: 5555, RSS: 25 * int64(os.Getpagesize())}
	if err != nil || got != want {
		t.Errorf("%+v %v; want %+v", got, err, want)
	}
	if self, err := Read(os.Getpid()); err != nil || self.Parent != os.Getppid() || self.RSS == 0 {
		t.Errorf("self: %+v %v", self, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("4711 (a) (b c) S 12 4711 99 0 -1 4194304 100 0 0 0 7 8 9 10 20 0 1 0 5555 1000 25 18446744073709551615")
	f.Add("1 () Z")
	f.Add(")1(")
	f.Add("0()\x00 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parseStat(text); err == nil && p.State == 0 {
			t.Errorf("%q: %+v", text, p)
		}
	})
}
