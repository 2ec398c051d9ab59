// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes that may be written with a unit: "64MiB".
type Size int64

// SizeForm says how a size is written.
const SizeForm = "a number of bytes, or one with KiB, MiB, GiB or TiB, of up to 4194304TiB"

// String uses the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a number, with or without a unit.
func (s *Size) UnmarshalText(b []byte) error {
	text, factor := string(b), int64(1)
	for _, u := range sizeUnits {
		if t, ok := strings.CutSuffix(text, u.name); ok {
			text, factor = t, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("size %.40s: want %s", b, SizeForm)
	}
	*s = Size(n * factor)
	return nil
}
