// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim/replay"
)

// past is the history of a job in the journal.
type past struct {
	starts []sched.Placement // attempt 1 first
	exits  map[int][]api.Exit
	ends   []sched.Phase
	// reports is the work done, as agents reported it.
	reports []float64
}

// chronicle is the content of the journal.
type chronicle struct {
	jobs    map[string]*past
	nodes   []string       // by number
	others  map[string]int // GPUs of each node that other pods hold
	records int
}

// readJournal reads what all leaders so far have written.
func (w *world) readJournal(t *testing.T) chronicle {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Pages: journal.Objects{Client: w.admin, Namespace: operator.Namespace}, Leader: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	c := chronicle{jobs: map[string]*past{}, others: map[string]int{}}
	err = j.ReadHot(0, func(seq uint64, payload []byte) error {
		r, err := replay.Decode(payload)
		if err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		c.add(&r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *chronicle) add(r *api.Record) {
	c.records++
	if e := r.Event; e != nil && e.Kind == sched.NodeJoined {
		c.others[e.Node.Name] = e.Node.Others.Len()
		if !slices.Contains(c.nodes, e.Node.Name) {
			c.nodes = append(c.nodes, e.Node.Name)
		}
	}
	id := string(r.Job())
	if id == "" {
		return
	}
	p := c.jobs[id]
	if p == nil {
		p = &past{exits: map[int][]api.Exit{}}
		c.jobs[id] = p
	}
	if r.Exit != nil {
		p.exits[r.Exit.Number] = append(p.exits[r.Exit.Number], *r.Exit)
	}
	if r.Event == nil {
		return
	}
	switch r.Event.Kind {
	case sched.JobStarted:
		p.starts = append(p.starts, r.Event.Placement)
	case sched.JobReported:
		p.reports = append(p.reports, r.Event.Done)
	case sched.JobEnded:
		p.ends = append(p.ends, r.Event.Phase)
	}
}

// account checks that objects, pods and journal agree, and that no job is lost. It
// returns the number of jobs in each state.
func (w *world) account(t *testing.T) map[string]int {
	t.Helper()
	w.ledger.catchUp(t)
	past := w.readJournal(t)
	pods := w.ledger.attempts()
	for a, gang := range pods {
		if err := past.agrees(a, gang); err != nil {
			t.Errorf("the journal and the pods differ: %v", err)
		}
	}
	states := map[string]int{}
	for _, namespace := range w.namespaces {
		var jobs v1alpha1.TrainingJobList
		if err := w.admin.List(t.Context(), &jobs, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			states[job.Status.State]++
			if err := past.accounts(job, pods); err != nil {
				t.Errorf("job %s/%s, %s (%s): %v", job.Namespace, job.Name, job.Status.State, job.Status.Why, err)
			}
		}
	}
	t.Logf("account: %d jobs %v, %d records in the journal, %d attempts with pods", len(past.jobs), states, past.records, len(pods))
	return states
}

// endedWell reports whether every rank of an attempt's leading role has one pod that ended
// well before anybody asked it to stop. Pods that were stopped, and made again by the next
// leader, do not count.
func endedWell(gang []*story, lead string) bool {
	well := map[int]int{}
	for _, s := range gang {
		if s.role == lead {
			well[s.rank] += 0
			if s.phase == corev1.PodSucceeded && !s.asked {
				well[s.rank]++
			}
		}
	}
	for _, n := range well {
		if n != 1 {
			return false
		}
	}
	return len(well) > 0
}

// agrees checks the pods of an attempt against the journal.
func (c *chronicle) agrees(a attempt, gang []*story) error {
	p := c.jobs[a.job]
	if p == nil || a.number < 1 || a.number > len(p.starts) {
		return fmt.Errorf("attempt %d of %s has pods, and was never ordered", a.number, a.job)
	}
	allowed := map[string]bool{}
	for _, s := range p.starts[a.number-1] {
		if int(s.Node) < len(c.nodes) {
			allowed[c.nodes[s.Node]] = true
		}
	}
	for _, s := range gang {
		if s.node != "" && !allowed[s.node] {
			return fmt.Errorf("pod %s is on node %s; attempt %d of %s was ordered to be on %v", s.name, s.node, a.number, a.job, allowed)
		}
	}
	return nil
}

// accounts checks that a job runs with all its pods, waits with a reason, or has
// ended in exactly one way.
func (c *chronicle) accounts(job *v1alpha1.TrainingJob, pods map[attempt][]*story) error {
	if job.Status.State == v1alpha1.Refused {
		if why := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.Accepted); why == nil || why.Message == "" {
			return errors.New("it was refused without a reason")
		}
		return nil
	}
	p := c.jobs[job.Status.ID]
	if p == nil {
		return fmt.Errorf("the journal does not know %q", job.Status.ID)
	}
	good, whole := 0, 0
	for number := 1; number <= len(p.starts); number++ {
		exits := p.exits[number]
		if len(exits) > 1 {
			return fmt.Errorf("attempt %d ended %d times", number, len(exits))
		}
		if len(exits) == 1 && exits[0].OK() {
			good++
		}
		gang := pods[attempt{job.Status.ID, number}]
		lead := ""
		if len(job.Spec.Roles) > 0 {
			lead = job.Spec.Roles[0].Name
		}
		if endedWell(gang, lead) {
			whole++
		}
	}
	switch job.Status.State {
	case api.Finished:
		if good != 1 || whole != 1 || len(p.ends) != 1 || p.ends[0] != sched.Finished {
			return fmt.Errorf("%d attempts ended well by the journal, %d by their pods, and it ended %v; want each once:%s", good, whole, p.ends, p.tell(job.Status.ID, pods))
		}
	case api.Failed, api.Cancelled:
		if good != 0 || len(p.ends) != 1 {
			return fmt.Errorf("%d attempts ended well, and it ended %v; want none and one end", good, p.ends)
		}
	case api.Running:
		gang := pods[attempt{job.Status.ID, int(job.Status.Attempt)}]
		gpus := int64(0)
		for _, s := range gang {
			if s.holds() {
				gpus += s.gpus
			}
		}
		if want := gpusOf(p.starts[len(p.starts)-1]); gpus != want {
			return fmt.Errorf("its pods hold %d GPUs; want %d", gpus, want)
		}
	case api.Waiting, api.Paused:
		if job.Status.Why == "" {
			return errors.New("it waits, and nobody knows why")
		}
	case api.Starting, api.Stopping:
	default:
		return errors.New("its state is none that there is")
	}
	return nil
}

func gpusOf(p sched.Placement) int64 {
	n := 0
	for _, s := range p {
		n += s.GPUs.Len()
	}
	return int64(n)
}

// tell describes the attempts of a job.
func (p *past) tell(id string, pods map[attempt][]*story) string {
	var b strings.Builder
	for number := 1; number <= len(p.starts); number++ {
		fmt.Fprintf(&b, "\n\tattempt %d on %d GPUs:", number, gpusOf(p.starts[number-1]))
		for _, e := range p.exits[number] {
			fmt.Fprintf(&b, " exit %q (noticed %v)", e.Text(), e.Noticed)
		}
		for _, s := range pods[attempt{id, number}] {
			fmt.Fprintf(&b, "; %s %s, asked to stop %v, gone %v", s.name, s.phase, s.asked, s.gone)
		}
	}
	return b.String()
}
