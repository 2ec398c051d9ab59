// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

func TestFaultFlags(t *testing.T) {
	for _, tc := range []struct {
		flags faultFlags
		want  string // in the error; "" for none
	}{
		{faultFlags{}, ""},
		{faultFlags{screen: sched.Duration(5 * time.Minute), badNodes: 0.5}, ""},
		{faultFlags{screen: -1}, "--screen"},
		{faultFlags{badNodes: -1}, "--bad-nodes -1: want 0 to 0.5"},
		{faultFlags{badNodes: 2}, "--bad-nodes 2: want 0 to 0.5"},
		{faultFlags{badNodes: math.NaN()}, "--bad-nodes NaN"},
	} {
		_, err := (&simFlags{share: "off", faults: tc.flags}).over("fifo")
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.flags, err, tc.want)
		}
	}
}
