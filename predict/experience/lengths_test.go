// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// learned has seen 200 jobs of one user, who asks for twice as long as they take.
func learned() (*Lengths, JobKey) {
	l, key := &Lengths{}, JobKey{Tenant: "lab", User: "ann"}
	for i := range 200 {
		l.Learn(Run{Key: key, Estimate: 2 * time.Hour, Ran: time.Hour + time.Duration(i-100)*time.Second}, Track{})
	}
	return l, key
}

// TestLengths: run times are drawn with the errors that expectations had, and never
// below what the job has run already.
func TestLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	if _, basis := (&Lengths{}).Future(r)(Run{}); basis != Nothing {
		t.Errorf("nothing has ended, and the draw is based on %q", basis)
	}
	l, ann := learned()
	bob, eve := JobKey{User: "bob"}, JobKey{User: "eve"}
	for range 100 {
		// His jobs fail after an hour, whatever they report; hers take twice as long as that.
		l.Learn(Run{Key: bob, Ran: time.Hour, Whole: 5 * time.Hour, Done: time.Hour}, Track{1: {Ran: 30 * time.Minute, Left: 270 * time.Minute}})
		l.Learn(Run{Key: eve, Ran: 10 * time.Hour, Whole: 5 * time.Hour, Done: 5 * time.Hour}, Track{2: {Ran: 2 * time.Hour, Left: 4 * time.Hour}})
	}
	for _, c := range []struct {
		name  string
		run   Run
		basis Basis
		want  time.Duration // middle of what is left
	}{
		{"no estimate: similar jobs", Run{Key: ann}, Similar, time.Hour},
		{"an estimate counts beside similar jobs", Run{Key: ann, Estimate: 2 * time.Hour}, Estimated, time.Hour},
		{"no similar jobs: all", Run{}, Anything, time.Hour},
		{"longer than ever: in proportion", Run{Key: ann, Ran: 100 * time.Hour}, Similar, 67 * time.Hour},
		{"most jobs of his end early", Run{Key: bob, Ran: 45 * time.Minute, Whole: 10 * time.Hour, Done: 45 * time.Minute}, Reported, 15 * time.Minute},
		{"reports that proved wrong", Run{Key: eve, Ran: 4 * time.Hour, Whole: 10 * time.Hour, Done: 2 * time.Hour}, Reported, 16 * time.Hour},
		{"reports", Run{Key: ann, Ran: 6 * time.Hour, Whole: 10 * time.Hour, Done: 6 * time.Hour}, Reported, 4 * time.Hour},
	} {
		var all []time.Duration
		for range 299 {
			left, basis := l.Future(r)(c.run)
			if left <= 0 || basis != c.basis {
				t.Fatalf("%s: drawn %s on basis %q; want more than 0, on basis %q", c.name, left, basis, c.basis)
			}
			all = append(all, left)
		}
		slices.Sort(all)
		if got := all[len(all)/2]; got < c.want*85/100 || got > c.want*115/100 {
			t.Errorf("%s: the middle is %s; want about %s", c.name, got, c.want)
		}
	}
}

// TestExpect: what an expectation is based on, and of how many jobs.
func TestExpect(t *testing.T) {
	l, ann := learned()
	for _, c := range []struct {
		run  Run
		want Expected
	}{
		{Run{Key: ann}, Expected{time.Hour, Similar, 200}},
		{Run{Key: JobKey{User: "eve"}}, Expected{time.Hour, Anything, 200}},
		{Run{Key: ann, Estimate: 2 * time.Hour}, Expected{time.Hour, Estimated, 200}},
		{Run{Key: ann, Whole: 5 * time.Hour}, Expected{5 * time.Hour, Reported, 200}},
	} {
		if got := l.Expect(c.run); got.Basis != c.want.Basis || got.Jobs != c.want.Jobs || (got.Middle-c.want.Middle).Abs() > c.want.Middle/20 {
			t.Errorf("of %+v expected %+v; want %+v", c.run, got, c.want)
		}
	}
	if got := (&Lengths{}).Expect(Run{}); got != (Expected{}) {
		t.Errorf("nothing has ended, and %+v is expected", got)
	}
}
