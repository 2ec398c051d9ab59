// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
)

// Parts is what a measured step spent on other things than computing, in seconds. Zero: not
// measured.
type Parts struct {
	// Exchange is how long collective exchanges were under way, on the rank where that was
	// shortest: the others also waited for it to begin.
	Exchange float64 `json:"exchange"`
	Wait     float64 `json:"wait"`             // of that, with nothing computed meanwhile; the mean of all ranks
	Bubble   float64 `json:"bubble,omitempty"` // with nothing to do but to wait for another stage; the mean
}

// longest is the most seconds that a part may have.
const longest = 1e9

// Validate reports the first part that is out of range.
func (p Parts) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"exchange", p.Exchange}, {"wait", p.Wait}, {"bubble", p.Bubble}} {
		if math.IsNaN(f.value) || f.value < 0 || f.value > longest {
			return fmt.Errorf("%s = %g; want seconds, 0 to %g", f.name, f.value, float64(longest))
		}
	}
	return nil
}
