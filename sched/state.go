// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrUnknownJob is returned for an event about a job that is not pending or
// running: never submitted, or ended already.
var ErrUnknownJob = errors.New("no pending or running job has that id")

// State is the sum of the events so far. It holds the jobs that are pending
// or running; a job that has ended is forgotten, its history is in the events.
type State struct {
	cluster *Cluster
	tenants []Tenant
	jobs    []*Job // by Seq
	byID    map[JobID]*Job
	apps    map[AppID]*App
	byTen   map[TenantID]int
	tree    *tree // of the tenants
	seq     int64

	now           time.Time // when the last job came or ended
	activeApps    float64   // integral of the number of active apps until then, in app-seconds
	outages       Outages
	announcements Announcements
}

// NewState returns the state of a cluster with no jobs.
func NewState(c *Cluster) *State {
	return &State{
		cluster: c,
		byID:    map[JobID]*Job{},
		apps:    map[AppID]*App{},
		byTen:   map[TenantID]int{},
	}
}

// Cluster returns the cluster as it is now.
func (st *State) Cluster() *Cluster { return st.cluster }

// Job returns a pending or running job. Nobody may modify it.
func (st *State) Job(id JobID) (*Job, bool) {
	j, ok := st.byID[id]
	return j, ok
}

// Jobs returns the number of pending and running jobs.
func (st *State) Jobs() int { return len(st.jobs) }

// Apps returns the number of apps that have pending or running jobs.
func (st *State) Apps() int { return len(st.apps) }

// Snapshot returns the world at now. It shares the state's memory and is
// valid until the next Apply.
func (st *State) Snapshot(now time.Time) *Snapshot {
	return &Snapshot{
		Now: now, Cluster: st.cluster, Tenants: st.tenants, tree: st.tree, Jobs: st.jobs,
		apps: st.apps, ActiveApps: st.ActiveApps(now), Outages: st.outages, Announcements: st.announcements,
	}
}

// Expect says how often nodes go out of use. It is no event: drivers learn it from those
// there are.
func (st *State) Expect(o Outages) { st.outages = o }

// ActiveApps returns the integral of the number of active apps until now, in
// app-seconds. Looking changes nothing: the sum is of the events alone.
func (st *State) ActiveApps(now time.Time) float64 {
	if !now.After(st.now) {
		return st.activeApps
	}
	return st.activeApps + float64(len(st.apps))*now.Sub(st.now).Seconds()
}

// advance is called before the number of active apps changes.
func (st *State) advance(now time.Time) {
	st.activeApps = st.ActiveApps(now)
	if now.After(st.now) {
		st.now = now
	}
}

// Apply adds one event. An event that cannot have happened in this state is
// an error and changes nothing.
func (st *State) Apply(e Event) error {
	if err := st.apply(e); err != nil {
		return fmt.Errorf("apply %s: %w", e.Kind, err)
	}
	st.book(e.At)
	return nil
}

func (st *State) apply(e Event) error {
	switch e.Kind {
	case NodeJoined:
		return st.setNode(e)
	case TenantSet:
		return st.setTenant(e)
	case JobSubmitted:
		return st.submit(e)
	case AppBid, AppStaged:
		return st.setApp(e)
	}
	j, ok := st.byID[e.Job]
	if !ok {
		return fmt.Errorf("job %q: %w", e.Job, ErrUnknownJob)
	}
	if e.At.Before(j.Since) {
		return fmt.Errorf("job %q: event at %s lies before the job's last change at %s", e.Job, e.At, j.Since)
	}
	switch e.Kind {
	case JobStarted:
		for _, s := range e.Placement {
			if s.Node < 0 || int(s.Node) >= len(st.cluster.Nodes) {
				return fmt.Errorf("job %s: placed on node %d of %d", j.ID, s.Node, len(st.cluster.Nodes))
			}
		}
		return j.start(e)
	case JobStopped:
		return j.stop(e)
	case JobFailed:
		return j.fail(e)
	case JobEnded:
		return st.end(j, e)
	case JobReported:
		return j.report(e)
	case JobCheckpoint:
		j.Checkpoint, j.CheckpointedWork, j.SaveFailed = e.At, e.Done, e.SaveFailed
		return nil
	case JobNoted:
		j.Note = e.Note
		return nil
	case JobHeld:
		return j.hold(e)
	case JobSuspension:
		return j.suspension(e)
	}
	return fmt.Errorf("unknown kind %d", e.Kind)
}

func (st *State) setApp(e Event) error {
	a, ok := st.apps[e.App]
	if !ok {
		return fmt.Errorf("app %q: no job of it is pending or running", e.App)
	}
	if e.Kind == AppBid {
		a.Bid = e.Bid
		return nil
	}
	for _, s := range e.Stages {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("app %q: %w", e.App, err)
		}
	}
	a.Stages = e.Stages
	return nil
}

func (st *State) setNode(e Event) error {
	if e.Node == nil {
		return errors.New("node is missing")
	}
	nodes := st.cluster.Nodes
	if i, ok := st.cluster.Node(e.Node.Name); ok {
		if n := nodes[i]; e.Node.GPUs < n.GPUs || e.Node.Others&^n.Others != 0 {
			for _, j := range st.jobs {
				for _, s := range j.Placement {
					switch {
					case int(s.Node) != i:
					case s.GPUs&e.Node.Others != 0:
						return fmt.Errorf("node %s: others = %s, but job %s holds GPUs %s of it", e.Node.Name, e.Node.Others, j.ID, s.GPUs)
					case s.GPUs&^FirstGPUs(e.Node.GPUs) != 0:
						return fmt.Errorf("node %s: gpus = %d, but job %s holds GPUs %s of it", e.Node.Name, e.Node.GPUs, j.ID, s.GPUs)
					}
				}
			}
		}
		nodes = slices.Clone(nodes)
		nodes[i] = *e.Node
	} else {
		nodes = append(slices.Clone(nodes), *e.Node)
	}
	c, err := NewCluster(nodes)
	if err != nil {
		return err
	}
	st.cluster = c
	return nil
}

func (st *State) setTenant(e Event) error {
	if e.Tenant == nil {
		return errors.New("tenant is missing")
	}
	if err := e.Tenant.Validate(); err != nil {
		return err
	}
	tenants := slices.DeleteFunc(slices.Clone(st.tenants), func(t Tenant) bool { return t.ID == e.Tenant.ID })
	tenants = append(tenants, *e.Tenant)
	slices.SortFunc(tenants, func(a, b Tenant) int { return cmp.Compare(a.ID, b.ID) })
	st.tenants = tenants
	st.byTen = make(map[TenantID]int, len(tenants))
	for i, t := range tenants {
		st.byTen[t.ID] = i
	}
	st.tree = newTree(tenants, st.byTen)
	for _, j := range st.jobs {
		st.assign(j)
	}
	return nil
}

func (st *State) submit(e Event) error {
	if e.Spec == nil {
		return errors.New("spec is missing")
	}
	if err := e.Spec.Validate(); err != nil {
		return err
	}
	if _, dup := st.byID[e.Spec.ID]; dup {
		return fmt.Errorf("job %s: a job of that id is pending or running; ids must differ", e.Spec.ID)
	}
	st.advance(e.At)
	j := &Job{Spec: *e.Spec, Status: Status{Seq: st.seq, Since: e.At, Can: e.Can, Perf: e.Perf}}
	st.seq++
	j.foldTopology()
	st.assign(j)
	if j.App == "" {
		j.App = AppID(j.ID)
	}
	a, ok := st.apps[j.App]
	if !ok {
		a = &App{ID: j.App, Tenant: j.Tenant, Submitted: e.At, ActiveApps: st.activeApps}
		st.apps[j.App] = a
	}
	a.Active++
	st.byID[j.ID] = j
	st.jobs = append(st.jobs, j)
	return nil
}

// assign looks up the tenant of a job once, so that no decision has to.
func (st *State) assign(j *Job) {
	j.tenant = 0
	if i, ok := st.byTen[j.Tenant]; ok {
		j.tenant = i + 1
	}
}

func (st *State) end(j *Job, e Event) error {
	if !e.Phase.Ended() {
		return fmt.Errorf("job %s: phase = %s; want finished, killed or failed", j.ID, e.Phase)
	}
	st.advance(e.At)
	j.settle(e.At)
	j.Phase, j.Placement = e.Phase, nil
	if e.Phase == Finished {
		st.announcements = st.announcements.with(j)
	}
	delete(st.byID, j.ID)
	if i, ok := slices.BinarySearchFunc(st.jobs, j.Seq, func(a *Job, seq int64) int { return cmp.Compare(a.Seq, seq) }); ok {
		st.jobs = slices.Delete(st.jobs, i, i+1)
	}
	a := st.apps[j.App]
	a.EndedJobs++
	a.Attained += j.GPUSeconds
	if a.Active--; a.Active == 0 {
		delete(st.apps, j.App)
	}
	return nil
}

// settle books the time since the last change.
func (j *Job) settle(now time.Time) {
	j.GPUSeconds, j.Ran, j.Waited = j.AttainedBy(now), Duration(j.RanBy(now)), Duration(j.WaitedBy(now))
	if j.Phase == Running {
		j.Done = j.DoneBy(now)
		j.ProbationPassed = j.Screen > 0 && !j.OnProbation(now)
	}
	j.Since, j.ReportedAt, j.Rate = now, now, 0
}

func (j *Job) start(e Event) error {
	if j.Phase != Pending {
		return fmt.Errorf("job %s: it is %s; only a pending job can start", j.ID, j.Phase)
	}
	if len(e.Placement) == 0 {
		return fmt.Errorf("job %s: the placement is empty", j.ID)
	}
	if e.InPlace && len(j.Suspended) > 0 && !e.Placement.Equal(j.Suspended) {
		return fmt.Errorf("job %s: it is suspended on %v and cannot go on on %v", j.ID, j.Suspended, e.Placement)
	}
	j.settle(e.At)
	j.Phase, j.Placement, j.Suspended, j.Slowdown = Running, e.Placement, nil, 0
	j.Screening = e.Screening && !j.Fits(e.Placement.GPUs())
	if !e.InPlace {
		j.Starts++
		j.Suspension = j.Suspension.fresh()
	}
	j.MostGPUs = max(j.MostGPUs, e.Placement.GPUs())
	if j.FirstStart.IsZero() {
		j.FirstStart = e.At
	}
	return nil
}

func (j *Job) stop(e Event) error {
	if j.Phase != Running {
		return fmt.Errorf("job %s: it is %s; only a running job can be stopped", j.ID, j.Phase)
	}
	j.settle(e.At)
	switch {
	case j.Screening: // it ends as it should
	case e.Moving:
		j.Moves++
	default:
		j.Preemptions++
	}
	if e.Suspend {
		j.Suspended = j.Placement
	}
	j.leave()
	return nil
}

// leave takes the job off its GPUs.
func (j *Job) leave() { j.Phase, j.Placement, j.Screening = Pending, nil, false }

func (j *Job) fail(e Event) error {
	if j.Phase != Running {
		return fmt.Errorf("job %s: it is %s; only a running job can fail", j.ID, j.Phase)
	}
	j.settle(e.At)
	j.Failures++
	j.Done = min(j.Done, j.CheckpointedWork)
	j.NotBefore, j.Avoid = e.Until, e.Avoid
	j.Memory, j.GPUMemory = max(j.Memory, e.Memory), max(j.GPUMemory, e.GPUMemory)
	j.leave()
	return nil
}

// longestBackOff tells a back-off from a pause in old journals, which wrote a
// pause as a back-off of 250 years.
const longestBackOff = 100 * 365 * 24 * time.Hour

// hold is the user's own doing, so it does not count as a preemption.
func (j *Job) hold(e Event) error {
	j.NotBefore, j.Paused = e.Until, e.Paused
	if len(e.Avoid) > 0 {
		j.Avoid = e.Avoid
	}
	if e.Until.Sub(e.At) > longestBackOff {
		j.NotBefore, j.Paused = time.Time{}, true
	}
	if j.Phase == Running {
		if e.Suspend {
			j.Suspended = j.Placement
		}
		j.settle(e.At)
		j.leave()
	}
	return nil
}

func (j *Job) report(e Event) error {
	if !(e.Done >= 0 && e.Rate >= 0 && e.Slowdown >= 0) { // also refuses NaN
		return fmt.Errorf("job %s: done = %g, rate = %g, slowdown = %g; want numbers that are not negative", j.ID, e.Done, e.Rate, e.Slowdown)
	}
	j.Done, j.Rate, j.ReportedAt, j.SaveFailed = e.Done, e.Rate, e.At, j.SaveFailed || e.SaveFailed
	if e.Perf != nil {
		j.Perf = e.Perf.After(j.Perf)
	}
	if e.Slowdown > 0 {
		j.Slowdown = e.Slowdown
	}
	j.Can = max(j.Can, e.Can)
	return nil
}
