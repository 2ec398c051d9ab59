// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// memory is the sum of the records: all that the journal can rebuild.
type memory struct {
	Saved
	state *sched.State
	jobs  map[sched.JobID]*entry
	keys  map[string]sched.JobID // client keys, by tenant and key
	used  usedKeys               // those of forgotten jobs
	// tested are the last ended jobs that tell what their kind can do.
	tested map[kind]*entry
	// searches are those of Saved by ID; trials are by the key of their job.
	searches      map[sched.AppID]*searchEntry
	trials        map[string]trialRef
	keep          int   // ended jobs
	keepBytes     int64 // of them
	queued        loads // jobs that wait or run
	endedBytes    int64 // of Ended
	endedPoints   int   // of the metrics of Ended
	nodeHealth    *diagnose.Quarantine
	healthChanges []diagnose.NodeChange // by the last exit or slow rank
	// policyKept is true if the journal names the policy; otherwise it comes from
	// the configuration until a record sets it.
	policyKept bool
	wake       time.Time // when the policy asked to decide again
	oldest     int64     // day of Past: none is before

	// waiting are the jobs that wait for others, dependents the same by the job or array
	// they wait for, and due those that may not have to any more: see held.go.
	waiting    map[sched.JobID]*entry
	dependents map[string][]*entry
	due        []*entry
	arrays     map[string]*array
}

// Saved is the memory as data: the snapshot in the journal.
type Saved struct {
	Seq       uint64                     `json:"seq"` // of the last record
	State     sched.Saved                `json:"state"`
	Active    []*entry                   `json:"active"`            // pending and running, in order of submission
	Waiting   []*entry                   `json:"waiting,omitempty"` // for other jobs, in order of submission
	Ended     []*entry                   `json:"ended"`             // in order of their end
	Count     int                        `json:"count"`             // jobs ever submitted
	Ends      map[sched.Phase]int        `json:"ends"`              // jobs ever ended, by how
	GPUTime   map[sched.TenantID]float64 `json:"gpu_time"`
	Policy    string                     `json:"policy"`
	Tokens    []api.Token                `json:"tokens"`
	Bidders   []api.Bidder               `json:"bidders,omitempty"`  // oldest first; replaced, never changed
	Searches  []*searchEntry             `json:"searches,omitempty"` // in order of creation
	Decisions uint64                     `json:"decisions"`
	At        time.Time                  `json:"at"` // of the last record
	// Quarantines are the quarantined nodes, NodeLog the recent events from which
	// node health is computed.
	Quarantines map[string]diagnose.NodeChange `json:"quarantines,omitempty"`
	NodeLog     []nodeEvent                    `json:"node_log,omitempty"`
	Keys        []byte                         `json:"keys,omitempty"`   // of forgotten jobs; see usedKeys
	Epochs      []epoch                        `json:"epochs,omitempty"` // oldest first
	Damages     []api.Damage                   `json:"damages,omitempty"`
	// NodeHours is what failure rates are learned from. A node that went stays.
	NodeHours map[string]nodeHours `json:"node_hours,omitempty"`
	// Past is what the jobs of each user used that are no longer kept, by tenant and user.
	Past map[string]tally `json:"past"`
	// Metrics are what jobs have reported of their metrics.
	Metrics map[sched.JobID]*metrics `json:"metrics,omitempty"`
	// Cordons are the nodes that an administrator has cordoned here.
	Cordons map[string]bool `json:"cordons,omitempty"`
}

// entry is a job with everything that the scheduler does not look at.
type entry struct {
	Job   *sched.Job `json:"job"` // of an active job: the state's own
	Task  api.Task   `json:"task"`
	Owner api.Owner  `json:"owner"`
	Key   string     `json:"key,omitempty"`
	// Epoch is the journal's when the job was submitted, StartEpoch that of its last
	// start.
	Epoch      string `json:"epoch,omitempty"`
	StartEpoch string `json:"start_epoch,omitempty"`

	// Hold says that the job waits for others, and the scheduler does not know it: for
	// those of After, unless one of them can no longer end as it should (Broken), or for
	// a place in its array. After is replaced, never changed in place. Accepted is when
	// it came, if it was held.
	Hold     bool        `json:"hold,omitempty"`
	After    []condition `json:"after,omitempty"`
	Broken   string      `json:"broken,omitempty"`
	Accepted time.Time   `json:"accepted,omitzero"`

	// Open are the attempts that started and are not known to have ended.
	Open     []int     `json:"open,omitempty"`
	Exit     *api.Exit `json:"exit,omitempty"`
	Ended    time.Time `json:"ended,omitzero"`
	Why      string    `json:"why,omitempty"` // see api.Job
	MovedTo  string    `json:"moved_to,omitempty"`
	PausedBy string    `json:"paused_by,omitempty"`
	Complete bool      `json:"complete,omitempty"`  // its agent said so
	Lost     int       `json:"lost,omitempty"`      // attempts that the machine lost since new work was saved
	LostAll  int       `json:"lost_all,omitempty"`  // of the job's failures, those that do not count
	HeldBack int       `json:"held_back,omitempty"` // attempts in a row that could not be started
	// Failed are the classified failures, oldest first; the list is replaced, never
	// changed in place.
	Failed     []diagnose.Attempt `json:"failed,omitempty"`
	Asked      int64              `json:"asked,omitempty"`       // host memory before it was enlarged; 0: it never was
	BatchScale float64            `json:"batch_scale,omitempty"` // see api.Attempt
	Plan       *plan.Plan         `json:"plan,omitempty"`        // of the last attempt
	// Steps are seconds of a step alone on its GPUs, by kind of step, and Units those
	// of a unit of its work. Units is replaced, never changed in place.
	Steps   map[string]float64 `json:"steps,omitempty"`
	Units   []goodput.StepTime `json:"units,omitempty"`
	Company company            `json:"company,omitempty"` // at the last report

	Points   []api.Point                 `json:"points,omitempty"`
	Ledger   []api.Entry                 `json:"ledger,omitempty"`
	Spent    tally                       `json:"spent,omitempty"` // without what Ledger says was lost
	Counted  counted                     `json:"counted,omitzero"`
	Profiles map[string]*goodput.Profile `json:"profiles,omitempty"` // by GPU type
	Training *api.Training               `json:"training,omitempty"` // the last one, without samples
	Losses   goodput.LossLog             `json:"losses,omitzero"`
	Links    []api.Link                  `json:"links,omitempty"` // replaced, never changed in place
	// Rate and RateGPUs are from the last report with a rate; they stay while the
	// job waits.
	Rate     float64 `json:"rate,omitempty"`
	RateGPUs int     `json:"rate_gpus,omitempty"`
	Work     float64 `json:"work,omitempty"`     // as its agent said
	Reported float64 `json:"reported,omitempty"` // work done as last reported; the scheduler's Done is extrapolated
	// SaveFailed is why the running attempt could not save; empty: it could.
	SaveFailed string `json:"save_failed,omitempty"`
	Warning    string `json:"warning,omitempty"`    // about the running attempt, to its owner
	Slow       []int  `json:"slow,omitempty"`       // ranks of it that were found slow; replaced, never changed in place
	SlowLinks  []int  `json:"slow_links,omitempty"` // the same, for their links
	Restored   int    `json:"restored,omitempty"`   // the last attempt that said what it found in a checkpoint
	// Resized is the last change of the running attempt in place, as its agent said.
	Resized *api.Resized `json:"resized,omitempty"`
	// Shown is what its own agent has reported that it can do, and Resumed the same
	// once an attempt has gone on from a checkpoint.
	Shown   sched.Ability `json:"shown,omitempty"`
	Resumed sched.Ability `json:"resumed,omitempty"`

	checked int // the last attempt whose processes should have joined
	last    lastReport
	fitters goodput.Fitters
	reason  sched.Reason // of the last decision; not kept
	gauge   gaugeUse
	pace    gangPace
}

func newMemory(keep int, bytes int64) *memory {
	c, _ := sched.NewCluster(nil)
	return &memory{
		Saved: Saved{Ends: map[sched.Phase]int{}, GPUTime: map[sched.TenantID]float64{}, Metrics: map[sched.JobID]*metrics{}, Past: map[string]tally{}},
		state: sched.NewState(c), jobs: map[sched.JobID]*entry{}, keys: map[string]sched.JobID{}, keep: keep, tested: map[kind]*entry{}, keepBytes: bytes, queued: newLoads(),
		searches: map[sched.AppID]*searchEntry{}, trials: map[string]trialRef{}, nodeHealth: newNodeHealth(),
		waiting: map[sched.JobID]*entry{}, dependents: map[string][]*entry{}, arrays: map[string]*array{},
	}
}

// save returns the memory as data that is no longer changed.
func (m *memory) save() Saved {
	s := m.Saved
	s.State = m.state.Save()
	s.Active = make([]*entry, 0, len(s.State.Jobs))
	for i := range s.State.Jobs {
		e := *m.jobs[s.State.Jobs[i].ID]
		e.Job = nil // the state has it
		s.Active = append(s.Active, e.frozen())
	}
	for _, e := range m.heldInOrder() {
		s.Waiting = append(s.Waiting, e.frozen())
	}
	s.Ended = append([]*entry(nil), m.Ended...)
	for i, e := range s.Ended {
		if len(e.Open) > 0 { // the only ended jobs that still change
			s.Ended[i] = e.frozen()
		}
	}
	s.Ends = copyMap(m.Ends)
	s.GPUTime = copyMap(m.GPUTime)
	s.Metrics = m.savedMetrics()
	s.Past = m.savedUsage()
	s.Tokens = append([]api.Token(nil), m.Tokens...)
	s.Quarantines = copyMap(m.Quarantines)
	s.Cordons = copyMap(m.Cordons)
	s.NodeHours = copyMap(m.NodeHours)
	s.NodeLog = append([]nodeEvent(nil), m.NodeLog...)
	s.Epochs = slices.Clone(m.Epochs)
	s.Keys = m.used.pack()
	s.Searches = make([]*searchEntry, len(m.Searches))
	for i, e := range m.Searches {
		s.Searches[i] = e.frozen()
	}
	return s
}

// frozen returns a copy of the entry that shares no mutable data.
func (e *entry) frozen() *entry {
	c := *e
	c.Points = append([]api.Point(nil), e.Points...)
	c.Ledger = append([]api.Entry(nil), e.Ledger...)
	c.Open = append([]int(nil), e.Open...)
	c.Spent = slices.Clone(e.Spent)
	c.Steps = copyMap(e.Steps)
	c.Profiles = make(map[string]*goodput.Profile, len(e.Profiles))
	for t, p := range e.Profiles {
		c.Profiles[t] = copyProfile(p)
	}
	return &c
}

// copyProfile returns a profile that shares no samples with p.
func copyProfile(p *goodput.Profile) *goodput.Profile {
	c := &goodput.Profile{}
	for _, s := range p.Samples() {
		_ = c.Add(s) // p has it, so it is in range
	}
	return c
}

func copyMap[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// restore returns the memory of a snapshot.
func restore(payload []byte, keep int, bytes int64) (*memory, error) {
	var s Saved
	if err := json.Unmarshal(payload, &s); err != nil {
		return nil, err
	}
	return rebuild(s, keep, bytes)
}

// rebuild returns the memory that was saved. It takes over the data.
func rebuild(s Saved, keep int, bytes int64) (*memory, error) {
	m := newMemory(keep, bytes)
	m.Saved = s
	st, err := sched.Restore(m.Saved.State)
	if err != nil {
		return nil, err
	}
	if len(m.Active) != len(m.Saved.State.Jobs) {
		return nil, fmt.Errorf("%d active jobs, but the scheduler's state has %d", len(m.Active), len(m.Saved.State.Jobs))
	}
	m.state = st
	for i, e := range m.Active {
		e.Job, _ = st.Job(m.Saved.State.Jobs[i].ID)
		m.put(e)
		m.queued.add(e, 1)
		m.enlist(e)
	}
	for _, e := range m.Saved.Waiting {
		if e.Job == nil {
			return nil, fmt.Errorf("a waiting entry lacks its job")
		}
		m.hold(e)
		m.due = append(m.due, e)
	}
	for _, e := range m.Saved.Ended {
		if e.Job == nil {
			return nil, fmt.Errorf("an ended entry lacks its job")
		}
		m.put(e)
		m.endedBytes += e.size()
		m.test(e)
		m.enlist(e)
	}
	if m.Ends == nil {
		m.Ends = map[sched.Phase]int{}
	}
	if m.GPUTime == nil {
		m.GPUTime = map[sched.TenantID]float64{}
	}
	if err := m.used.unpack(m.Keys); err != nil {
		return nil, err
	}
	m.putSearches()
	m.restoreMetrics()
	m.restoreUsage()
	m.rebuildNodeHealth()
	m.Saved.State, m.Active, m.Waiting, m.Keys = sched.Saved{}, nil, nil, nil
	m.policyKept = m.Policy != ""
	return m, nil
}

func (e *entry) size() int64 { return size(&e.Job.Spec, &e.Task) }

func (m *memory) put(e *entry) {
	if e.Reported == 0 {
		e.Reported = e.Job.Done // a snapshot of version 0.1
	}
	m.jobs[e.Job.ID] = e
	if e.Key != "" {
		m.keys[keyOf(e.Job.Tenant, e.Key)] = e.Job.ID
	}
}

func keyOf(t sched.TenantID, key string) string { return string(t) + "\x00" + key }

// queue yields the active jobs in order of submission, for callers that may stop
// before the end of a long queue.
func (m *memory) queue() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, j := range m.state.Peek().Jobs {
			if !yield(m.jobs[j.ID]) {
				return
			}
		}
	}
}
