// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLengths: run times are drawn with the errors that expectations had, and never
// below what the job has run already.
func TestLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l Lengths
	key := JobKey{Tenant: "lab", User: "ann"}
	if _, basis := l.Future(r)(key, 0, 0); basis != Nothing {
		t.Errorf("nothing has ended, and the draw is based on %d", basis)
	}
	for i := range 200 { // her jobs take half of what she says, give or take
		l.Learn(key, 2*time.Hour, time.Hour+time.Duration(i-100)*time.Second)
	}
	middle := func(k JobKey, estimate, ran time.Duration, want Basis) time.Duration {
		t.Helper()
		var all []time.Duration
		for range 999 {
			total, basis := l.Future(r)(k, estimate, ran)
			if total <= ran || basis != want {
				t.Fatalf("drawn %s on basis %d after %s; want more, on basis %d", total, basis, ran, want)
			}
			all = append(all, total)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, c := range []struct {
		name          string
		key           JobKey
		estimate, ran time.Duration
		basis         Basis
		want          time.Duration
	}{
		{"an estimate is taken as it proved before", key, 10 * time.Hour, 0, Estimated, 5 * time.Hour},
		{"no estimate: similar jobs", key, 0, 0, Similar, time.Hour},
		{"no similar jobs: all", JobKey{}, 0, 0, Anything, time.Hour},
		{"longer than ever: in proportion", key, 0, 100 * time.Hour, Similar, 159 * time.Hour},
	} {
		if got := middle(c.key, c.estimate, c.ran, c.basis); got < c.want*9/10 || got > c.want*11/10 {
			t.Errorf("%s: the middle is %s; want about %s", c.name, got, c.want)
		}
	}
}
