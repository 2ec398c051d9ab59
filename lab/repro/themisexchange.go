// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Exchange is what two apps held over time.
type Exchange struct {
	Apps [2]sched.AppID
	Rho  [2]float64
	Held [2][][2]float64 // hours since the first of them arrived, GPUs held from then on
}

// holding is how many GPUs an app has over time.
type holding struct {
	app        sched.AppID
	rho        float64
	start, end float64      // seconds
	steps      [][2]float64 // seconds, GPUs from then on
}

// holdings adds up what the jobs of every app held, in order of arrival.
func holdings(res *sim.Result) []*holding {
	var out []*holding
	byApp := map[sched.AppID]*holding{}
	for i := range res.Jobs {
		j := &res.Jobs[i]
		h := byApp[j.App]
		if h == nil {
			h = &holding{app: j.App, rho: j.Rho, start: j.Submit}
			byApp[j.App] = h
			out = append(out, h)
		}
		h.end = max(h.end, j.End)
		for _, s := range j.Runs {
			h.steps = append(h.steps, [2]float64{s.Start, float64(s.GPUs)}, [2]float64{s.End, -float64(s.GPUs)})
		}
	}
	for _, h := range out {
		h.sum()
	}
	return out
}

// sum turns changes in any order into levels by time.
func (h *holding) sum() {
	slices.SortStableFunc(h.steps, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	sum := 0.0
	keep := h.steps[:0]
	for _, s := range h.steps {
		sum += s[1]
		if n := len(keep); n > 0 && keep[n-1][0] == s[0] {
			keep[n-1][1] = sum
			continue
		}
		keep = append(keep, [2]float64{s[0], sum})
	}
	h.steps = keep
}

// at returns the GPUs held at a time.
func (h *holding) at(t float64) float64 {
	i, found := slices.BinarySearchFunc(h.steps, t, func(s [2]float64, t float64) int { return cmp.Compare(s[0], t) })
	if found {
		return h.steps[i][1]
	}
	if i == 0 {
		return 0
	}
	return h.steps[i-1][1]
}

// traded adds up, in steps of a lease, what one app gained while the other lost,
// and returns the smaller of the two directions.
func traded(a, b *holding) float64 {
	step := themisLease.Seconds()
	from, to := max(a.start, b.start), min(a.end, b.end)
	toA, toB := 0.0, 0.0
	for t := from + step; t < to; t += step {
		da, db := a.at(t)-a.at(t-step), b.at(t)-b.at(t-step)
		switch {
		case da > 0 && db < 0:
			toA += min(da, -db)
		case da < 0 && db > 0:
			toB += min(-da, db)
		}
	}
	return min(toA, toB)
}

// maxLife keeps the timeline readable.
const maxLife = 24 * 3600

// exchangeOf finds the two apps that traded most.
func exchangeOf(res *sim.Result) Exchange {
	all := slices.DeleteFunc(holdings(res), func(h *holding) bool { return h.end-h.start > maxLife })
	var best [2]*holding
	most := 0.0
	for i, a := range all {
		for _, b := range all[i+1:] {
			if x := traded(a, b); x > most {
				most, best = x, [2]*holding{a, b}
			}
		}
	}
	var t Exchange
	if best[0] == nil {
		return t
	}
	arrival := min(best[0].start, best[1].start)
	for i, h := range best {
		t.Apps[i], t.Rho[i] = h.app, h.rho
		t.Held[i] = append(t.Held[i], [2]float64{(h.start - arrival) / 3600, h.at(h.start)})
		for _, s := range h.steps {
			if s[0] > h.start {
				t.Held[i] = append(t.Held[i], [2]float64{(s[0] - arrival) / 3600, s[1]})
			}
		}
	}
	return t
}

func (t *Themis) printExchange(w io.Writer, images string) {
	e := t.Exchange
	if e.Apps[0] == "" {
		return
	}
	fmt.Fprintf(w, `
## Two apps that trade

The two apps that exchanged the most GPUs, among those of the first mix at full contention
that last less than %.0f hours: %s and %s. Time starts when the first of them
arrives.

![GPUs held by two apps](%s/themis-exchange.svg)
`, (maxLife * time.Second).Hours(), e.Apps[0], e.Apps[1], images)
}
