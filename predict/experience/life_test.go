// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLife: run times are distributed as those of past jobs, also if some of these were
// still running when they were last seen.
func TestLife(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var g group
	for range 20_000 {
		ran := math.Log(3600 * r.ExpFloat64())
		seen := math.Log(7200 * r.ExpFloat64())
		g.add(min(ran, seen), 1, ran <= seen)
	}
	h := assumed(1)
	h.mix(&g, 2)
	l := h.life(nil)
	for _, c := range []struct{ from, u, want float64 }{
		{0, 0.5, math.Ln2}, {0, 0.9, math.Log(10)}, {1, 0.5, 1 + math.Ln2}, {2, 0.2, 2 - math.Log(0.8)}, // in hours
	} {
		if got := math.Exp(l.after(math.Log(3600*c.from), c.u)) / 3600; math.Abs(got-c.want) > 0.05*c.want {
			t.Errorf("after %g h, a part %g ends by %.3f h; want %.3f", c.from, c.u, got, c.want)
		}
	}
	far := math.Log(1e12)
	if got := l.after(far, 0.5); !(got > far) || math.IsInf(got, 1) {
		t.Errorf("beyond the grid: %g after %g; want more", got, far)
	}
}

// TestTrust: what counts as alike is learned from past jobs: the model on one cluster, the
// tenant on another.
func TestTrust(t *testing.T) {
	hours := func(n int) time.Duration { return time.Duration(n) * time.Hour }
	names := []string{"a", "b", "c", "d"}
	var byModel, byTenant Lengths
	for i := range 64 {
		k := JobKey{Tenant: names[i%4], Model: names[i/4%4], GPUs: 1}
		byModel.Learn(Run{Key: k, Ran: hours(1 << (3 * (i / 4 % 4)))}, Track{})
		byTenant.Learn(Run{Key: k, Ran: hours(1 << (3 * (i % 4)))}, Track{})
	}
	ask := Run{Key: JobKey{Tenant: "a", Model: "d", GPUs: 1}}
	near := func(e Expected, want time.Duration) bool { return (e.Middle - want).Abs() < want/10 }
	if e := byModel.Expect(ask); !near(e, hours(512)) {
		t.Errorf("where the model says it: %s; want about 512h", e.Middle)
	}
	if e := byTenant.Expect(ask); !near(e, hours(1)) {
		t.Errorf("where the tenant says it: %s; want about 1h", e.Middle)
	}
}

// TestFewJobs: the fewer jobs have ended, the wider the draws spread.
func TestFewJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key := JobKey{User: "ann", GPUs: 1}
	spread := func(jobs int) float64 {
		var l Lengths
		for i := range jobs {
			l.Learn(Run{Key: key, Ran: time.Duration(1+i%4) * time.Hour}, Track{})
		}
		sum, squares, n := 0.0, 0.0, 400.0
		for range int(n) {
			left, _ := l.Future(r)(Run{Key: key})
			x := math.Log(left.Seconds())
			sum, squares = sum+x, squares+x*x
		}
		return math.Sqrt(squares/n - sum/n*sum/n)
	}
	few, some, many := spread(1), spread(8), spread(200)
	if few < 1.1*some || some < 1.1*many || many < 0.3 || many > 0.9 {
		t.Errorf("the logarithms of draws spread by %.2f after 1 job, %.2f after 8, %.2f after 200; want less and less, in the end about 0.5", few, some, many)
	}
}
