// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
)

// forecastJobs is the longest queue for which all starts are forecast together. In a
// longer one only the job that is asked for, and those that go before it, are looked at.
const forecastJobs = 200

// forecastTime bounds a forecast, and restTimes its share of the time: after one, so
// many times its cost passes before the next.
const (
	forecastTime = 300 * time.Millisecond
	restTimes    = 20
)

// foresight is the last forecast. Who holds mu takes no other lock.
type foresight struct {
	busy   sync.Mutex // held during a forecast
	mu     sync.Mutex
	seq    uint64
	at     time.Time
	cost   time.Duration
	all    bool // it is of all jobs
	starts map[sched.JobID]forecast.Range
}

// fresh reports whether the forecast still serves at now, when the journal has come to
// seq.
func (f *foresight) fresh(id sched.JobID, seq uint64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.starts[id]; !known && !f.all {
		return false
	}
	return now.Sub(f.at) < restTimes*f.cost || seq == f.seq && now.Equal(f.at)
}

// look renews the forecast for a job, or for all, if it is old. The caller holds no
// lock.
func (b *Store) look(id sched.JobID) {
	f := &b.foresight
	if !f.busy.TryLock() {
		return // somebody else renews it
	}
	defer f.busy.Unlock()
	b.mu.RLock()
	seq, jobs, x := b.mem.Seq, b.mem.state.Jobs(), b.mem.jobs[id]
	waits := jobs > 0 && (id == "" && jobs <= forecastJobs || x != nil && x.Job.Phase == sched.Pending)
	b.mu.RUnlock()
	now := b.Now()
	if !waits || f.fresh(id, seq, now) {
		return
	}
	c, s, err := b.futures()
	if err != nil {
		return
	}
	starts, err := b.forecastStarts(s, c, id)
	if err != nil {
		b.Log.Warn("forecast starts", "err", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq, f.at, f.cost, f.all, f.starts = seq, now, b.Now().Sub(now), jobs <= forecastJobs, starts
}

// forecastStarts forecasts the start of one job, or of all.
func (b *Store) forecastStarts(s *sched.Snapshot, c forecast.Config, id sched.JobID) (map[sched.JobID]forecast.Range, error) {
	if len(s.Jobs) <= forecastJobs {
		return forecast.Starts(s, c)
	}
	about := b.Policies.About(b.policySpec())
	i := slices.IndexFunc(s.Jobs, func(j *sched.Job) bool { return j.ID == id })
	if i < 0 {
		return nil, nil
	}
	var jobs []*sched.Job
	for _, j := range s.Jobs {
		_, behind := about.Order.Ahead(s.Jobs[i], j, s.Now)
		if j.Phase == sched.Running || j == s.Jobs[i] || !behind {
			jobs = append(jobs, j)
		}
	}
	return forecast.Starts(s.With(jobs), c, id)
}

func (b *Store) policySpec() string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.mem.Policy
}

// futures returns the present and how to look ahead from it.
func (b *Store) futures() (forecast.Config, *sched.Snapshot, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	now := b.now()
	p, err := b.buildPolicy(b.mem.Policy)
	if err != nil {
		return forecast.Config{}, nil, err
	}
	lengths, reported := b.mem.lengths(), map[sched.JobID]float64{}
	for x := range b.mem.queue() {
		if x.Job.Phase == sched.Running {
			lengths.Watch(likeOf(x.Job), x.Job.Estimate.D(), x.Job.RanBy(now))
		}
		if w := x.whole(); w > 0 && x.Rate > 0 {
			reported[x.Job.ID] = x.left(now)
		}
	}
	begin := b.Now()
	return forecast.Config{
		Policy: p, Most: forecast.MostJobs / 4,
		Stop: func() bool { return b.Now().Sub(begin) > forecastTime },
		Future: func(r *rand.Rand) forecast.Left {
			draw := lengths.Future(r)
			return func(j *sched.Job) (time.Duration, bool) {
				if left, ok := reported[j.ID]; ok {
					return time.Duration(left * math.Exp(experience.ReportSpread*r.NormFloat64()) * float64(time.Second)), true
				}
				total, basis := draw(likeOf(j), j.Estimate.D(), j.RanBy(now))
				return total - j.RanBy(now), basis != experience.Nothing
			}
		},
	}, b.mem.state.Frozen(now), nil
}

// lengths returns how long the jobs ran that have ended.
func (m *memory) lengths() *experience.Lengths {
	l := &experience.Lengths{}
	for _, x := range m.Ended {
		l.Learn(likeOf(x.Job), x.Job.Estimate.D(), x.Job.Ran.D())
	}
	return l
}

func likeOf(j *sched.Job) experience.JobKey {
	return experience.JobKey{App: string(j.App), Tenant: string(j.Tenant), User: j.User, Model: j.Model, GPUs: j.GPUs}
}

// expect fills in when a job is expected to start.
func (b *Store) expect(x *entry, r *api.Reason) {
	if r.Code == sched.BackOff.String() || r.Code == sched.TurnWait.String() && !r.Until.IsZero() {
		return
	}
	b.foresight.mu.Lock()
	f, ok := b.foresight.starts[x.Job.ID]
	b.foresight.mu.Unlock()
	if ok {
		r.Earliest, r.Until, r.Latest = f.Early, f.Middle, f.Late
	} else {
		r.Unknown = b.unknownStart()
	}
}

// unknownStart says why there is no forecast.
func (b *Store) unknownStart() string {
	if b.mem.state.Jobs() > forecastJobs {
		return fmt.Sprintf("%d jobs wait or run, too many to look that far ahead", b.mem.state.Jobs())
	}
	if len(b.mem.Ended) == 0 {
		for x := range b.mem.queue() {
			if x.Job.Phase == sched.Running && x.left(b.now()) == 0 {
				return "a running job has no estimate and reports no progress, and no job has ended yet"
			}
		}
	}
	return "it lies beyond what can be looked ahead"
}
