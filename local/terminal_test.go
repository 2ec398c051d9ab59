// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"testing"
)

// FuzzReceive: no input breaks the reader of a terminal's messages, none makes it keep
// more than a message may have, and what was sent is received.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("i\x00\x00\x00\x02ls"))
	f.Add([]byte("o\xff\xff\xff\xff"))
	f.Add([]byte("w"))
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, content, err := receive(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := (&messages{w: &b}).send(kind, content); err != nil || !bytes.HasPrefix(data, b.Bytes()) || len(content) > maxMessage {
			t.Errorf("%q came back as %q, %v", data, b.Bytes(), err)
		}
	})
}
