// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// FuzzRestore: an export with any contents gives numbered records or is refused.
func FuzzRestore(f *testing.F) {
	text, err := os.ReadFile("../../e2e/testdata/v0.1/journal.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text[:20_000]))
	f.Add(`{"snapshot":{"seq":7},"up_to":7}` + "\n" + `{"seq":8,"at":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"snapshot":`)
	f.Add("\n\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		e := &exported{lines: bufio.NewReader(strings.NewReader(text))}
		b, err := e.begin()
		for n := 0; err == nil; n++ {
			var payload []byte
			payload, err = b.Next()
			if err == nil && (len(payload) == 0 || e.next != b.UpTo+uint64(n)+2) {
				t.Fatalf("record %d of %d bytes; the next is %d", n, len(payload), e.next)
			}
		}
		if errors.Is(err, io.EOF) && e.read == 0 && b.Snapshot == nil {
			t.Error("nothing was read, and nothing was said")
		}
	})
}
