// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
)

// forecastJobs is the longest queue for which starts are forecast with the policy. In a
// longer one the start of the job that is asked for is only estimated.
const forecastJobs = 200

// forecastTime bounds a forecast, and restTimes its share of the time: after one, so
// many times its cost passes before the next.
const (
	forecastTime = 300 * time.Millisecond
	restTimes    = 20
)

// foresight is the last forecast, and what earlier ones were worth. Who holds mu takes no
// other lock.
type foresight struct {
	busy   sync.Mutex // held during a forecast
	mu     sync.Mutex
	seq    uint64
	at     time.Time
	cost   time.Duration
	all    bool // it is of all jobs
	starts map[sched.JobID]forecast.Range
	rough  string    // why it was made without the policy; "": with it
	slow   time.Time // until then the policy is taken to be too slow
	// present serves the estimates of many jobs, one by one. It is as of presentAt, and to look
	// at all jobs for it took so long.
	present     futures
	presentAt   time.Time
	presentCost time.Duration
	// played and coarse are what forecasts with and without the policy were worth, under one
	// policy.
	played, coarse record
	policy         string
}

// record is what forecasts of one kind were worth: asked are the first ones of jobs that have
// not started, and ledger compares those of jobs that have.
type record struct {
	asked  map[sched.JobID]forecast.Asked
	ledger forecast.Ledger
}

// record returns that of forecasts made without the policy because of rough; "": with it.
func (f *foresight) record(rough string) *record {
	if rough != "" {
		return &f.coarse
	}
	return &f.played
}

// fresh reports whether the forecast still serves at now, when the journal has come to
// seq.
func (f *foresight) fresh(id sched.JobID, seq uint64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.starts[id]; !known && !(f.all && (id == "" || f.rough == "")) {
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
	seq, jobs, x, spec := b.mem.Seq, b.mem.state.Jobs(), b.mem.jobs[id], b.mem.Policy
	waits := jobs > 0 && (id == "" && jobs <= forecastJobs || x != nil && x.Job.Phase == sched.Pending && !x.Hold)
	b.mu.RUnlock()
	now := b.Now()
	if !waits || f.fresh(id, seq, now) {
		return
	}
	if jobs <= forecastJobs || f.present.spec != spec || now.Sub(f.presentAt) >= restTimes*f.presentCost { // the lock busy is held
		c, err := b.futures()
		if err != nil {
			return
		}
		f.present, f.presentAt, f.presentCost = c, now, b.Now().Sub(now)
	}
	c := f.present
	c.slow = now.Before(f.slow)
	c.Stop = func() bool { return b.Now().Sub(now) > forecastTime }
	starts, rough, err := c.starts(c.now, id)
	if err != nil {
		b.Log.Warn("forecast starts", "err", err)
	}
	b.settle(c.spec)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq, f.at, f.cost, f.starts, f.rough = seq, now, b.Now().Sub(now), f.record(rough).correct(starts, c.now.Now), rough
	f.all = rough == "" || id == ""
	if c.slow && !now.Before(f.slow) {
		f.slow = now.Add(restTimes * f.cost)
	}
}

// Foresee forecasts the jobs that began to wait, so that the ledger knows what forecasts
// are worth before somebody asks for one.
func (b *Store) Foresee() {
	b.mu.RLock()
	var waiting []sched.JobID
	for x := range b.mem.queue() {
		if x.Job.Phase == sched.Pending && x.Job.Starts == 0 {
			waiting = append(waiting, x.Job.ID)
		}
	}
	b.mu.RUnlock()
	f := &b.foresight
	f.mu.Lock()
	news := slices.ContainsFunc(waiting, func(id sched.JobID) bool {
		_, played := f.played.asked[id]
		_, coarse := f.coarse.asked[id]
		return !played && !coarse
	})
	f.mu.Unlock()
	if news {
		b.look("")
	}
}

// settle enters the jobs into the ledgers that have started since.
func (b *Store) settle(spec string) {
	f := &b.foresight
	b.mu.RLock()
	defer b.mu.RUnlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.policy != spec || f.played.asked == nil {
		f.policy = spec
		f.played, f.coarse = record{asked: map[sched.JobID]forecast.Asked{}}, record{asked: map[sched.JobID]forecast.Asked{}}
	}
	f.played.settle(b.mem)
	f.coarse.settle(b.mem)
}

// settle enters the jobs that have started, in that order.
func (r *record) settle(m *memory) {
	started := map[sched.JobID]time.Time{}
	for id := range r.asked {
		if x := m.jobs[id]; x == nil || x.Job.Phase != sched.Pending || x.Job.Starts > 0 {
			started[id] = time.Time{}
			if x != nil {
				started[id] = x.Job.FirstStart
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(started), func(a, c sched.JobID) int {
		return cmp.Or(started[a].Compare(started[c]), cmp.Compare(a, c))
	})
	for _, id := range order {
		if a := r.asked[id]; !started[id].Before(a.At) { // else it had run before, and waits again
			r.ledger.Add(a, started[id])
		}
		delete(r.asked, id)
	}
}

// correct notes new forecasts and returns them as the ledger corrects them.
func (r *record) correct(starts map[sched.JobID]forecast.Range, now time.Time) map[sched.JobID]forecast.Range {
	out := make(map[sched.JobID]forecast.Range, len(starts))
	for id, one := range starts {
		a := forecast.Asked{Range: one, At: now}
		out[id] = r.told(a)
		if _, known := r.asked[id]; !known {
			r.asked[id] = a
		}
	}
	return out
}

// told returns a forecast as the ledger corrects it.
func (r *record) told(a forecast.Asked) forecast.Range {
	return r.ledger.Correct(a, slices.Collect(maps.Values(r.asked)), a.At)
}

// expect fills in when a job is expected to start.
func (b *Store) expect(x *entry, r *api.Reason) {
	if r.Code == sched.BackOff.String() || r.Code == sched.TurnWait.String() && !r.Until.IsZero() {
		return
	}
	b.foresight.mu.Lock()
	f, ok := b.foresight.starts[x.Job.ID]
	rough := b.foresight.rough
	b.foresight.mu.Unlock()
	if ok {
		tell(r, f, rough)
	} else {
		r.Unknown = cmp.Or(rough, b.unknownStart())
	}
}

// tell fills in a forecast; rough says why it was made without the policy.
func tell(r *api.Reason, f forecast.Range, rough string) {
	r.Earliest, r.Until, r.Latest = f.Early, f.Middle, f.Late
	switch {
	case rough != "":
		r.Rough = rough + ": it is as if those ahead started one after the other, wherever GPUs are free"
	case f.Rough() && !f.Middle.IsZero():
		r.Rough = fmt.Sprintf("how long the jobs before it will run is not known well enough: in half of cases the time is wrong by %.0f %% of the wait or more", 100*f.Error)
	}
}

// unknownStart says why there is no forecast.
func (b *Store) unknownStart() string {
	if len(b.mem.Ended) == 0 {
		for x := range b.mem.queue() {
			if x.Job.Phase == sched.Running && x.left(b.now()) == 0 {
				return "a running job has no estimate and reports no progress, and no job has ended yet"
			}
		}
	}
	return "it lies beyond what can be looked ahead"
}
