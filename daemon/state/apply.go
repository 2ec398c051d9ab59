// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// Limits on what is kept about one job.
const (
	maxPoints = 360
	maxLedger = 200
	// maxSamples bounds the samples of different placement and batch size that are
	// kept for one GPU type.
	maxSamples = 500
)

// apply adds one record. It does the same for a new record and one read from the
// journal.
func (m *memory) apply(r *api.Record) error {
	if r.Seq != m.Seq+1 {
		return fmt.Errorf("the record has number %d; want %d", r.Seq, m.Seq+1)
	}
	if e := r.Event; e != nil {
		if err := m.event(r, *e); err != nil {
			return err
		}
	}
	if r.Accepted != nil {
		if err := m.accepted(r); err != nil {
			return err
		}
	}
	if r.Exit != nil {
		m.exit(r)
	}
	if r.Quarantine != nil {
		m.setQuarantine(r)
	}
	if r.Policy != "" {
		m.Policy, m.policyKept = r.Policy, true
	}
	if r.Token != nil {
		m.setToken(*r.Token)
	}
	if r.Bidder != nil {
		m.setBidder(*r.Bidder)
	}
	if r.Epoch != nil && r.Event == nil {
		m.beginEpoch(r)
	}
	if r.Damage != nil {
		m.setDamage(r)
	}
	if r.Search != nil {
		if err := m.applySearch(r); err != nil {
			return err
		}
	}
	if r.SetBack > 0 {
		if err := m.setBack(r); err != nil {
			return err
		}
	}
	m.Decisions = max(m.Decisions, r.Decision)
	m.Seq = r.Seq
	if r.At.After(m.At) {
		m.At = r.At
	}
	return nil
}

// event applies the event of a record.
func (m *memory) event(r *api.Record, e sched.Event) error {
	id := r.Job()
	before, _ := m.state.Job(id)
	var was sched.Job
	if before != nil {
		was = *before
		if x := m.jobs[id]; x != nil {
			x.count(before, r.At)
		}
	}
	there := e.Kind == sched.NodeJoined && m.hasNode(e.Node)
	if err := m.state.Apply(e); err != nil {
		return err
	}
	switch e.Kind {
	case sched.JobSubmitted:
		return m.submitted(r, id)
	case sched.NodeJoined:
		m.nodeSet(r, there)
		return nil
	}
	x := m.jobs[id]
	if x == nil {
		return nil // about a tenant
	}
	switch e.Kind {
	case sched.JobStarted:
		if !e.InPlace {
			x.Counted.Attempt = x.Counted.GPUs
		}
		x.started(r, &was)
		if !e.InPlace {
			x.StartEpoch = m.epoch()
		}
		if r.Epoch != nil {
			x.StartEpoch = r.Epoch.ID
		}
	case sched.JobStopped:
		verb := "preempt"
		if e.Moving {
			verb = "move"
		}
		x.lostGPUs(r, &was, verb)
	case sched.JobHeld:
		x.held(r, &was, e)
	case sched.JobFailed:
		if e := x.Exit; e != nil && (e.Lost || e.Advice != nil && e.Advice.Uncounted) { // its record comes right before
			x.LostAll++
		}
		if e.Memory > 0 && x.Asked == 0 {
			x.Asked = was.Memory
		}
		x.Reported = min(x.Reported, was.CheckpointedWork)
		x.lostGPUs(r, &was, "fail")
	case sched.JobReported:
		gpuType := m.gpuType(was.Placement)
		if r.Resized != nil {
			x.resized(r)
		}
		if len(x.Open) > 0 && x.Open[0] == was.Starts && was.Phase == sched.Running && x.stepped(r) && !x.changing() {
			x.back(r.At)
		}
		x.reported(r, &was, gpuType)
		m.measuredSeries(x, r)
		if was.Phase == sched.Running {
			x.measured(m.companyOf(x.Job), gpuType, r)
		}
		m.trialReported(x, r.Point)
	case sched.JobCheckpoint:
		if e.Done > was.CheckpointedWork {
			x.Lost = 0
		}
		// Attempts of one job never run at the same time: only the oldest open one may
		// report.
		if len(x.Open) > 0 && (was.Phase != sched.Running || x.Open[0] != was.Starts) {
			if e := x.stopOf(x.Open[0]); e != nil { // it has saved all its work
				e.Lost, e.LostS = 0, 0
			}
		}
	case sched.JobNoted:
		if r.Warning != "" {
			x.Warning = r.Warning
		}
		if r.Slow != nil {
			m.slow(x, r)
		}
	case sched.JobEnded:
		m.ended(x, r, &was)
	}
	return nil
}

func (m *memory) submitted(r *api.Record, id sched.JobID) error {
	if r.Task == nil {
		return fmt.Errorf("job %s: the record has no task", id)
	}
	j, _ := m.state.Job(id)
	if x := m.waiting[id]; x != nil {
		m.unhold(x, j)
		return nil
	}
	x := &entry{Job: j, Task: *r.Task, Owner: api.Owner{UID: -1, GID: -1}, Key: r.Key, Epoch: m.epoch()}
	if r.Owner != nil {
		x.Owner = *r.Owner
	}
	m.put(x)
	m.queued.add(x, 1)
	m.enlist(x)
	m.trialSubmitted(x)
	m.Count = max(m.Count+1, JobNumber(id))
	return nil
}

func (m *memory) gpuType(p sched.Placement) string {
	if len(p) == 0 {
		return ""
	}
	return string(m.state.Cluster().Nodes[p[0].Node].Type)
}

func (x *entry) started(r *api.Record, was *sched.Job) {
	if !r.Event.InPlace {
		x.Open, x.Resized = append(x.Open, x.Job.Starts), nil
	}
	x.reason, x.Company, x.Warning, x.Slow = sched.Reason{}, noReport, "", nil
	to := r.Event.Placement.GPUs()
	if !x.reports() {
		x.back(r.At)
	}
	if n := len(x.Ledger); n > 0 {
		if last := &x.Ledger[n-1]; last.Verb == "move" && last.To == 0 && last.At.Equal(r.At) { // both sides of a move are one entry
			last.To = to
			return
		}
	}
	x.addLedger(api.Entry{At: r.At, Verb: "start", Attempt: x.Job.Starts, To: to, Why: r.Text})
}

// lostGPUs records that the job lost its GPUs. The cost is known when its
// processes are gone; until then it is the work since the last checkpoint.
func (x *entry) lostGPUs(r *api.Record, was *sched.Job, verb string) {
	e := api.Entry{
		At: r.At, Verb: verb, Attempt: was.Starts, From: was.Placement.GPUs(), Why: r.Text,
		Lost: max(0, was.DoneBy(r.At)-was.CheckpointedWork), LostS: was.Unsaved(r.At), Ongoing: true,
	}
	gone := x.Exit != nil && x.Exit.Number == was.Starts
	left := gone && x.Exit.Yielded && x.Exit.Unsaved == 0 // before it was asked
	unborn := len(x.Open) > 0 && x.Open[0] != was.Starts  // an earlier attempt is still there
	e.InPlace = r.Event.InPlace
	if e.InPlace || r.Event.Suspend || left || unborn || gone && x.Exit.Saw(api.HostHeldBack) {
		e.Lost, e.LostS = 0, 0
	}
	x.back(r.At)
	x.addLedger(e)
}

// ongoing returns the entry of the stop that the job is not back from; nil: it trains,
// or never did.
func ongoing(ledger []api.Entry) *api.Entry {
	for i := len(ledger) - 1; i >= 0; i-- {
		if e := &ledger[i]; e.From > 0 {
			if e.Ongoing {
				return e
			}
			return nil
		}
	}
	return nil
}

// back records that the job trains again, or will never.
func (x *entry) back(at time.Time) {
	if e := ongoing(x.Ledger); e != nil {
		e.Away, e.Ongoing = at.Sub(e.At).Seconds(), false
	}
}

// changing reports whether the job's attempt changes in place. Its ranks train on
// while new ones start, so that it trains does not say that it is there.
func (x *entry) changing() bool {
	e := ongoing(x.Ledger)
	return e != nil && e.InPlace && e.To > 0
}

// resized records that the attempt has changed in place: as it was ordered, or because
// a rank died.
func (x *entry) resized(r *api.Record) {
	z, from := r.Resized, x.Job.Placement.GPUs()
	why := "a process died; the others went on with another in its place"
	if before := x.Resized; before != nil && before.GPUs < from {
		from, why = before.GPUs, "there is another process in place of the one that died"
	}
	if z.GPUs < from {
		why = "a process died; the others went on without it"
	}
	x.Resized = z
	if e := ongoing(x.Ledger); e == nil {
		x.addLedger(api.Entry{At: r.At, Verb: "recover", Attempt: x.Job.Starts, From: from, To: z.GPUs, Away: z.Away, InPlace: true, Why: why})
	} else if e.InPlace && e.To == z.GPUs {
		e.Away, e.Ongoing = z.Away, false
	}
}

// reports reports whether an agent of the job has reported its training.
func (x *entry) reports() bool { return x.Training != nil || len(x.Points) > 0 }

func (x *entry) held(r *api.Record, was *sched.Job, e sched.Event) {
	x.PausedBy = ""
	if x.Job.Paused {
		x.PausedBy = cmp.Or(r.Actor, "somebody")
	}
	if was.Phase == sched.Running {
		x.lostGPUs(r, was, "pause")
	}
}

func (x *entry) addLedger(e api.Entry) {
	if len(x.Ledger) == maxLedger {
		x.Spent.lose(x.Ledger[:maxLedger/4])
		x.Ledger = slices.Delete(x.Ledger, 0, maxLedger/4)
	}
	x.Ledger = append(x.Ledger, e)
}

// stepped reports whether a report of the running attempt shows that it trains: it has
// more than it began with or, if it counts no work, something to say about it.
func (x *entry) stepped(r *api.Record) bool {
	began := x.Reported
	if r.Restored != nil {
		began = *r.Restored
	}
	p := r.Point
	return r.Event.Done > began || r.Event.Done == 0 && p != nil && (p.Loss != nil || len(p.Metrics) > 0)
}

func (x *entry) reported(r *api.Record, was *sched.Job, gpuType string) {
	x.Complete = x.Complete || r.Complete
	if len(r.Links) > 0 {
		x.Links = r.Links
	}
	x.Reported = r.Event.Done
	if r.SaveFailed != "" || !r.Event.SaveFailed {
		x.SaveFailed = r.SaveFailed
	}
	if r.Restored != nil {
		x.Restored = was.Starts
		x.foundLess(was.CheckpointedWork - *r.Restored)
	}
	x.Shown = max(x.Shown, r.Event.Can)
	if r.Restored != nil && *r.Restored > 0 && was.Starts > 1 {
		x.Resumed = x.Shown
	}
	if r.Event.Rate > 0 {
		x.Rate, x.RateGPUs = r.Event.Rate, max(1, was.Placement.GPUs())
	}
	if r.Point != nil {
		x.Losses = x.withLoss(r.Point, r.Training)
		x.addPoint(*r.Point)
		if w := r.Point.Work; w > 0 {
			x.Work = w
		}
	}
	t := r.Training
	if t == nil {
		return
	}
	if len(t.Samples) > 0 {
		if x.Profiles == nil {
			x.Profiles = map[string]*goodput.Profile{}
		}
		if x.Profiles[gpuType] == nil {
			x.Profiles[gpuType] = &goodput.Profile{}
		}
		addSamples(x.Profiles[gpuType], t.Samples)
	}
	last := *t
	last.Samples = nil
	x.Training = &last
}

// addSamples adds samples to a profile. When the profile is full, samples of a new
// kind are dropped, so that a job cannot exhaust the memory.
func addSamples(p *goodput.Profile, samples []goodput.Sample) {
	type kind struct{ nodes, gpus, local int }
	known := map[kind]bool{}
	for _, s := range p.Samples() {
		known[kind{s.Nodes, s.GPUs, s.Local}] = true
	}
	for _, s := range samples {
		k := kind{s.Nodes, s.GPUs, s.Local}
		if !known[k] && len(known) >= maxSamples {
			continue
		}
		// Samples are validated before they are recorded; one that the profile refuses
		// leaves the model unchanged.
		if p.Add(s) == nil {
			known[k] = true
		}
	}
}

// addPoint keeps at most maxPoints: when there are more, it drops every other
// point of the older half.
func (x *entry) addPoint(p api.Point) {
	x.Points = append(x.Points, p)
	if len(x.Points) <= maxPoints {
		return
	}
	kept := x.Points[:0]
	for i, q := range x.Points {
		if i >= maxPoints/2 || i%2 == 0 {
			kept = append(kept, q)
		}
	}
	x.Points = kept
}

func (m *memory) ended(x *entry, r *api.Record, was *sched.Job) {
	e := *x.Job // the state has forgotten it
	x.Job = &e
	x.Ended = r.At
	x.PausedBy = ""
	if e.Phase == sched.Failed && slices.Contains(x.Open, was.Starts) || x.Broken != "" {
		x.Why = r.Text
	}
	x.back(r.At)
	if was.Phase == sched.Running {
		x.addLedger(api.Entry{At: r.At, Verb: "end", Attempt: was.Starts, From: was.Placement.GPUs(), Why: r.Text})
	}
	m.Ends[e.Phase]++
	m.GPUTime[e.Tenant] += e.GPUSeconds
	m.Ended = append(m.Ended, x)
	m.queued.add(x, -1)
	m.endedBytes += x.size()
	m.endedPoints += m.Metrics[e.ID].points()
	m.thinOld()
	m.test(x)
	m.trialEnded(x, r.Text)
	m.noteEnd(x)
	m.forget(r.At)
}

// forget drops the oldest ended jobs beyond the limits, in batches, and remembers
// their keys. Jobs whose processes may still run are kept.
func (m *memory) forget(now time.Time) {
	const stride = 256
	if len(m.Ended) < m.keep+stride && m.endedBytes <= m.keepBytes {
		return
	}
	mostBytes := m.keepBytes - m.keepBytes/8
	kept := make([]*entry, 0, m.keep+stride)
	drop := len(m.Ended) - m.keep
	for i, x := range m.Ended {
		if (i < drop || m.endedBytes > mostBytes) && len(x.Open) == 0 {
			m.endedBytes -= x.size()
			m.endedPoints -= m.Metrics[x.Job.ID].points()
			delete(m.Metrics, x.Job.ID)
			m.bury(x, now)
			delete(m.jobs, x.Job.ID)
			m.delist(x)
			m.untest(x)
			if x.Key != "" {
				delete(m.keys, keyOf(x.Job.Tenant, x.Key))
				m.used.add(hashKey(x.Job.Tenant, x.Key), usedKey{job: x.Job.ID, ended: x.Ended.Unix(), phase: x.Job.Phase}, now)
			}
			continue
		}
		kept = append(kept, x)
	}
	m.Ended = kept
}

// exit records that an attempt is gone.
func (m *memory) exit(r *api.Record) {
	x := m.jobs[r.Exit.Job]
	if x == nil {
		return
	}
	x.Open = slices.DeleteFunc(x.Open, func(n int) bool { return n == r.Exit.Number })
	x.countExit(r)
	x.Exit = r.Exit
	x.Complete = false // it was said of the attempt that is gone
	m.remember(x, r)
	x.SaveFailed = ""
	e := x.stopOf(r.Exit.Number)
	switch {
	case e == nil:
	case r.Exit.Unsaved > 0:
		e.Lost = r.Exit.Unsaved
	case r.Exit.Yielded:
		e.Lost, e.LostS = 0, 0
	}
}

// stopOf returns the entry for the GPUs that an attempt lost, failures aside; nil:
// there is none.
func (x *entry) stopOf(attempt int) *api.Entry {
	for i := len(x.Ledger) - 1; i >= 0; i-- {
		if e := &x.Ledger[i]; e.Attempt == attempt && e.Verb != "start" && e.Verb != "fail" {
			return e
		}
	}
	return nil
}

// foundLess corrects what the last stop cost: its successor found less in the
// checkpoint than was reported as saved, or more.
func (x *entry) foundLess(work float64) {
	i := len(x.Ledger) - 1
	for i >= 0 && x.Ledger[i].From == 0 {
		i--
	}
	if i < 0 || work == 0 {
		return
	}
	e := &x.Ledger[i]
	e.Lost = max(0, e.Lost+work)
	if e.Lost == 0 {
		e.LostS = 0
	} else if x.Rate > 0 {
		e.LostS = max(0, e.LostS+finite(work/x.Rate*float64(x.RateGPUs)))
	}
}

func (m *memory) setToken(t api.Token) {
	i := slices.IndexFunc(m.Tokens, func(o api.Token) bool { return o.ID == t.ID })
	if i < 0 {
		m.Tokens = append(m.Tokens, t)
		return
	}
	m.Tokens[i] = t
}

// changesOrders reports whether a record can change what should run.
func changesOrders(r *api.Record) bool {
	if r.Exit != nil {
		return true
	}
	if r.Event == nil {
		return false
	}
	switch r.Event.Kind {
	case sched.JobStarted, sched.JobStopped, sched.JobFailed, sched.JobEnded, sched.JobHeld, sched.JobSuspension:
		return true
	}
	return false
}
