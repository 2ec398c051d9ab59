// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// sight is one call that a service saw.
type sight struct {
	method string
	who    api.Identity
	args   []any
}

// fake implements every service. A function that is set answers; otherwise the
// answer is a value with every field filled in.
type fake struct {
	mu    sync.Mutex
	seen  []sight
	err   error            // of every method
	panic bool             // in every method
	keys  map[string]error // secrets of tokens that are not good
	feed  *memoryFeed

	authentications int

	submit  func([]api.Submission) ([]api.Job, error)
	list    func(api.JobFilter) (api.JobPage, error)
	copyLog func(context.Context, api.LogQuery, io.Writer) error

	logFiles []api.LogFile
	job      func(api.Identity, sched.JobID) (api.Job, error)
}

func newFake() *fake { return &fake{feed: newMemoryFeed(), keys: map[string]error{}} }

func (f *fake) saw(method string, who api.Identity, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, sight{method, who, args})
	if f.panic {
		panic("a bug in " + method)
	}
	return f.err
}

// set changes the fake while a server uses it.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// last returns the last call, but for those that look for metrics.
func (f *fake) last() sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.seen) - 1; i >= 0; i-- {
		if f.seen[i].who.User != "metrics" {
			return f.seen[i]
		}
	}
	return sight{}
}

func (f *fake) Submit(_ context.Context, who api.Identity, s []api.Submission) ([]api.Job, error) {
	err := f.saw("Submit", who, s)
	if f.submit != nil {
		return f.submit(s)
	}
	jobs := make([]api.Job, len(s))
	for i := range jobs {
		jobs[i] = filled[api.Job]()
		jobs[i].Submitted = time.Now().Add(time.Hour)
	}
	return jobs, err
}

func (f *fake) Command(_ context.Context, who api.Identity, id sched.JobID, c api.Command) (api.Job, error) {
	return filled[api.Job](), f.saw("Command", who, id, c)
}

func (f *fake) CommandApp(_ context.Context, who api.Identity, id sched.AppID, c api.Command) ([]api.Job, error) {
	return []api.Job{filled[api.Job]()}, f.saw("CommandApp", who, id, c)
}

func (f *fake) Job(who api.Identity, id sched.JobID) (api.Job, error) {
	err := f.saw("Job", who, id)
	if f.job != nil {
		return f.job(who, id)
	}
	return single(), err
}

// single is a job with all fields that one that is no array can have.
func single() api.Job {
	j := filled[api.Job]()
	j.Members = nil
	return j
}

func (f *fake) List(who api.Identity, filter api.JobFilter) (api.JobPage, error) {
	err := f.saw("List", who, filter)
	if f.list != nil {
		return f.list(filter)
	}
	return api.JobPage{Jobs: []api.Job{filled[api.Job]()}, Total: 1}, err
}

func (f *fake) Preview(_ context.Context, who api.Identity, s api.Submission) (api.Preview, error) {
	return filled[api.Preview](), f.saw("Preview", who, s)
}

func (f *fake) Submission(_ context.Context, who api.Identity, id sched.JobID) (api.Submission, error) {
	return filled[api.Submission](), f.saw("Submission", who, id)
}

func (f *fake) HandOver(_ context.Context, who api.Identity, id sched.JobID, h api.Handover) (api.Job, error) {
	return filled[api.Job](), f.saw("HandOver", who, id, h)
}

func (f *fake) Explain(who api.Identity, id sched.JobID) (api.Explanation, error) {
	return filled[api.Explanation](), f.saw("Explain", who, id)
}

func (f *fake) Metrics(who api.Identity, id sched.JobID, names []string) (api.MetricList, error) {
	return filled[api.MetricList](), f.saw("Metrics", who, id, names)
}

func (f *fake) Usage(who api.Identity, q api.UsageQuery) (api.Usage, error) {
	return filled[api.Usage](), f.saw("Usage", who, q)
}

func (f *fake) Points(who api.Identity, id sched.JobID) ([]api.Point, error) {
	return []api.Point{filled[api.Point]()}, f.saw("Points", who, id)
}

func (f *fake) Apps(who api.Identity) ([]api.AppView, error) {
	return []api.AppView{filled[api.AppView]()}, f.saw("Apps", who)
}

func (f *fake) CreateSearch(_ context.Context, who api.Identity, s api.SearchSpec) (api.Search, error) {
	out := filled[api.Search]()
	out.Submitted = time.Now().Add(time.Hour)
	return out, f.saw("CreateSearch", who, s)
}

func (f *fake) Search(who api.Identity, id sched.AppID) (api.Search, error) {
	return filled[api.Search](), f.saw("Search", who, id)
}

func (f *fake) Searches(who api.Identity) ([]api.Search, error) {
	return []api.Search{filled[api.Search]()}, f.saw("Searches", who)
}

func (f *fake) Records(who api.Identity, filter api.RecordFilter) (api.RecordPage, error) {
	return api.RecordPage{Records: f.feed.after(filter.After), Next: 7, Oldest: 1}, f.saw("Records", who, filter)
}

func (f *fake) Watch(ctx context.Context, who api.Identity, filter api.RecordFilter, send func(api.Record) error) error {
	if who.User == "metrics" {
		return f.feed.watch(ctx, filter.After, send)
	}
	if err := f.saw("Watch", who, filter); err != nil {
		return err
	}
	return f.feed.watch(ctx, filter.After, send)
}

func (f *fake) History(who api.Identity) ([]api.Sample, error) {
	return []api.Sample{filled[api.Sample]()}, f.saw("History", who)
}

func (f *fake) Overview(who api.Identity) (api.Overview, error) {
	o := filled[api.Overview]()
	o.Seq = 0
	return o, f.saw("Overview", who)
}

func (f *fake) Nodes(who api.Identity) ([]api.Node, error) {
	return []api.Node{filled[api.Node]()}, f.saw("Nodes", who)
}

func (f *fake) SetNode(_ context.Context, who api.Identity, name string, state sched.NodeState) (api.Node, error) {
	return filled[api.Node](), f.saw("SetNode", who, name, state)
}

func (f *fake) Tenants(who api.Identity) ([]api.TenantView, error) {
	return []api.TenantView{filled[api.TenantView]()}, f.saw("Tenants", who)
}

func (f *fake) AcknowledgeDamage(_ context.Context, who api.Identity) ([]api.Damage, error) {
	return []api.Damage{filled[api.Damage]()}, f.saw("AcknowledgeDamage", who)
}

func (f *fake) SetTenant(_ context.Context, who api.Identity, t sched.Tenant) (api.TenantView, error) {
	return filled[api.TenantView](), f.saw("SetTenant", who, t)
}

func (f *fake) Policy(who api.Identity) (string, error) { return "las", f.saw("Policy", who) }

func (f *fake) SetPolicy(_ context.Context, who api.Identity, spec string, dry bool) (api.PolicyChange, error) {
	return filled[api.PolicyChange](), f.saw("SetPolicy", who, spec, dry)
}

func (f *fake) Tokens(who api.Identity) ([]api.Token, error) {
	return []api.Token{filled[api.Token]()}, f.saw("Tokens", who)
}

func (f *fake) CreateToken(_ context.Context, who api.Identity, t api.Token) (api.Token, string, error) {
	return filled[api.Token](), "fw_new", f.saw("CreateToken", who, t)
}

func (f *fake) RevokeToken(_ context.Context, who api.Identity, id string) error {
	return f.saw("RevokeToken", who, id)
}

// Authenticate knows fw_viewer, fw_user and fw_admin.
func (f *fake) Authenticate(secret string) (api.Identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.authentications++
	if err := f.keys[secret]; err != nil {
		return api.Identity{}, err
	}
	for _, role := range []api.Role{api.Viewer, api.User, api.Admin} {
		if secret == "fw_"+role.String() {
			return api.Identity{User: role.String() + "-1", Tenant: "vision", Role: role, Owner: api.Owner{UID: 1234}}, nil
		}
	}
	return api.Identity{}, api.Errorf(api.Denied, "the token is not known")
}

func (f *fake) Report(_ context.Context, secret string, r api.AgentReport) (api.AgentAnswer, error) {
	err := f.saw("Report", api.Identity{User: "agent"}, secret, r)
	if err == nil && secret != "attempt" {
		err = api.Errorf(api.Denied, "the attempt is not known")
	}
	return filled[api.AgentAnswer](), err
}

func (f *fake) LogFiles(id sched.JobID) ([]api.LogFile, error) {
	err := f.saw("LogFiles", api.Identity{}, id)
	if f.logFiles != nil {
		return f.logFiles, err
	}
	return []api.LogFile{filled[api.LogFile]()}, err
}

func (f *fake) CopyLog(ctx context.Context, id sched.JobID, q api.LogQuery, w io.Writer) error {
	err := f.saw("CopyLog", api.Identity{}, id, q)
	if f.copyLog != nil {
		return f.copyLog(ctx, q, w)
	}
	if err == nil {
		_, err = io.WriteString(w, "epoch 1\nepoch 2\n")
	}
	return err
}

// memoryFeed is a journal in memory.
type memoryFeed struct {
	mu      sync.Mutex
	records []api.Record
	more    chan struct{} // closed when a record is added
}

func newMemoryFeed() *memoryFeed { return &memoryFeed{more: make(chan struct{})} }

func (m *memoryFeed) add(records ...api.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		r.Seq = uint64(len(m.records) + 1)
		m.records = append(m.records, r)
	}
	close(m.more)
	m.more = make(chan struct{})
}

func (m *memoryFeed) after(seq uint64) []api.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[min(seq, uint64(len(m.records))):]
}

func (m *memoryFeed) watch(ctx context.Context, after uint64, send func(api.Record) error) error {
	for {
		m.mu.Lock()
		more := m.more
		m.mu.Unlock()
		for _, r := range m.after(after) {
			if err := send(r); err != nil {
				return err
			}
			after = r.Seq
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

// filled returns a value with no field left at zero.
func filled[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), 0)
	return v
}

func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		return
	case api.Role, sched.Phase, sched.Level, sched.EventKind, sched.NodeState:
		v.SetUint(1)
		return
	case sched.Duration:
		v.SetInt(int64(90 * time.Second))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(2)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem, depth+1)
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i), depth+1)
			}
		}
	default:
		panic(fmt.Sprintf("fill: %s", v.Type()))
	}
}
