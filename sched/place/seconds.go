// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math"
	"time"
)

// century is longer than any wait and far from the end of time.Duration.
const century = 100 * 365 * 24 * time.Hour

// Seconds returns a number of seconds, not negative, as a duration: rounded up
// to whole nanoseconds, so that what is due after it is really due, and at most
// a century.
func Seconds(x float64) time.Duration {
	switch {
	case !(x > 0):
		return 0
	case x >= century.Seconds():
		return century
	}
	return time.Duration(math.Ceil(x * float64(time.Second)))
}
