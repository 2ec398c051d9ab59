// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// maxKept bounds the losses and the step times of a report.
const maxKept = 32

// LossLog keeps the losses of a training in bounded memory: the first, then the mean
// of every Each losses. When there are too many points, each two become one, so the
// last one covers a sixteenth of the training at most. The zero value is an empty log.
// A copy is independent of the original.
type LossLog struct {
	Points []LossPoint `json:"points,omitempty"` // replaced, never changed in place
	Each   int         `json:"each,omitempty"`   // losses in a point; 0: 1
	Count  int         `json:"count,omitempty"`  // losses in the next point so far
	Sum    LossPoint   `json:"sum,omitzero"`     // of those
	Last   float64     `json:"last,omitempty"`   // the step of the last loss
}

// Add adds the loss at a step. A step before the last one says that work was lost:
// the points after it are dropped. Numbers whose sums could overflow are ignored.
func (l *LossLog) Add(step, loss float64) {
	const most = 1e100
	if !(step >= 0 && step <= most && math.Abs(loss) <= most) || step == l.Last && len(l.Points) > 0 {
		return
	}
	if step < l.Last {
		l.Count, l.Sum = 0, LossPoint{}
		kept := slices.IndexFunc(l.Points, func(p LossPoint) bool { return p.Step >= step })
		if kept >= 0 {
			l.Points = slices.Clip(l.Points[:kept])
		}
	}
	l.Last = step
	if len(l.Points) == 0 {
		l.Points = []LossPoint{{Step: step, Loss: loss}}
		return
	}
	l.Sum.Step += step
	l.Sum.Loss += loss
	if l.Count++; l.Count >= l.Each {
		n := float64(l.Count)
		l.keep(LossPoint{Step: l.Sum.Step / n, Loss: l.Sum.Loss / n})
		l.Count, l.Sum = 0, LossPoint{}
	}
}

func (l *LossLog) keep(p LossPoint) {
	l.Points = append(slices.Clip(l.Points), p)
	if len(l.Points) <= maxKept {
		return
	}
	fewer := []LossPoint{l.Points[0]}
	for pair := range slices.Chunk(l.Points[1:], 2) {
		fewer = append(fewer, LossPoint{
			Step: (pair[0].Step + pair[len(pair)-1].Step) / 2, Loss: (pair[0].Loss + pair[len(pair)-1].Loss) / 2,
		})
	}
	l.Points, l.Each = fewer, 2*max(1, l.Each)
}

// StepTimes returns the times of an optimiser step at a batch size on every placement
// that was measured, from profiles by GPU type; if there are many, those measured most
// often.
func StepTimes(profiles map[string]*Profile, batch int, l Limits) []StepTime {
	type counted struct {
		StepTime
		count float64
	}
	var all []counted
	for _, t := range slices.Sorted(maps.Keys(profiles)) {
		for _, s := range profiles[t].samples {
			c, ok := Split(batch, s.GPUs, l)
			if !ok {
				continue
			}
			// It may have been measured at another local batch size.
			grads := float64(c.Local*(c.Accum+1)) / float64(s.Local)
			next := counted{StepTime{Type: t, Nodes: s.Nodes, GPUs: s.GPUs, Batch: batch, Time: s.Step + (grads-1)*s.Grad()}, s.Count}
			if n := len(all); n > 0 && all[n-1].Type == t && all[n-1].Nodes == s.Nodes && all[n-1].GPUs == s.GPUs {
				last := &all[n-1]
				last.count += next.count
				last.Time += (next.Time - last.Time) * next.count / last.count
				continue
			}
			all = append(all, next)
		}
	}
	if len(all) > maxKept {
		slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(b.count, a.count) })
		all = all[:maxKept]
		slices.SortFunc(all, func(a, b counted) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.GPUs, b.GPUs))
		})
	}
	out := make([]StepTime, len(all))
	for i, c := range all {
		out[i] = c.StepTime
	}
	return out
}

// Growth returns the largest number of GPUs that a job should be given next: twice
// what it ran on, or what similar jobs had in the past, and no more than its batch can
// be split over. fixed is the batch size of a job that does not adapt it; 0: it adapts.
func Growth(ran, past, fixed int, l Limits) int {
	return max(1, min(max(2*ran, past), Usable(fixed, l)))
}

// Usable returns the largest number of GPUs that a job's batch can be split over. fixed
// is the batch size of a job that does not adapt it; 0: it adapts.
func Usable(fixed int, l Limits) int {
	largest := l.Max
	if fixed > 0 {
		largest = fixed
	}
	return max(1, largest/max(1, l.LocalMin))
}

// After returns the report with the losses, the step times and the rule of the end
// that the one before had, as far as they are left out: they have not changed.
func (r *Report) After(before *Report) *Report {
	if before == nil {
		return r
	}
	next := *r
	if len(r.Losses) == 0 {
		next.Losses = before.Losses
	}
	if len(r.StepTimes) == 0 {
		next.StepTimes = before.StepTimes
	}
	if r.Stop == (Stop{}) {
		next.Stop = before.Stop
	}
	if len(next.Losses) == len(r.Losses) && len(next.StepTimes) == len(r.StepTimes) && next.Stop == r.Stop {
		return r
	}
	return &next
}

// Changes returns the report without the losses, the step times and the rule of the
// end that the one before had. Step times within a twentieth count as the same.
func (r *Report) Changes(before *Report) *Report {
	if before == nil {
		return r
	}
	next := *r
	if slices.Equal(r.Losses, before.Losses) {
		next.Losses = nil
	}
	if slices.EqualFunc(r.StepTimes, before.StepTimes, StepTime.like) {
		next.StepTimes = nil
	}
	if r.Stop == before.Stop {
		next.Stop = Stop{}
	}
	return &next
}

func (s StepTime) like(t StepTime) bool {
	const near = 1.05
	ratio := s.Time / t.Time
	s.Time = t.Time
	return s == t && ratio < near && ratio > 1/near
}

// Runs reports whether an agent of the job runs its training, so that it saves on
// notice. The report of a job that is only watched has no limits.
func (r *Report) Runs() bool { return r != nil && r.Limits.Initial > 0 }
