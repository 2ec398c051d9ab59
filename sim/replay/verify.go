// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Reviewer checks the plans of a policy in the daemon; package guard has one.
type Reviewer interface {
	Over(sched.Policy) sched.Policy
	Carried(*sched.Snapshot, sched.Plan)
}

// VerifyOptions says how to repeat decisions.
type VerifyOptions struct {
	// Build makes the policy of a spec.
	Build func(spec string) (sched.Policy, error)
	// First is the policy before the journal names one. Decisions that record their
	// basis name their own.
	First string
	Guard Reviewer // as the daemon had it; nil: none
}

// Verdict is the result of Verify.
type Verdict struct {
	Records   int `json:"records"`
	Decisions int `json:"decisions"` // with records; others changed nothing
	Same      int `json:"same"`
	Different int `json:"different"`
	// Guessed counts decisions that do not record their basis: they were repeated
	// with all that was known before their first record.
	Guessed int `json:"guessed"`
	// Overtaken counts actions that were rightly left out because their jobs had
	// changed since the snapshot.
	Overtaken   int          `json:"overtaken"`
	Actions     int          `json:"actions"`
	Differences []Difference `json:"differences,omitempty"` // the first ones
}

// Difference is a decision with a different result.
type Difference struct {
	Decision uint64    `json:"decision"`
	Seq      uint64    `json:"seq"` // of its first record
	At       time.Time `json:"at"`
	Policy   string    `json:"policy"`
	Guessed  bool      `json:"guessed,omitempty"`
	Recorded []string  `json:"recorded"` // actions only in the journal
	Again    []string  `json:"again"`    // actions only in the repeated decision
}

// maxDifferences bounds the differences in a verdict.
const maxDifferences = 100

// Verify replays a whole journal, repeats every decision at the point at which it was
// made, and compares its actions with the recorded ones.
func Verify(records []api.Record, o VerifyOptions) (*Verdict, error) {
	records, err := straighten(records)
	if err != nil {
		return nil, fmt.Errorf("verify journal: %w", err)
	}
	v, err := newVerifier(records, o)
	if err != nil {
		return nil, fmt.Errorf("verify journal: %w", err)
	}
	for i := range records {
		if err := v.step(&records[i]); err != nil {
			return nil, fmt.Errorf("verify journal: record %d: %w", records[i].Seq, err)
		}
	}
	v.compare()
	return &v.verdict, nil
}

// trial is a decision of the journal.
type trial struct {
	number, first uint64 // the sequence number of its first record
	at            time.Time
	basis         api.Basis
	guessed       bool
	records       []*api.Record

	again []sched.Action // actions of the repeated decision
	// gone are the actions whose jobs had changed when the decision was recorded.
	gone []bool
}

type verifier struct {
	VerifyOptions
	state   *sched.State
	inForce string // by the journal
	spec    string // of policy
	policy  sched.Policy
	after   map[uint64][]*trial // by the last record they saw
	byFirst map[uint64]*trial
	open    *trial // whose records are being read
	verdict Verdict
}

func newVerifier(records []api.Record, o VerifyOptions) (*verifier, error) {
	cluster, err := sched.NewCluster(nil)
	if err != nil {
		return nil, err
	}
	v := &verifier{
		VerifyOptions: o, state: sched.NewState(cluster), inForce: o.First,
		after: map[uint64][]*trial{}, byFirst: map[uint64]*trial{},
		verdict: Verdict{Records: len(records)},
	}
	for i := range records {
		if want := uint64(i + 1); records[i].Seq != want {
			return nil, fmt.Errorf("record %d is missing; want a whole journal, from record 1 on without gaps", want)
		}
	}
	var now *trial
	for i := range records {
		r := &records[i]
		switch {
		case r.Decision == 0:
			now = nil
		case now != nil && r.Decision == now.number && r.Basis == nil:
			now.records = append(now.records, r)
		default:
			now = &trial{number: r.Decision, first: r.Seq, at: r.At, records: []*api.Record{r}}
			now.find(records[:i])
			v.after[now.basis.Seen] = append(v.after[now.basis.Seen], now)
			v.byFirst[r.Seq] = now
			v.verdict.Decisions++
		}
	}
	return v, nil
}

// find finds the basis of a decision.
func (t *trial) find(before []api.Record) {
	if b := t.records[0].Basis; b != nil {
		t.basis = *b
		if b.Seen > 0 && b.Seen < t.first {
			return
		}
	} else {
		t.basis.Now = t.at
	}
	// The notes of a decision are recorded just before its actions.
	t.guessed = true
	n := len(before)
	for n > 0 && before[n-1].Event != nil && before[n-1].Event.Kind == sched.JobNoted && before[n-1].At.Equal(t.at) {
		n--
	}
	t.basis.Seen = uint64(n)
}

// step adds one record, and repeats the decisions that were made after it.
func (v *verifier) step(r *api.Record) error {
	if t := v.byFirst[r.Seq]; t != nil {
		v.compare()
		t.overtaken(v.state, r.At)
		v.open = t
	}
	if r.Policy != "" {
		v.inForce, v.policy = r.Policy, nil // caches end with the policy, as in the daemon
	}
	if r.Event != nil {
		if err := inCluster(r.Event.Placement, v.state.Cluster()); err != nil {
			return err
		}
		if err := v.state.Apply(*r.Event); err != nil {
			return err
		}
	}
	for _, t := range v.after[r.Seq] {
		if err := v.decide(t); err != nil {
			return fmt.Errorf("decision %d: %w", t.number, err)
		}
	}
	return nil
}

// decide repeats a decision.
func (v *verifier) decide(t *trial) error {
	if t.basis.Policy == "" {
		t.basis.Policy = v.inForce
	}
	if t.basis.Policy == "" {
		return fmt.Errorf("the journal does not name the first policy; want one")
	}
	if v.policy == nil || v.spec != t.basis.Policy {
		p, err := v.Build(t.basis.Policy)
		if err != nil {
			return err
		}
		v.policy, v.spec = p, t.basis.Policy
	}
	p := v.policy
	if v.Guard != nil {
		p = v.Guard.Over(p)
	}
	s := v.state.Frozen(t.basis.Now)
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		return err
	}
	if v.Guard != nil {
		v.Guard.Carried(s, plan)
	}
	t.again = actions
	return nil
}

// overtaken marks the actions that the state leaves out: their jobs have changed
// since the snapshot, or a node no longer accepts work.
func (t *trial) overtaken(st *sched.State, now time.Time) {
	t.gone = make([]bool, len(t.again))
	stops := map[sched.JobID]bool{}
	for i, a := range t.again {
		j, ok := st.Job(a.Job.ID)
		changed := !ok || j.Phase != a.Job.Phase || j.Starts != a.Job.Starts ||
			!j.Placement.Equal(a.Job.Placement) || !j.NotBefore.Equal(a.Job.NotBefore) || j.Paused != a.Job.Paused
		if changed {
			t.gone[i] = true
			continue
		}
		if a.Verb == sched.Stop {
			stops[j.ID] = true
			continue
		}
		t.gone[i] = (j.Phase != sched.Pending && !stops[j.ID]) || !j.Ready(now)
		for _, s := range a.To {
			if st.Cluster().Nodes[s.Node].State != sched.Ready {
				t.gone[i] = true
			}
		}
	}
}

// compare ends the decision whose records have been read.
func (v *verifier) compare() {
	t := v.open
	if t == nil {
		return
	}
	v.open = nil
	cluster := v.state.Cluster()
	recorded := make([]string, 0, len(t.records))
	for _, r := range t.records {
		recorded = append(recorded, recordedText(cluster, r))
	}
	var missing, more []string
	for i, a := range t.again {
		switch text := actionText(cluster, a); {
		case take(&recorded, text):
			v.verdict.Actions++
		case i < len(t.gone) && t.gone[i]:
			v.verdict.Overtaken++
		default:
			more = append(more, text)
		}
	}
	missing = recorded
	if t.guessed {
		v.verdict.Guessed++
	}
	if len(missing)+len(more) == 0 {
		v.verdict.Same++
		return
	}
	v.verdict.Different++
	if len(v.verdict.Differences) < maxDifferences {
		v.verdict.Differences = append(v.verdict.Differences, Difference{
			Decision: t.number, Seq: t.first, At: t.at, Policy: t.basis.Policy, Guessed: t.guessed,
			Recorded: missing, Again: more,
		})
	}
}

// inCluster reports a placement on GPUs that the cluster does not have.
func inCluster(p sched.Placement, c *sched.Cluster) error {
	for _, s := range p {
		if s.Node < 0 || int(s.Node) >= len(c.Nodes) {
			return fmt.Errorf("placement on node %d; the cluster has %d nodes", s.Node, len(c.Nodes))
		}
		if n := c.Nodes[s.Node]; s.GPUs&^sched.FirstGPUs(n.GPUs) != 0 || s.GPUs == 0 || s.Milli < 1 || s.Milli > sched.WholeGPU {
			return fmt.Errorf("placement on GPUs %s of node %s, %d thousandths of each; it has %d GPUs", s.GPUs, n.Name, s.Milli, n.GPUs)
		}
	}
	return nil
}

// take removes a text from a list, if it is there.
func take(list *[]string, text string) bool {
	for i, s := range *list {
		if s == text {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return true
		}
	}
	return false
}

func actionText(c *sched.Cluster, a sched.Action) string {
	switch {
	case a.Verb == sched.Start:
		return fmt.Sprintf("start %s on %s", a.Job.ID, a.To.Text(c))
	case a.Moving:
		return fmt.Sprintf("stop %s to move it", a.Job.ID)
	}
	return fmt.Sprintf("stop %s", a.Job.ID)
}

func recordedText(c *sched.Cluster, r *api.Record) string {
	e := r.Event
	switch {
	case e == nil:
		return "record " + fmt.Sprint(r.Seq) + " without an event"
	case e.Kind == sched.JobStarted:
		return fmt.Sprintf("start %s on %s", e.Job, e.Placement.Text(c))
	case e.Kind == sched.JobStopped && e.Moving:
		return fmt.Sprintf("stop %s to move it", e.Job)
	case e.Kind == sched.JobStopped:
		return fmt.Sprintf("stop %s", e.Job)
	}
	return fmt.Sprintf("%s %s", e.Kind, e.Job)
}
