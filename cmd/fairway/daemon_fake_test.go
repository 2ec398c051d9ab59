// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

// fake is a daemon without machines: a job runs the second time somebody asks
// for it, and ends the third time; one whose program is "false" fails. It
// stands behind the real server.
type fake struct {
	mu      sync.Mutex
	jobs    []*live.Job
	keys    map[string]sched.JobID
	asked   map[sched.JobID]int
	records []live.Record
	tenants []live.TenantView
	tokens  []live.Token
	hunts   []live.Search
	node    live.Node
	policy  string
}

func newFake() *fake {
	return &fake{
		keys: map[string]sched.JobID{}, asked: map[sched.JobID]int{}, policy: "las",
		node:    live.Node{Node: sched.Node{Name: "gpu-1", GPUs: 2, Type: "h200"}, Up: true, Slots: []live.GPUSlot{{Index: 0}, {Index: 1}}},
		tenants: []live.TenantView{{Tenant: sched.Tenant{ID: "default", Weight: 3, Quota: 4}}},
	}
}

func (f *fake) note(r live.Record) {
	r.Seq, r.At = uint64(len(f.records)+1), time.Now()
	f.records = append(f.records, r)
}

func (f *fake) find(id sched.JobID) (*live.Job, error) {
	i := slices.IndexFunc(f.jobs, func(j *live.Job) bool { return j.ID == id })
	if i < 0 {
		return nil, live.Errorf(live.Unknown, "there is no job %q", id).Try("see `fairway ps`")
	}
	return f.jobs[i], nil
}

func (f *fake) Submit(_ context.Context, who live.Identity, list []live.Submission) ([]live.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []live.Job
	for _, s := range list {
		if s.Name == "refused" {
			return nil, live.Errorf(live.TooMany, "the queue is full").Try("try again later")
		}
		if id, ok := f.keys[s.Key]; ok && s.Key != "" {
			j, _ := f.find(id)
			out = append(out, *j)
			continue
		}
		now := time.Now()
		j := &live.Job{Spec: s.Spec, Task: s.Task, State: live.Waiting, Reason: &live.Reason{Code: "full", Text: "needs 1 GPU; 0 are free"}}
		j.ID = sched.JobID(fmt.Sprintf("%s-%d", s.Name, len(f.jobs)+1))
		j.Submitted, j.Status.Since, j.User, j.Status.Seq = now, now, who.User, int64(len(f.jobs))
		f.jobs = append(f.jobs, j)
		f.keys[s.Key] = j.ID
		f.note(live.Record{Actor: who.User, Event: &sched.Event{Kind: sched.JobSubmitted, Spec: &j.Spec}, Task: &j.Task})
		out = append(out, *j)
	}
	return out, nil
}

// CreateSearch makes a search with two trials; one that is called "gone" has been
// cancelled.
func (f *fake) CreateSearch(_ context.Context, who live.Identity, s live.SearchSpec) (live.Search, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.hunts, func(o live.Search) bool { return o.ID == s.ID }) {
		return live.Search{}, live.Errorf(live.Conflict, "there is an app %q already", s.ID).On("id").Try("choose another name")
	}
	value, best := 0.25, 0
	made := live.Search{ID: s.ID, User: who.User, State: live.Running, Submitted: time.Now(), Spec: s, Best: &best, Trials: []live.Trial{
		{Params: map[string]string{"opt": "adam", "lr": "0.1"}, Job: "tune-1", State: live.Killed, Early: true, Why: "ranks 2 of 3", Value: &value, Done: 9},
		{Number: 1, Params: map[string]string{"opt": "sgd", "lr": "1"}, Job: "tune-2", State: live.Running},
	}}
	if s.ID == "gone" {
		made.State, made.Why, made.Ended = live.Killed, "cancelled by ann", time.Now()
	}
	f.hunts = append(f.hunts, made)
	return made, nil
}

func (f *fake) Search(_ live.Identity, id sched.AppID) (live.Search, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.hunts {
		if s.ID == id {
			return s, nil
		}
	}
	return live.Search{}, live.Errorf(live.Unknown, "no search %q", id)
}

func (f *fake) Searches(live.Identity) ([]live.Search, error) { return f.hunts, nil }

func (f *fake) Command(_ context.Context, who live.Identity, id sched.JobID, c live.Command) (live.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	switch {
	case err != nil:
		return live.Job{}, err
	case j.Status.Phase.Ended():
		return live.Job{}, live.Errorf(live.Conflict, "job %s is %s already", id, j.State)
	case c == live.Cancel:
		j.State, j.Status.Phase, j.Reason = live.Killed, sched.Killed, nil
	case c == live.Pause:
		j.State, j.PausedBy = live.Paused, who.User
	case c == live.Resume:
		j.State, j.PausedBy = live.Waiting, ""
	}
	return *j, nil
}

func (f *fake) CommandApp(ctx context.Context, who live.Identity, app sched.AppID, c live.Command) ([]live.Job, error) {
	var out []live.Job
	for _, j := range f.jobs {
		if j.App == app {
			done, err := f.Command(ctx, who, j.ID, c)
			if err != nil {
				return nil, err
			}
			out = append(out, done)
		}
	}
	if len(out) == 0 {
		return nil, live.Errorf(live.Unknown, "there is no app %q", app)
	}
	return out, nil
}

func (f *fake) Job(_ live.Identity, id sched.JobID) (live.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	if err != nil {
		return live.Job{}, err
	}
	f.asked[id]++
	switch {
	case j.Status.Phase.Ended() || f.asked[id] < 2:
	case f.asked[id] == 2:
		j.State, j.Status.Phase, j.Reason, j.Held = live.Running, sched.Running, nil, []live.Held{{Node: "gpu-1", GPUs: []int{0}, Milli: 1000}}
	case j.Command[0] == "false":
		j.State, j.Status.Phase, j.Held = live.Failed, sched.Failed, nil
		j.Exit = &live.Exit{Code: 7, Why: "no such data set"}
	default:
		j.State, j.Status.Phase, j.Held = live.Finished, sched.Finished, nil
	}
	return *j, nil
}

func (f *fake) List(_ live.Identity, q live.JobFilter) (live.JobPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page live.JobPage
	skipping := q.After != ""
	for _, j := range slices.Backward(f.jobs) {
		if q.App != "" && j.App != q.App || len(q.States) > 0 && !slices.Contains(q.States, j.State) || !strings.Contains(string(j.ID), q.Search) {
			continue
		}
		page.Total++
		switch {
		case skipping:
			skipping = j.ID != q.After
		case len(page.Jobs) < q.Limit:
			page.Jobs = append(page.Jobs, *j)
		case page.Next == "":
			page.Next = page.Jobs[len(page.Jobs)-1].ID
		}
	}
	return page, nil
}

func (f *fake) Explain(_ live.Identity, id sched.JobID) (live.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	if err != nil {
		return live.Explanation{}, err
	}
	return live.Explanation{Job: *j, Now: time.Now(), Policy: f.policy, Summary: "It waits.", AllGPUs: 2}, nil
}

func (f *fake) Points(live.Identity, sched.JobID) ([]live.Point, error) { return nil, nil }

func (f *fake) Apps(live.Identity) ([]live.AppView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []live.AppView
	for _, j := range f.jobs {
		if j.App == "" {
			continue
		}
		if i := slices.IndexFunc(out, func(a live.AppView) bool { return a.ID == j.App }); i >= 0 {
			out[i].Jobs++
			continue
		}
		out = append(out, live.AppView{ID: j.App, Submitted: j.Submitted, Jobs: 1})
	}
	return out, nil
}

func (f *fake) Records(_ live.Identity, q live.RecordFilter) (live.RecordPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := live.RecordPage{Next: q.After, Oldest: 1}
	for _, r := range f.records {
		if r.Seq > q.After && (q.Job == "" || r.Job() == q.Job) && (q.Kind == "" || r.Kind() == q.Kind) {
			page.Records, page.Next = append(page.Records, r), r.Seq
		}
	}
	return page, nil
}

func (f *fake) Watch(context.Context, live.Identity, live.RecordFilter, func(live.Record) error) error {
	return live.Errorf(live.Denied, "the fake has no future")
}

func (f *fake) History(live.Identity) ([]live.Sample, error) { return nil, nil }

func (f *fake) Overview(live.Identity) (live.Overview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return live.Overview{Now: now, Started: now.Add(-time.Hour), Policy: f.policy, GPUs: 2, Seq: uint64(len(f.records))}, nil
}

func (f *fake) Nodes(live.Identity) ([]live.Node, error) { return []live.Node{f.node}, nil }

func (f *fake) SetNode(_ context.Context, _ live.Identity, name string, s sched.NodeState) (live.Node, error) {
	if name != f.node.Name {
		return live.Node{}, live.Errorf(live.Unknown, "there is no node %q", name)
	}
	f.node.State = s
	return f.node, nil
}

func (f *fake) Tenants(live.Identity) ([]live.TenantView, error) { return f.tenants, nil }

func (f *fake) SetTenant(_ context.Context, _ live.Identity, t sched.Tenant) (live.TenantView, error) {
	v := live.TenantView{Tenant: t}
	f.tenants = slices.DeleteFunc(f.tenants, func(o live.TenantView) bool { return o.ID == t.ID })
	f.tenants = append(f.tenants, v)
	return v, nil
}

func (f *fake) Policy(live.Identity) (string, error) { return f.policy, nil }

func (f *fake) SetPolicy(_ context.Context, _ live.Identity, spec string, dryRun bool) (live.PolicyChange, error) {
	change := live.PolicyChange{From: f.policy, To: spec, DryRun: dryRun, Stops: 1, Actions: []string{"stop a-1"}}
	if !dryRun {
		f.policy = spec
	}
	return change, nil
}

func (f *fake) Tokens(live.Identity) ([]live.Token, error) { return f.tokens, nil }

func (f *fake) CreateToken(_ context.Context, _ live.Identity, t live.Token) (live.Token, string, error) {
	t.ID, t.Created = fmt.Sprintf("tk-%d", len(f.tokens)+1), time.Now()
	f.tokens = append(f.tokens, t)
	return t, "fw_secret", nil
}

func (f *fake) RevokeToken(_ context.Context, _ live.Identity, id string) error {
	for i := range f.tokens {
		if f.tokens[i].ID == id {
			f.tokens[i].Revoked = true
			return nil
		}
	}
	return live.Errorf(live.Unknown, "there is no token %q", id)
}

func (f *fake) Authenticate(secret string) (live.Identity, error) {
	if secret == "token" || secret == "token-1" {
		return live.Identity{User: "ann", Tenant: "default", Role: live.User}, nil
	}
	return live.Identity{}, live.Errorf(live.Denied, "no such token")
}

func (f *fake) Report(context.Context, string, live.AgentReport) (live.AgentAnswer, error) {
	return live.AgentAnswer{}, nil
}

func (f *fake) CopyLog(_ context.Context, id sched.JobID, q live.LogQuery, w io.Writer) error {
	_, err := fmt.Fprintf(w, "log of %s rank %d tail %d follow %v\n", id, q.Rank, q.Tail, q.Follow)
	return err
}
