// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/sched"
)

// Builder returns a function that reads a spec, such as "las:lease=1h", for Run: a
// policy's tests cannot use the table of package policy, which imports them.
func Builder[C any](standard C, make func(C) (sched.Policy, error)) Build {
	return func(spec string) (sched.Policy, error) {
		c := standard
		for _, word := range strings.Split(spec, ":")[1:] {
			name, value, ok := strings.Cut(word, "=")
			if !ok {
				return nil, fmt.Errorf("word %q; want knob=value", word)
			}
			if err := knob.Set(&c, name, value); err != nil {
				return nil, err
			}
		}
		return make(c)
	}
}

// Bench measures decisions, including check and diff, and reports their 99th
// percentile. Before each decision it lets something happen, and afterwards it
// carries the decision out; neither is measured.
func (w *World) Bench(b *testing.B, p sched.Policy, happen func()) {
	b.Helper()
	var took []float64
	for b.Loop() {
		b.StopTimer()
		happen()
		s := w.State.Snapshot(w.Now)
		b.StartTimer()
		begin := time.Now()
		if _, _, err := sched.Decide(p, s); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
		b.StopTimer()
		if _, _, err := w.Decide(p); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)*99/100], "p99-ms")
}
