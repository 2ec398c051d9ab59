// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
)

func TestLeaseOf(t *testing.T) {
	for spec, want := range map[string]time.Duration{"themis": 10 * time.Minute, "themis:f=0.5:lease=90s": 90 * time.Second, "las": 0, "pollux": 0} {
		p, err := policy.Builtin().New(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := leaseOf(p, spec); got != want || ok != (want > 0) {
			t.Errorf("%s: lease %s, %v; want %s", spec, got, ok, want)
		}
	}
}
