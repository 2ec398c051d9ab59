// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// fake is a daemon without a scheduler: the test says what it answers. Its
// answers are made of the types of the API, so that the page is checked against
// the contract and not against a copy of it.
type fake struct {
	mu       sync.Mutex
	overview api.Overview
	who      api.Identity
	jobs     []api.Job // newest first
	nodes    []api.Node
	tenants  []api.TenantView
	apps     []api.AppView
	searches []api.Search
	records  []api.Record
	samples  []api.Sample
	points   map[sched.JobID][]api.Point
	metrics  map[sched.JobID]api.MetricList
	explains map[sched.JobID]api.Explanation
	log      string
	secret   string   // the token that is asked for; empty: everybody may look
	broken   string   // part of a path that fails
	posts    []string // "METHOD path X-Fairway"
	taken    []api.Submission
	listed   int // lists of jobs that were asked for
	watchers map[chan api.Record]bool

	addr   string
	server *http.Server
	door   atomic.Pointer[door]
}

// door is the address of a fake as long as one server has it. The port itself is
// kept until the end of the test: or it could be another program's when the next
// server wants it.
type door struct {
	net.Listener
	guests chan net.Conn
	shut   chan struct{}
	once   sync.Once
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.guests:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}

// welcome leads who comes to the server there is, and sends them away if there is
// none.
func (f *fake) welcome(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		d := f.door.Load()
		select {
		case <-d.shut:
			c.Close()
		case d.guests <- c:
		}
	}
}

func newFake() *fake {
	f := &fake{
		points: map[sched.JobID][]api.Point{}, metrics: map[sched.JobID]api.MetricList{}, explains: map[sched.JobID]api.Explanation{}, watchers: map[chan api.Record]bool{},
		who: api.Identity{User: "ada", Tenant: "vision", Role: api.Admin},
	}
	f.overview = api.Overview{Started: time.Now().Add(-3 * time.Hour), Policy: "pollux", Decisions: 1204, LastMS: 12.4}
	return f
}

// open serves on the address it had before, or on a new one.
func (f *fake) open(t *testing.T) {
	t.Helper()
	d := &door{guests: make(chan net.Conn), shut: make(chan struct{})}
	if before := f.door.Load(); before != nil {
		d.Listener = before.Listener
		f.door.Store(d)
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f.addr, d.Listener = l.Addr().String(), l
		f.door.Store(d)
		go f.welcome(l)
		t.Cleanup(func() { _ = l.Close() })
	}
	f.server = &http.Server{Handler: f.handler()}
	go func(s *http.Server) { _ = s.Serve(d) }(f.server)
	t.Cleanup(func() { _ = f.server.Close() })
}

// change edits the fake and tells everybody who watches.
func (f *fake) change(text string, edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
	f.say(api.Record{Text: text, Actor: "scheduler", Policy: f.overview.Policy})
}

// say appends a record; the lock is held.
func (f *fake) say(r api.Record) {
	f.overview.Seq++
	r.Seq, r.At = f.overview.Seq, time.Now()
	f.records = append(f.records, r)
	for w := range f.watchers {
		select {
		case w <- r:
		default:
		}
	}
}

func (f *fake) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, make func(*http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if r.Method != http.MethodGet {
				f.posts = append(f.posts, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Fairway"))
			}
			value := make(r)
			w.Header().Set("Content-Type", "application/json")
			if e, ok := value.(*api.Error); ok {
				w.WriteHeader(map[api.Code]int{api.Unknown: 404, api.Denied: 401, api.Invalid: 400}[e.Code])
				value = api.ErrorBody{Error: e}
			}
			_ = json.NewEncoder(w).Encode(value)
		})
	}
	answer("GET /v1/overview", func(*http.Request) any { return f.now() })
	answer("GET /v1/whoami", func(*http.Request) any { return f.who })
	answer("GET /v1/jobs", func(r *http.Request) any { return f.page(r) })
	answer("POST /v1/jobs", func(r *http.Request) any { return f.submit(r, true) })
	answer("POST /v1/preview", func(r *http.Request) any { return f.submit(r, false) })
	answer("POST /v1/jobfile", func(r *http.Request) any {
		var file api.JobFile
		_ = json.NewDecoder(r.Body).Decode(&file)
		if strings.Contains(file.Text, "gpu:") {
			return api.Errorf(api.Invalid, "the job file:2: gpu: there is no such field; did you mean gpus?")
		}
		one, two := api.Submission{}, api.Submission{}
		one.Name, one.Command, one.GPUs = "from-file", []string{"true"}, 1
		two.Name, two.Command, two.GPUs = "second", []string{"true"}, 2
		return api.SubmissionList{Jobs: []api.Submission{one, two}}
	})
	answer("GET /v1/jobs/{id}", func(r *http.Request) any { return f.job(r) })
	answer("POST /v1/jobs/{id}/{verb}", func(r *http.Request) any { return f.command(r) })
	answer("GET /v1/jobs/{id}/explain", func(r *http.Request) any { return f.explain(r) })
	answer("GET /v1/jobs/{id}/points", func(r *http.Request) any {
		return api.PointList{Points: f.points[sched.JobID(r.PathValue("id"))]}
	})
	answer("GET /v1/jobs/{id}/metrics", func(r *http.Request) any { return f.metrics[sched.JobID(r.PathValue("id"))] })
	answer("GET /v1/apps", func(*http.Request) any { return api.AppList{Apps: f.apps} })
	answer("GET /v1/searches", func(*http.Request) any { return api.SearchList{Searches: f.searches} })
	answer("GET /v1/searches/{id}", func(r *http.Request) any {
		for _, s := range f.searches {
			if string(s.ID) == r.PathValue("id") {
				return s
			}
		}
		return api.Errorf(api.Unknown, "there is no search %s", r.PathValue("id"))
	})
	answer("GET /v1/nodes", func(*http.Request) any { return api.NodeList{Nodes: f.nodes} })
	answer("PUT /v1/nodes/{name}", func(r *http.Request) any { return f.cordon(r) })
	answer("GET /v1/tenants", func(*http.Request) any { return api.TenantList{Tenants: f.tenants} })
	answer("GET /v1/history", func(*http.Request) any { return api.SampleList{Samples: f.samples} })
	answer("GET /v1/policy", func(*http.Request) any { return api.PolicySpec{Policy: f.overview.Policy} })
	answer("PUT /v1/policy", func(r *http.Request) any { return f.setPolicy(r) })
	answer("GET /v1/policies", func(*http.Request) any { return policies() })
	answer("GET /v1/events", func(r *http.Request) any { return f.events(r) })
	mux.HandleFunc("GET /v1/events/stream", f.stream)
	mux.HandleFunc("GET /v1/jobs/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintf(w, "rank %s of attempt %q\n%s", r.FormValue("rank"), r.FormValue("attempt"), f.log)
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("token") != f.secret {
			http.Error(w, `{"error":{"code":"denied","message":"this token is not known"}}`, http.StatusUnauthorized)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "fairway_token", Value: f.secret, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "fairway_token", MaxAge: -1})
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("/", http.FileServerFS(FS()))
	return f.guard(mux)
}

// guard does what the real server does before it looks at a request.
func (f *fake) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		f.mu.Lock()
		secret, broken := f.secret, f.broken
		f.mu.Unlock()
		cookie, _ := r.Cookie("fairway_token")
		switch {
		case secret != "" && strings.HasPrefix(r.URL.Path, "/v1/") && (cookie == nil || cookie.Value != secret):
			http.Error(w, `{"error":{"code":"denied","message":"who are you?"}}`, http.StatusUnauthorized)
		case broken != "" && strings.Contains(r.URL.Path, broken):
			http.Error(w, `{"error":{"code":"unavailable","message":"the disk is full","remedy":"free some space"}}`, http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// now counts what the overview says from the jobs there are.
func (f *fake) now() api.Overview {
	o := f.overview
	o.Now = time.Now()
	for _, n := range f.nodes {
		o.GPUs += n.GPUs
		for _, s := range n.Slots {
			o.Held += min(1, len(s.Jobs))
		}
	}
	for _, j := range f.jobs {
		switch j.State {
		case api.Running, api.Starting, api.Stopping:
			o.Running++
		case api.Waiting:
			o.Waiting++
		case api.Paused:
			o.Paused++
		case api.Finished:
			o.Finished++
		case api.Failed:
			o.Failed++
			if time.Since(j.Ended) < 24*time.Hour {
				o.FailedDay++
			}
		case api.Cancelled:
			o.Cancelled++
		}
	}
	return o
}

func (f *fake) page(r *http.Request) any {
	f.listed++
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 {
		limit = api.DefaultPage
	}
	p := api.JobPage{Jobs: []api.Job{}}
	after := q.Get("after")
	jobs := f.jobs
	if q.Get("sort") == "-gpus" {
		jobs = slices.SortedStableFunc(slices.Values(jobs), func(a, b api.Job) int { return b.GPUs - a.GPUs })
	}
	for _, j := range jobs {
		if states := q["state"]; len(states) > 0 && !slices.Contains(states, j.State) {
			continue
		}
		if u := q.Get("user"); u != "" && u != j.User {
			continue
		}
		if a := q.Get("app"); a != "" && a != string(j.App) {
			continue
		}
		if s := q.Get("search"); s != "" && !strings.Contains(string(j.ID)+" "+j.Name, s) {
			continue
		}
		p.Total++
		switch {
		case after != "":
			if string(j.ID) == after {
				after = ""
			}
		case len(p.Jobs) < limit:
			p.Jobs = append(p.Jobs, j)
		case p.Next == "":
			p.Next = p.Jobs[limit-1].ID
		}
	}
	return p
}

// submit checks a job, and takes it if it is asked to.
func (f *fake) submit(r *http.Request, keep bool) any {
	var s api.Submission
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		return api.Errorf(api.Invalid, "%w", err).On("gpus")
	}
	if err := s.Complete(); err != nil {
		return err
	}
	if !keep {
		x := api.Preview{Now: time.Now(), Policy: f.overview.Policy, Size: api.SizePreview{GPUs: s.GPUs, Starts: s.GPUs < 8}}
		if s.GPUs >= 8 {
			x.Size.Reason = &api.Reason{Code: "full", Text: "needs 8 GPUs, and 1 is free", Until: time.Now().Add(20 * time.Minute)}
			x.Sooner = []api.SizePreview{{GPUs: 1, Starts: true}}
		}
		return x
	}
	f.taken = append(f.taken, s)
	j := waiting(fmt.Sprintf("j-9%03d", len(f.taken)), s.Name, s.GPUs)
	f.jobs = append([]api.Job{j}, f.jobs...)
	return j
}

func (f *fake) find(id string) *api.Job {
	for i := range f.jobs {
		if string(f.jobs[i].ID) == id {
			return &f.jobs[i]
		}
	}
	return nil
}

func (f *fake) job(r *http.Request) any {
	if j := f.find(r.PathValue("id")); j != nil {
		return j
	}
	return api.Errorf(api.Unknown, "there is no job %s", r.PathValue("id")).Try("see fairway ps")
}

func (f *fake) command(r *http.Request) any {
	j := f.find(r.PathValue("id"))
	if j == nil {
		return f.job(r)
	}
	switch api.Command(r.PathValue("verb")) {
	case api.Cancel:
		j.State, j.Ended, j.Status.Phase = api.Cancelled, time.Now(), sched.Cancelled
	case api.Pause:
		j.State, j.PausedBy = api.Paused, f.who.User
	case api.Resume:
		j.State, j.PausedBy = api.Waiting, ""
	}
	f.release(j)
	f.say(api.Record{Actor: f.who.User, Event: &sched.Event{Kind: sched.JobStopped, Job: j.ID, Text: r.PathValue("verb") + " by " + f.who.User}})
	return j
}

// release takes the GPUs of a job away; hold gives it some.
func (f *fake) release(j *api.Job) {
	j.Held = nil
	for n := range f.nodes {
		for s := range f.nodes[n].Slots {
			slot := &f.nodes[n].Slots[s]
			slot.Jobs = slices.DeleteFunc(slot.Jobs, func(id sched.JobID) bool { return id == j.ID })
		}
	}
}

func (f *fake) hold(j *api.Job, node, first, count int, milli int32) {
	h := api.Held{Node: f.nodes[node].Name, Milli: milli}
	for i := first; i < first+count; i++ {
		h.GPUs = append(h.GPUs, i)
		slot := &f.nodes[node].Slots[i]
		slot.Jobs = append(slot.Jobs, j.ID)
		slot.Since = j.Status.Since
	}
	j.Held = append(j.Held, h)
}

func (f *fake) explain(r *http.Request) any {
	j := f.find(r.PathValue("id"))
	if j == nil {
		return f.job(r)
	}
	x := f.explains[j.ID]
	x.Job, x.Now, x.Policy = *j, time.Now(), f.overview.Policy
	return x
}

func (f *fake) cordon(r *http.Request) any {
	var body api.NodeChange
	_ = json.NewDecoder(r.Body).Decode(&body)
	for i := range f.nodes {
		if f.nodes[i].Name == r.PathValue("name") {
			f.nodes[i].State = map[string]sched.NodeState{"cordoned": sched.Cordoned}[body.State]
			return f.nodes[i]
		}
	}
	return api.Errorf(api.Unknown, "there is no such node")
}

func (f *fake) setPolicy(r *http.Request) any {
	var body api.PolicySwitch
	_ = json.NewDecoder(r.Body).Decode(&body)
	change := api.PolicyChange{From: f.overview.Policy, To: body.Policy, DryRun: body.DryRun, Starts: 1, Stops: 1, Moves: 1,
		Actions: []string{"stop resnet-50 (4 GPUs)", "start gpt-nano on 4 GPUs", "move bert-finetune from 8 to 2 GPUs"}}
	if !body.DryRun {
		f.overview.Policy = body.Policy
	}
	return change
}

func policies() api.PolicyList {
	var list api.PolicyList
	table := policy.Builtin()
	for _, name := range table.Names() {
		e := api.PolicyEntry{Name: name, Summary: table[name].Summary, Paper: table[name].Paper}
		for _, v := range table[name].Variants {
			e.Variants = append(e.Variants, api.PolicyVariant{Name: v.Name, Summary: v.Summary})
		}
		for _, k := range table[name].Knobs {
			e.Knobs = append(e.Knobs, api.PolicyKnob{Name: k.Name, Default: k.Default, Help: k.Help})
		}
		list.Policies = append(list.Policies, e)
	}
	return list
}

func (f *fake) events(r *http.Request) any {
	after, _ := strconv.ParseUint(r.FormValue("after"), 10, 64)
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	p := api.RecordPage{Records: []api.Record{}, Oldest: 1}
	for _, rec := range f.records {
		if kind := r.FormValue("kind"); rec.Seq > after && len(p.Records) < limit && (kind == "" || kind == rec.Kind()) {
			p.Records = append(p.Records, rec)
			p.Next = rec.Seq
		}
	}
	return p
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	after, _ := strconv.ParseUint(r.FormValue("after"), 10, 64)
	news := make(chan api.Record, 64)
	f.mu.Lock()
	f.watchers[news] = true
	missed := slices.Clone(f.records)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); delete(f.watchers, news); f.mu.Unlock() }()
	send := func(rec api.Record) {
		data, _ := json.Marshal(rec)
		fmt.Fprintf(w, "id: %d\nevent: record\ndata: %s\n\n", rec.Seq, data)
	}
	for _, rec := range missed {
		if rec.Seq > after {
			send(rec)
		}
	}
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case rec := <-news:
			send(rec)
		case <-r.Context().Done():
			return
		}
	}
}
