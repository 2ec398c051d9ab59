// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// How many jobs back a forecast looks: at those that ended, for run times, and at those
// that were submitted, for later ones.
const (
	recentEnds        = 400
	recentSubmissions = 200
)

// futures is the present and how to look ahead from it.
type futures struct {
	forecast.Config
	spec    string
	about   policy.About
	now     *sched.Snapshot
	lengths *experience.Lengths
	// promised is when the policy will have started waiting jobs at the latest.
	promised map[sched.JobID]time.Time
	slow     bool // the policy takes too long to be played forward
}

func (b *Store) futures() (futures, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	now := b.now()
	p, err := b.buildPolicy(b.mem.Policy)
	if err != nil {
		return futures{}, err
	}
	g, err := guard.New(b.Guard)
	if err != nil {
		return futures{}, err
	}
	f := futures{spec: b.mem.Policy, about: b.Policies.About(b.mem.Policy), now: b.mem.state.Frozen(now), lengths: b.mem.lengths(), promised: map[sched.JobID]time.Time{}}
	runs := map[sched.JobID]experience.Run{}
	for x := range b.mem.queue() {
		run := x.run(now)
		runs[x.Job.ID], f.promised[x.Job.ID] = run, x.reason.Promised
		if x.Job.Phase == sched.Running {
			f.lengths.Watch(run)
		}
	}
	f.Config = forecast.Config{
		Policy: g.Over(p), Preempts: f.about.Promises&policy.NeverPreempts == 0, Most: mostLooks(len(f.now.Jobs)), Restart: b.mem.restart(), Arrive: forecast.Again(b.mem.recent(f.about), now),
		Future: func(r *rand.Rand) forecast.Left {
			draw := f.lengths.Future(r)
			return func(j *sched.Job) (time.Duration, bool) {
				run, ok := runs[j.ID]
				if !ok {
					run = runOf(j, now)
				}
				left, basis := draw(run)
				return left, basis != experience.Nothing
			}
		},
	}
	return f, nil
}

// mostLooks bounds a forecast by the jobs that its decisions look at: a few decisions for
// each job, in each sample.
func mostLooks(jobs int) int {
	return min(forecast.MostJobs/4, forecast.Samples*jobs*(3*jobs+30))
}

// starts forecasts the start of jobs by playing the policy forward; none: of all. Where the
// jobs are too many for that, or the policy too slow, rough says so, and the start of one job
// is estimated; "": of all, as far as the time allows.
func (f *futures) starts(s *sched.Snapshot, one sched.JobID, jobs ...sched.JobID) (out map[sched.JobID]forecast.Range, rough string, err error) {
	n := len(s.Jobs)
	if n > forecastJobs {
		rough = fmt.Sprintf("%d jobs wait or run, too many to play %s forward", n, f.spec)
	} else {
		err = forecast.ErrStopped
		if !f.slow {
			out, err = forecast.Starts(s, f.Config, jobs...)
		}
		if errors.Is(err, forecast.ErrStopped) {
			f.slow = true
			rough = fmt.Sprintf("to play %s forward with %d jobs takes longer than %s", f.spec, n, forecastTime)
		}
	}
	if rough == "" {
		return out, "", err
	}
	return f.coarse(s, one), rough, nil
}

// coarse estimates the start of a job, or of all, without the policy.
func (f *futures) coarse(s *sched.Snapshot, one sched.JobID) map[sched.JobID]forecast.Range {
	c := f.Config
	c.Samples = forecast.Fewest
	out := map[sched.JobID]forecast.Range{}
	for i, j := range s.Jobs {
		if j.Phase != sched.Pending || one != "" && j.ID != one {
			continue
		}
		if r, ok := forecast.Coarse(s, c, f.about.Order.Waiting(s, i), j, f.promised[j.ID]); ok {
			out[j.ID] = r
		}
	}
	return out
}

// lengths returns how long the jobs ran that have ended.
func (m *memory) lengths() *experience.Lengths {
	l := &experience.Lengths{}
	for _, x := range m.Ended[max(0, len(m.Ended)-recentEnds):] {
		l.Learn(x.run(x.Ended), x.track())
	}
	return l
}

// track returns what the agent of an ended job had reported when each tenth of its work
// was done. Of a job that was stopped in between the run time by then is not known.
func (x *entry) track() (out experience.Track) {
	w := x.whole()
	if w <= 0 || x.Job.Starts != 1 {
		return out
	}
	for _, p := range x.Points {
		if i := int(experience.Tenths * p.Done / w); p.Rate > 0 && i >= 0 && i < len(out) && out[i].Left == 0 {
			out[i] = experience.Tenth{Ran: p.At.Sub(x.Job.FirstStart), Left: time.Duration(finite((w - p.Done) / p.Rate * float64(time.Second)))}
		}
	}
	return out
}

// recent returns the jobs that were submitted last, oldest first; under a policy that
// keeps the order of submission only those that may overtake a waiting one.
func (m *memory) recent(about policy.About) []sched.Spec {
	lowest := 0
	jobs := make([]*sched.Job, 0, len(m.jobs))
	for _, x := range m.jobs {
		if x.Hold {
			continue
		}
		if x.Job.Phase == sched.Pending {
			lowest = min(lowest, x.Job.Priority)
		}
		jobs = append(jobs, x.Job)
	}
	slices.SortFunc(jobs, func(a, b *sched.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	var specs []sched.Spec
	for _, j := range jobs[max(0, len(jobs)-recentSubmissions):] {
		if about.Promises&policy.InOrder == 0 || j.Priority > lowest {
			specs = append(specs, j.Spec)
		}
	}
	return specs
}

// restart returns the mean time that jobs were away when they were moved; 0: none was.
func (m *memory) restart() time.Duration {
	n, sum := 0, 0.0
	for _, x := range m.jobs {
		for _, l := range x.Ledger {
			if moved(l) {
				n, sum = n+1, sum+l.Away
			}
		}
	}
	return time.Duration(sum / float64(max(1, n)) * float64(time.Second))
}

// moved reports whether an entry is of a move that is over and whose cost is known.
func moved(l api.Entry) bool { return l.Verb == "move" && l.Away > 0 && !l.Ongoing }

// run returns what is known about the run time of a job.
func (x *entry) run(now time.Time) experience.Run {
	r := runOf(x.Job, now)
	if w := x.whole(); w > 0 && x.Rate > 0 {
		second := float64(time.Second)
		r.Whole, r.Done = time.Duration(finite(w/x.Rate*second)), time.Duration(finite(min(w, x.Job.DoneBy(now))/x.Rate*second))
	}
	return r
}

func runOf(j *sched.Job, now time.Time) experience.Run {
	return experience.Run{
		Key:      experience.JobKey{App: string(j.App), Tenant: string(j.Tenant), User: j.User, Model: j.Model, GPUs: j.GPUs},
		Estimate: j.Estimate.D(), Ran: j.RanBy(now),
	}
}

// runTime says for people how long a job is expected to run; nil: nobody knows.
func runTime(l *experience.Lengths, r experience.Run) *api.RunTime {
	e := l.Expect(r)
	if e.Basis == experience.Nothing {
		return nil
	}
	grain := time.Second // nobody knows it better than to a few parts in a hundred
	for _, g := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour} {
		if e.Middle > 12*g {
			grain = g
		}
	}
	return &api.RunTime{Expected: sched.Duration(e.Middle.Round(grain)), Basis: e.Basis.String(), Jobs: e.Jobs}
}
