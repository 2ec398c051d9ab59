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

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// fake is a daemon without machines: a job runs the second time somebody asks
// for it, and ends the third time; one whose program is "false" fails. It
// stands behind the real server.
type fake struct {
	mu      sync.Mutex
	jobs    []*api.Job
	keys    map[string]sched.JobID
	asked   map[sched.JobID]int
	records []api.Record
	tenants []api.TenantView
	tokens  []api.Token
	hunts   []api.Search
	node    api.Node
	policy  string
}

func newFake() *fake {
	return &fake{
		keys: map[string]sched.JobID{}, asked: map[sched.JobID]int{}, policy: "las",
		node:    api.Node{Node: sched.Node{Name: "gpu-1", GPUs: 2, Type: "h200"}, Up: true, Slots: []api.GPUSlot{{Index: 0}, {Index: 1}}},
		tenants: []api.TenantView{{Tenant: sched.Tenant{ID: "default", Weight: 3, Quota: 4}}},
	}
}

func (f *fake) note(r api.Record) {
	r.Seq, r.At = uint64(len(f.records)+1), time.Now()
	f.records = append(f.records, r)
}

func (f *fake) find(id sched.JobID) (*api.Job, error) {
	i := slices.IndexFunc(f.jobs, func(j *api.Job) bool { return j.ID == id })
	if i < 0 {
		return nil, api.Errorf(api.Unknown, "there is no job %q", id).Try("see `fairway ps`")
	}
	return f.jobs[i], nil
}

func (f *fake) Submit(_ context.Context, who api.Identity, list []api.Submission) ([]api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []api.Job
	for _, s := range list {
		if s.Name == "refused" {
			return nil, api.Errorf(api.TooMany, "the queue is full").Try("try again later")
		}
		if id, ok := f.keys[s.Key]; ok && s.Key != "" {
			j, _ := f.find(id)
			out = append(out, *j)
			continue
		}
		now := time.Now()
		j := &api.Job{Spec: s.Spec, Task: s.Task, State: api.Waiting, Reason: &api.Reason{Code: "full", Text: "needs 1 GPU; 0 are free"}}
		j.ID = sched.JobID(fmt.Sprintf("%s-%d", s.Name, len(f.jobs)+1))
		j.Protected = s.Preemptible == nil
		j.Submitted, j.Status.Since, j.User, j.Status.Seq = now, now, who.User, int64(len(f.jobs))
		f.jobs = append(f.jobs, j)
		f.keys[s.Key] = j.ID
		f.note(api.Record{Actor: who.User, Event: &sched.Event{Kind: sched.JobSubmitted, Spec: &j.Spec}, Task: &j.Task})
		out = append(out, *j)
	}
	return out, nil
}

// CreateSearch makes a search with two trials; one that is called "gone" has been
// cancelled.
func (f *fake) CreateSearch(_ context.Context, who api.Identity, s api.SearchSpec) (api.Search, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.hunts, func(o api.Search) bool { return o.ID == s.ID }) {
		return api.Search{}, api.Errorf(api.Conflict, "app %q already exists", s.ID).On("id").Try("choose another name")
	}
	value, best := 0.25, 0
	made := api.Search{ID: s.ID, User: who.User, State: api.Running, Submitted: time.Now(), Spec: s, Best: &best, Trials: []api.Trial{
		{Params: map[string]string{"opt": "adam", "lr": "0.1"}, Job: "tune-1", State: api.Cancelled, Early: true, Why: "ranks 2 of 3", Value: &value, Done: 9},
		{Number: 1, Params: map[string]string{"opt": "sgd", "lr": "1"}, Job: "tune-2", State: api.Running},
	}}
	if s.ID == "gone" {
		made.State, made.Why, made.Ended = api.Cancelled, "cancelled by ann", time.Now()
	}
	f.hunts = append(f.hunts, made)
	return made, nil
}

func (f *fake) Search(_ api.Identity, id sched.AppID) (api.Search, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.hunts {
		if s.ID == id {
			return s, nil
		}
	}
	return api.Search{}, api.Errorf(api.Unknown, "no search %q", id)
}

func (f *fake) Searches(api.Identity) ([]api.Search, error) { return f.hunts, nil }

func (f *fake) Command(_ context.Context, who api.Identity, id sched.JobID, c api.Command) (api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	switch {
	case err != nil:
		return api.Job{}, err
	case j.Status.Phase.Ended():
		return api.Job{}, api.Errorf(api.Conflict, "job %s has already ended", id)
	case c == api.Cancel:
		j.State, j.Status.Phase, j.Reason = api.Cancelled, sched.Cancelled, nil
	case c == api.Pause:
		j.State, j.PausedBy = api.Paused, who.User
	case c == api.Resume:
		j.State, j.PausedBy = api.Waiting, ""
	}
	return *j, nil
}

func (f *fake) CommandApp(ctx context.Context, who api.Identity, app sched.AppID, c api.Command) ([]api.Job, error) {
	var out []api.Job
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
		return nil, api.Errorf(api.Unknown, "there is no app %q", app)
	}
	return out, nil
}

func (f *fake) Job(_ api.Identity, id sched.JobID) (api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	if err != nil {
		return api.Job{}, err
	}
	f.asked[id]++
	switch {
	case j.Status.Phase.Ended() || f.asked[id] < 2:
	case f.asked[id] == 2:
		j.State, j.Status.Phase, j.Reason, j.Held = api.Running, sched.Running, nil, []api.Held{{Node: "gpu-1", GPUs: []int{0}, Milli: 1000}}
	case j.Command[0] == "false":
		j.State, j.Status.Phase, j.Held = api.Failed, sched.Failed, nil
		j.Exit = &api.Exit{Code: 7, Why: "no such data set"}
	default:
		j.State, j.Status.Phase, j.Held = api.Finished, sched.Finished, nil
	}
	return *j, nil
}

func (f *fake) List(_ api.Identity, q api.JobFilter) (api.JobPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page api.JobPage
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

func (f *fake) Preview(_ context.Context, _ api.Identity, s api.Submission) (api.Preview, error) {
	return api.Preview{Now: time.Now(), Policy: f.policy, Size: api.SizePreview{GPUs: s.GPUs, Starts: true}}, nil
}

func (f *fake) Submission(_ context.Context, _ api.Identity, id sched.JobID) (api.Submission, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	if err != nil {
		return api.Submission{}, err
	}
	s := api.Submission{Spec: j.Spec, Task: j.Task}
	s.ID = ""
	return s, nil
}

func (f *fake) HandOver(context.Context, api.Identity, sched.JobID, api.Handover) (api.Job, error) {
	return api.Job{}, api.Errorf(api.Conflict, "has started")
}

func (f *fake) Explain(_ api.Identity, id sched.JobID) (api.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	if err != nil {
		return api.Explanation{}, err
	}
	return api.Explanation{Job: *j, Now: time.Now(), Policy: f.policy, Summary: "It waits.", AllGPUs: 2}, nil
}

// Metrics returns a loss that falls, in points of two values each.
func (f *fake) Metrics(_ api.Identity, id sched.JobID, names []string) (api.MetricList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(id); err != nil {
		return api.MetricList{}, err
	}
	loss, last := api.Series{Name: "loss"}, 0.5
	for i := range 4 {
		v := 4 - float64(i)
		loss.Add(api.SeriesPoint{Step: 10 * float64(i+1), At: 1700000000 + float64(i), Value: v, Min: v - 0.5, Max: v + 0.5, Count: 2})
	}
	loss.Last = &last
	out := api.MetricList{Metrics: []api.Series{{Name: "accuracy", Steps: []float64{10}, At: []float64{1700000000}, Values: []float64{0.25}}, loss}}
	if len(names) > 0 {
		out.Metrics = slices.DeleteFunc(out.Metrics, func(s api.Series) bool { return !slices.Contains(names, s.Name) })
	}
	return out, nil
}

// Usage returns what two users used.
func (f *fake) Usage(_ api.Identity, q api.UsageQuery) (api.Usage, error) {
	rows := []api.UsageRow{
		{Day: "2026-03-01", Tenant: "default", User: "ann", Job: "train-1", Ended: 3, Failed: 1, GPUs: 36000, Lost: 1800, Measured: 18000, Idle: 9000, Waited: 7200},
		{Day: "2026-03-02", Tenant: "default", User: "=bob", Job: "train-2", GPUs: 3600},
	}
	u := api.Usage{By: q.By, From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), Price: api.Price{GPUHour: 2, Currency: "EUR"}}
	u.Rows, u.Total = api.SumUsage(rows, q.By)
	return u, nil
}

func (f *fake) Points(api.Identity, sched.JobID) ([]api.Point, error) { return nil, nil }

func (f *fake) Apps(api.Identity) ([]api.AppView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []api.AppView
	for _, j := range f.jobs {
		if j.App == "" {
			continue
		}
		if i := slices.IndexFunc(out, func(a api.AppView) bool { return a.ID == j.App }); i >= 0 {
			out[i].Jobs++
			continue
		}
		out = append(out, api.AppView{ID: j.App, Submitted: j.Submitted, Jobs: 1})
	}
	return out, nil
}

func (f *fake) Records(_ api.Identity, q api.RecordFilter) (api.RecordPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := api.RecordPage{Next: q.After, Oldest: 1}
	for _, r := range f.records {
		if r.Seq > q.After && (q.Job == "" || r.Job() == q.Job) && (q.Kind == "" || r.Kind() == q.Kind) {
			page.Records, page.Next = append(page.Records, r), r.Seq
		}
	}
	return page, nil
}

func (f *fake) Watch(context.Context, api.Identity, api.RecordFilter, func(api.Record) error) error {
	return api.Errorf(api.Denied, "the fake has no future")
}

func (f *fake) History(api.Identity) ([]api.Sample, error) { return nil, nil }

func (f *fake) Overview(api.Identity) (api.Overview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return api.Overview{Now: now, Started: now.Add(-time.Hour), Policy: f.policy, GPUs: 2, Seq: uint64(len(f.records))}, nil
}

func (f *fake) Nodes(api.Identity) ([]api.Node, error) { return []api.Node{f.node}, nil }

func (f *fake) SetNode(_ context.Context, _ api.Identity, name string, s sched.NodeState) (api.Node, error) {
	if name != f.node.Name {
		return api.Node{}, api.Errorf(api.Unknown, "there is no node %q", name)
	}
	f.node.State = s
	return f.node, nil
}

func (f *fake) Tenants(api.Identity) ([]api.TenantView, error) { return f.tenants, nil }

func (f *fake) AcknowledgeDamage(context.Context, api.Identity) ([]api.Damage, error) {
	return nil, nil
}

func (f *fake) SetTenant(_ context.Context, _ api.Identity, t sched.Tenant) (api.TenantView, error) {
	v := api.TenantView{Tenant: t}
	f.tenants = slices.DeleteFunc(f.tenants, func(o api.TenantView) bool { return o.ID == t.ID })
	f.tenants = append(f.tenants, v)
	return v, nil
}

func (f *fake) Policy(api.Identity) (string, error) { return f.policy, nil }

func (f *fake) SetPolicy(_ context.Context, _ api.Identity, spec string, dryRun bool) (api.PolicyChange, error) {
	change := api.PolicyChange{From: f.policy, To: spec, DryRun: dryRun, Stops: 1, Actions: []string{"stop a-1"}}
	if !dryRun {
		f.policy = spec
	}
	return change, nil
}

func (f *fake) Tokens(api.Identity) ([]api.Token, error) { return f.tokens, nil }

func (f *fake) CreateToken(_ context.Context, _ api.Identity, t api.Token) (api.Token, string, error) {
	t.ID, t.Created = fmt.Sprintf("tk-%d", len(f.tokens)+1), time.Now()
	f.tokens = append(f.tokens, t)
	return t, "fw_secret", nil
}

func (f *fake) RevokeToken(_ context.Context, _ api.Identity, id string) error {
	for i := range f.tokens {
		if f.tokens[i].ID == id {
			f.tokens[i].Revoked = true
			return nil
		}
	}
	return api.Errorf(api.Unknown, "there is no token %q", id)
}

func (f *fake) Authenticate(secret string) (api.Identity, error) {
	if secret == "token" || secret == "token-1" {
		return api.Identity{User: "ann", Tenant: "default", Role: api.User}, nil
	}
	return api.Identity{}, api.Errorf(api.Denied, "no such token")
}

func (f *fake) Report(context.Context, string, api.AgentReport) (api.AgentAnswer, error) {
	return api.AgentAnswer{}, nil
}

// LogFiles: a job has two attempts of two processes.
func (f *fake) LogFiles(sched.JobID) ([]api.LogFile, error) {
	return []api.LogFile{{Attempt: 1}, {Attempt: 1, Rank: 1}, {Attempt: 2}, {Attempt: 2, Rank: 1}}, nil
}

func (f *fake) CopyLog(_ context.Context, id sched.JobID, q api.LogQuery, w io.Writer) error {
	_, err := fmt.Fprintf(w, "log of %s rank %d tail %d follow %v\n", id, q.Rank, q.Tail, q.Follow)
	return err
}
