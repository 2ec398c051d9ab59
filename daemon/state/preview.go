// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// previewID names the job of a preview. No job that is submitted can have it.
const previewID sched.JobID = "(preview)"

// previewTime is how long a preview may take. What would take longer is left out.
const previewTime = 700 * time.Millisecond

// Preview implements api.Jobs.
func (b *Store) Preview(_ context.Context, who api.Identity, s api.Submission) (api.Preview, error) {
	begin := b.Now()
	if err := api.MaySubmit(who, 1); err != nil {
		return api.Preview{}, err
	}
	if err := b.complete(who, &s); err != nil {
		return api.Preview{}, err
	}
	f, err := b.futures()
	if err != nil {
		return api.Preview{}, err
	}
	b.mu.RLock()
	t := &tx{store: b, mem: b.mem, now: f.now.Now, like: sync.OnceValue(b.mem.alike)}
	t.prepare(&s)
	refused := cmp.Or(b.mem.used.check(s.Tenant, s.Key), b.mem.keepPlanned(&s))
	known := sched.JobID("")
	if s.Key != "" {
		known = b.mem.keys[keyOf(s.Tenant, s.Key)]
	}
	p := preview{store: b, who: who, futures: f, can: t.protect(&s), perf: b.mem.planned(&s.Task, &s.Spec)}
	b.mu.RUnlock()
	if refused != nil {
		return api.Preview{}, refused
	}
	s.ID, s.Submitted = previewID, f.now.Now
	out := api.Preview{Now: f.now.Now, Known: known, Policy: f.spec, RunTime: runTime(f.lengths, runOf(&sched.Job{Spec: s.Spec}, f.now.Now))}
	if out.Size, err = p.at(s.Spec); err != nil || out.Size.Starts || s.Plans != nil {
		return out, err
	}
	took := b.Now().Sub(begin) // of one size
	for _, n := range smaller(s.Spec, p.free()) {
		if spent := b.Now().Sub(begin); spent+took > previewTime {
			out.Cut = fmt.Sprintf("not all smaller sizes were tried: with %d jobs a look at one takes %s", len(f.now.Jobs), took.Round(10*time.Millisecond))
			break
		}
		other := s.Spec
		other.GPUs, other.MinGPUs, other.MaxGPUs = n, 0, 0
		size, err := p.at(other)
		if err != nil {
			return out, err
		}
		if sooner(size, out.Size) {
			out.Sooner = append(out.Sooner, size)
		}
		if size.Starts {
			break
		}
	}
	return out, nil
}

// preview is a look at what submitting a job would do.
type preview struct {
	futures
	store *Store
	who   api.Identity
	can   sched.Ability
	perf  *goodput.Report
}

// at returns what submitting a job would do.
func (p *preview) at(spec sched.Spec) (api.SizePreview, error) {
	out := api.SizePreview{GPUs: spec.GPUs}
	st := p.now.State()
	if err := st.Apply(sched.Event{At: p.now.Now, Kind: sched.JobSubmitted, Spec: &spec, Can: p.can, Perf: p.perf}); err != nil {
		return out, err
	}
	s := st.Snapshot(p.now.Now)
	actions, plan, err := sched.Decide(p.Policy, s)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(s.Jobs, func(j *sched.Job) bool { return j.ID == previewID })
	if want := plan.Want[i]; len(want) > 0 {
		out.Starts, out.GPUs = true, want.GPUs()
		out.Victims, err = p.victims(actions)
		return out, err
	}
	r := plan.Why[i]
	out.Reason = &api.Reason{Code: r.Code.String(), Text: r.TextFor(s.Cluster, p.store.selected(spec.Selector)), Until: r.Until}
	if r.Code == sched.Impossible {
		return out, nil
	}
	begin := p.store.Now()
	p.Stop = func() bool { return p.store.Now().Sub(begin) > forecastTime }
	p.promised[previewID] = r.Promised
	starts, rough, err := p.starts(st.Frozen(p.now.Now), previewID, previewID)
	p.store.mu.RLock()
	defer p.store.mu.RUnlock()
	f, ok := starts[previewID]
	if !ok {
		out.Reason.Unknown = cmp.Or(rough, p.store.unknownStart())
		return out, err
	}
	p.store.foresight.mu.Lock()
	f = p.store.foresight.record(rough).told(forecast.Asked{Range: f, At: p.now.Now})
	p.store.foresight.mu.Unlock()
	tell(out.Reason, f, rough)
	return out, err
}

// victims returns the jobs that lose their GPUs because of the submission, and what
// each loses if it cannot save in time. Those that lose their GPUs anyway do not count.
func (p *preview) victims(actions []sched.Action) ([]api.Victim, error) {
	anyway := map[sched.JobID]bool{}
	if len(stops(actions)) > 0 {
		asIs, _, err := sched.Decide(p.Policy, p.now)
		if err != nil {
			return nil, err
		}
		anyway = stops(asIs)
	}
	var out []api.Victim
	to := map[sched.JobID]int{}
	for _, a := range actions {
		if a.Verb == sched.Start {
			to[a.Job.ID] = a.To.GPUs()
		}
	}
	for _, a := range actions {
		if a.Verb != sched.Stop || anyway[a.Job.ID] {
			continue
		}
		v := api.Victim{GPUs: a.From.GPUs(), To: to[a.Job.ID], LostS: a.Job.Unsaved(p.now.Now)}
		v.Job, v.Tenant = shown(p.who, a.Job)
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, c api.Victim) int { return cmp.Compare(c.LostS, a.LostS) })
	return out, nil
}

func stops(actions []sched.Action) map[sched.JobID]bool {
	out := map[sched.JobID]bool{}
	for _, a := range actions {
		if a.Verb == sched.Stop {
			out[a.Job.ID] = true
		}
	}
	return out
}

// free returns the GPUs that nobody holds.
func (p *preview) free() int {
	n := p.now.Cluster.GPUs()
	for _, j := range p.now.Jobs {
		n -= j.Placement.GPUs()
	}
	return max(0, n)
}

// smaller returns a few other sizes worth a try, the largest first: half, and what is
// free.
func smaller(s sched.Spec, free int) []int {
	task := max(1, s.TaskGPUs)
	var out []int
	for _, n := range []int{s.GPUs / 2, free, 1} {
		if n = n / task * task; n > 0 && n < s.GPUs && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, c int) int { return cmp.Compare(c, a) })
	return out
}

// sooner reports whether one size starts before another.
func sooner(a, b api.SizePreview) bool {
	switch {
	case a.Starts || a.Reason.Until.IsZero():
		return a.Starts
	case b.Reason.Until.IsZero():
		return true
	}
	return a.Reason.Until.Before(b.Reason.Until)
}
