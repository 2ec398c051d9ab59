// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "512": 512, "64KiB": 64 << 10, "3GiB": 3 << 30} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", text, got, err, want)
		}
	}
}
