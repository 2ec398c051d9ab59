// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
)

func at(d time.Duration, e sched.Event) sched.Event {
	e.At = start.Add(d)
	return e
}

func TestApplyErrors(t *testing.T) {
	run := sched.Event{Kind: sched.JobStarted, Job: "runs", Placement: placement{on(0, 0b11)}, At: start.Add(time.Hour)}
	for _, c := range []struct {
		name  string
		event sched.Event
		want  string
	}{
		{"no node", sched.Event{Kind: sched.NodeJoined}, "apply node-joined: node is missing"},
		{"node without a name", sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{}}, "apply node-joined: node 5: name is empty; every node needs one"},
		{"node too large", sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "x", GPUs: 65}}, "apply node-joined: node 5: gpus = 65; want 0 to 64"},
		{"node shrinks under a job", sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "a", GPUs: 1}}, "apply node-joined: node a: gpus = 1, but job runs holds GPUs 0-1 of it"},
		{"islands overlap", sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "x", GPUs: 4, Islands: []sched.GPUSet{3, 6}}}, "apply node-joined: node 5: islands = [0-1 1-2]; want disjoint sets of GPUs 0 to 3"},
		{"no tenant", sched.Event{Kind: sched.TenantSet}, "apply tenant-set: tenant is missing"},
		{"bad tenant", sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "t", Quota: -1}}, "apply tenant-set: tenant t: quota = -1; want 0 or more GPUs"},
		{"no spec", sched.Event{Kind: sched.JobSubmitted}, "apply job-submitted: spec is missing"},
		{"bad spec", submit(sched.Spec{ID: "x"}), "apply job-submitted: job x: gpus = 0; want 1 to 1048576"},
		{"same id", submit(sched.Spec{ID: "runs", GPUs: 1}), "apply job-submitted: job runs: a job of that id is pending or running; ids must differ"},
		{"unknown job", sched.Event{Kind: sched.JobStarted, Job: "x"}, `apply job-started: job "x": no pending or running job has that id`},
		{"starts twice", run, "apply job-started: job runs: it is running; only a pending job can start"},
		{"starts nowhere", sched.Event{Kind: sched.JobStarted, Job: "waits"}, "apply job-started: job waits: the placement is empty"},
		{"stops while it waits", sched.Event{Kind: sched.JobStopped, Job: "waits"}, "apply job-stopped: job waits: it is pending; only a running job can be stopped"},
		{"fails while it waits", sched.Event{Kind: sched.JobFailed, Job: "waits"}, "apply job-failed: job waits: it is pending; only a running job can fail"},
		{"ends without an end", sched.Event{Kind: sched.JobEnded, Job: "runs", Phase: sched.Running}, "apply job-ended: job runs: phase = running; want finished, killed or failed"},
		{"negative report", sched.Event{Kind: sched.JobReported, Job: "runs", Done: -1}, "apply job-reported: job runs: done = -1, rate = 0, slowdown = 0; want numbers that are not negative"},
		{"stages of no app", sched.Event{Kind: sched.AppStaged, App: "x"}, `apply app-staged: app "x": no job of it is pending or running`},
		{"a stage of nothing", sched.Event{Kind: sched.AppStaged, App: "runs", Stages: []sched.Stage{{Jobs: 1}}}, `apply app-staged: app "runs": stage = {Jobs:1 Part:0}; want 1 job or more and a part above 0`},
		{"unknown kind", sched.Event{Kind: 99, Job: "runs"}, "apply event(99): unknown kind 99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := world(t, func(apply func(sched.Event)) {
				apply(submit(sched.Spec{ID: "runs", GPUs: 2}))
				apply(submit(sched.Spec{ID: "waits", GPUs: 2}))
				apply(sched.Event{Kind: sched.JobStarted, Job: "runs", Placement: placement{on(0, 0b11)}})
			})
			before := describe(st)
			if c.event.At.IsZero() {
				c.event.At = start.Add(time.Minute)
			}
			if err := st.Apply(c.event); err == nil || err.Error() != c.want {
				t.Errorf("Apply: %v; want %s", err, c.want)
			}
			if after := describe(st); !reflect.DeepEqual(before, after) {
				t.Errorf("an event that was refused changed the state from\n%+v\nto\n%+v", before, after)
			}
		})
	}
}

// describe copies what a state holds.
func describe(st *sched.State) any {
	s := st.Snapshot(start)
	var jobs []sched.Job
	for _, j := range s.Jobs {
		jobs = append(jobs, *j)
	}
	return []any{jobs, s.Tenants, s.Cluster.Nodes}
}

func TestApplyInThePast(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "j", GPUs: 1}))
		apply(at(time.Hour, sched.Event{Kind: sched.JobStarted, Job: "j", Placement: placement{on(0, 1)}}))
	})
	err := st.Apply(at(time.Minute, sched.Event{Kind: sched.JobStopped, Job: "j"}))
	if err == nil || !strings.Contains(err.Error(), "lies before the job's last change") {
		t.Errorf("an event in the past: %v", err)
	}
}

func TestErrUnknownJob(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "j", GPUs: 1}))
		apply(sched.Event{Kind: sched.JobEnded, Job: "j", Phase: sched.Cancelled})
	})
	if err := st.Apply(sched.Event{Kind: sched.JobStopped, Job: "j", At: start}); !errors.Is(err, sched.ErrUnknownJob) {
		t.Errorf("an event about a job that has ended: %v; want ErrUnknownJob", err)
	}
}

// TestLife follows one job through all that can happen to it.
func TestLife(t *testing.T) {
	var job *sched.Job
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "j", GPUs: 4, Work: 100, Estimate: sched.Duration(100 * time.Second)}))
	})
	job, _ = st.Job("j")
	apply := func(after time.Duration, e sched.Event) {
		t.Helper()
		e.Job = "j"
		if err := st.Apply(at(after, e)); err != nil {
			t.Fatal(err)
		}
	}
	sec := time.Second
	apply(10*sec, sched.Event{Kind: sched.JobStarted, Placement: placement{on(0, 0b1111)}})
	apply(20*sec, sched.Event{Kind: sched.JobReported, Done: 5, Rate: 1})
	now := start.Add(30 * sec)
	if got, want := job.AttainedBy(now), 80.0; got != want {
		t.Errorf("attained = %g; want %g", got, want)
	}
	if got, want := job.DoneBy(now), 15.0; got != want {
		t.Errorf("done = %g; want %g", got, want)
	}
	if got, want := job.DoneBy(start.Add(time.Hour)), 100.0; got != want {
		t.Errorf("done after an hour without a report = %g; want %g, all that was announced", got, want)
	}
	if left, ok := job.Remaining(now); !ok || left != 85*sec {
		t.Errorf("remaining = %s, %t; want 85s", left, ok)
	}
	apply(40*sec, sched.Event{Kind: sched.JobCheckpoint, Done: 20})
	apply(50*sec, sched.Event{Kind: sched.JobStopped, Suspend: true})
	if job.Suspended == nil || job.Preemptions != 1 || job.Done != 35 || job.Placement != nil {
		t.Errorf("after the stop: suspended on %v, %d preemptions, done %g, on %v; want a[0-3], 1, 35, nothing", job.Suspended, job.Preemptions, job.Done, job.Placement)
	}
	apply(60*sec, sched.Event{Kind: sched.JobStarted, Placement: placement{on(1, 0b1111)}})
	apply(65*sec, sched.Event{Kind: sched.JobStopped, Moving: true})
	apply(65*sec, sched.Event{Kind: sched.JobStarted, Placement: placement{on(0, 0b11), on(1, 0b11)}})
	apply(70*sec, sched.Event{Kind: sched.JobFailed, Until: start.Add(100 * sec)})
	apply(70*sec, sched.Event{Kind: sched.JobNoted, Note: sched.Note{Level: 2, Count: 7}})
	want := sched.Status{
		Phase: sched.Pending, Since: start.Add(70 * sec), FirstStart: start.Add(10 * sec), GPUSeconds: 4 * (40 + 5 + 5),
		Ran: sched.Duration(50 * sec), Waited: sched.Duration(20 * sec), Starts: 3, Preemptions: 1, Moves: 1, Failures: 1, MostGPUs: 4,
		NotBefore: start.Add(100 * sec), Done: 20, ReportedAt: start.Add(70 * sec), Checkpoint: start.Add(40 * sec), CheckpointedWork: 20,
		Note: sched.Note{Level: 2, Count: 7},
	}
	if diff := cmp.Diff(want, job.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if job.Ready(start.Add(99*sec)) || !job.Ready(start.Add(100*sec)) || job.Restarts() != 2 {
		t.Errorf("ready at 99s: %t, at 100s: %t, restarts %d; want false, true, 2", job.Ready(start.Add(99*sec)), job.Ready(start.Add(100*sec)), job.Restarts())
	}
	if got := job.WaitedBy(start.Add(80 * sec)); got != 30*sec {
		t.Errorf("waited = %s; want 30s", got)
	}
	apply(120*sec, sched.Event{Kind: sched.JobEnded, Phase: sched.Cancelled})
	if _, ok := st.Job("j"); ok || st.Jobs() != 0 || job.Phase != sched.Cancelled {
		t.Errorf("after its end the job is still there")
	}
}

func TestRemaining(t *testing.T) {
	hour := sched.Duration(time.Hour)
	for _, c := range []struct {
		name string
		job  sched.Job
		want time.Duration
		ok   bool
	}{
		{"no estimate", sched.Job{}, 0, false},
		{"by time", sched.Job{Spec: sched.Spec{Estimate: hour}, Status: sched.Status{Ran: hour / 4}}, 45 * time.Minute, true},
		{"overdue", sched.Job{Spec: sched.Spec{Estimate: hour}, Status: sched.Status{Ran: 2 * hour}}, 0, true},
		{"by work", sched.Job{Spec: sched.Spec{Estimate: hour, Work: 10}, Status: sched.Status{Ran: 2 * hour, Done: 5}}, 30 * time.Minute, true},
		{"all done", sched.Job{Spec: sched.Spec{Estimate: hour, Work: 10}, Status: sched.Status{Done: 11}}, 0, true},
	} {
		if got, ok := c.job.Remaining(start); got != c.want || ok != c.ok {
			t.Errorf("%s: %s, %t; want %s, %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestApps(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "a1", App: "a", GPUs: 1}))
		apply(at(10*time.Second, submit(sched.Spec{ID: "a2", App: "a", GPUs: 1})))
		apply(at(20*time.Second, submit(sched.Spec{ID: "b", GPUs: 1})))
	})
	s := st.Snapshot(start.Add(40 * time.Second))
	a, okA := s.App("a")
	b, okB := s.App("b")
	if !okA || !okB || s.Apps() != 2 || a.Active != 2 || b.Active != 1 {
		t.Fatalf("apps: %+v %+v, %d in all; want a with 2 jobs and b with 1", a, b, s.Apps())
	}
	// One app for 20 seconds, two for 20.
	if got := s.Contention(a); got != 1.5 {
		t.Errorf("contention of a = %g; want 1.5", got)
	}
	if got := s.Contention(b); got != 2 {
		t.Errorf("contention of b = %g; want 2", got)
	}
	for _, id := range []sched.JobID{"a1", "a2"} {
		if err := st.Apply(at(40*time.Second, sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Finished})); err != nil {
			t.Fatal(err)
		}
	}
	if got := st.ActiveApps(start.Add(50 * time.Second)); got != 20+40+10 {
		t.Errorf("app-seconds = %g; want 70", got)
	}
	s = st.Snapshot(start.Add(50 * time.Second))
	if _, ok := s.App("a"); ok || s.Apps() != 1 {
		t.Errorf("an app without jobs is still there")
	}
}

func TestTenants(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "early", Tenant: "z", GPUs: 1}))
		apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "z", Quota: 1}})
		apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "a"}})
		apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "z", Quota: 2, Weight: 3}})
		apply(submit(sched.Spec{ID: "late", Tenant: "z", GPUs: 1}))
		apply(submit(sched.Spec{ID: "free", GPUs: 1}))
		apply(submit(sched.Spec{ID: "stranger", Tenant: "x", GPUs: 1}))
	})
	s := st.Snapshot(start)
	want := []sched.Tenant{{ID: "a"}, {ID: "z", Quota: 2, Weight: 3}}
	if diff := cmp.Diff(want, s.Tenants); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		job    sched.JobID
		index  int
		tenant bool
	}{{"early", 1, true}, {"late", 1, true}, {"free", -1, false}, {"stranger", -1, false}} {
		j, _ := st.Job(c.job)
		if i, ok := s.Tenant(j); i != c.index || ok != c.tenant {
			t.Errorf("the tenant of job %s has the index %d, %t; want %d, %t", c.job, i, ok, c.index, c.tenant)
		}
	}
	for _, c := range []struct {
		tenant sched.Tenant
		want   int
	}{
		{sched.Tenant{}, sched.NoLimit},
		{sched.Tenant{Quota: 10}, 10},
		{sched.Tenant{Quota: 10, Borrow: true}, sched.NoLimit},
		{sched.Tenant{Quota: 10, Borrow: true, Max: 20}, 20},
		{sched.Tenant{Max: 5}, 5},
	} {
		if got := c.tenant.Limit(); got != c.want {
			t.Errorf("%+v: limit = %d; want %d", c.tenant, got, c.want)
		}
	}
}

func TestNodeComesAndGoes(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		setState(0, sched.Down)(apply)
		apply(sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "e", GPUs: 2, Type: "new", Rack: "r9"}})
	})
	c := st.Cluster()
	if i, ok := c.Node("e"); !ok || i != 4 {
		t.Errorf("the new node has number %d, %t; want 4", i, ok)
	}
	if i, ok := c.Node("a"); !ok || i != 0 || c.GPUs() != 4+8+4+2 {
		t.Errorf("the node that is down has number %d, %t, and there are %d GPUs; want 0 and 18", i, ok, c.GPUs())
	}
	if len(c.Types) != 3 || c.GPUsOf(c.TypeOf(4)) != 2 || c.Racks[c.RackOf(4)].Name != "r9" {
		t.Errorf("types %v, racks %v; want the new ones at the end", c.Types, c.Racks)
	}
}

func TestValidateSpec(t *testing.T) {
	good := sched.Spec{ID: "j", GPUs: 4}
	for _, c := range []struct {
		want   string // part of the error; empty: none
		change func(*sched.Spec)
	}{
		{"", func(*sched.Spec) {}},
		{"id is empty", func(s *sched.Spec) { s.ID = "" }},
		{"gpus = 0", func(s *sched.Spec) { s.GPUs = 0 }},
		{"gpus = 2000000", func(s *sched.Spec) { s.GPUs = 2_000_000 }},
		{"min_gpus, max_gpus = [4 2]", func(s *sched.Spec) { s.MinGPUs, s.MaxGPUs = 4, 2 }},
		{"min_gpus = 0", func(s *sched.Spec) { s.MaxGPUs = 2 }},
		{"sizes = [2 1]", func(s *sched.Spec) { s.Sizes = []int{2, 1} }},
		{"task_gpus = 3", func(s *sched.Spec) { s.TaskGPUs = 3 }},
		{"", func(s *sched.Spec) { s.TaskGPUs = 2 }},
		{"milli_gpu = 1001", func(s *sched.Spec) { s.MilliGPU = 1001 }},
		{"cpus, memory, gpu_memory", func(s *sched.Spec) { s.Memory = -1 }},
		{"widest = level(9)", func(s *sched.Spec) { s.MaxSpread = 9 }},
		{"topology[0].required, preferred = [a b]", func(s *sched.Spec) { s.Topology = []sched.Rule{{Required: "a", Preferred: "b"}} }},
		{"topology[0].required, preferred = [ ]", func(s *sched.Spec) { s.Topology = []sched.Rule{{}} }},
		{"topology[0].required, preferred = slot", func(s *sched.Spec) { s.Topology = []sched.Rule{{Preferred: "slot"}} }},
		{"topology[0].segment = -1", func(s *sched.Spec) { s.Topology = []sched.Rule{{Segment: -1, Required: "a"}} }},
		{"topology[1].segment = 6", func(s *sched.Spec) {
			s.Topology = []sched.Rule{{Segment: 4, Required: "a"}, {Segment: 6, Required: "b"}}
		}},
		{"topology = 5", func(s *sched.Spec) { s.Topology = make([]sched.Rule, 5) }},
		{"estimate = -1s", func(s *sched.Spec) { s.Estimate = -sched.Duration(time.Second) }},
		{"work = NaN", func(s *sched.Spec) { s.Work = nan() }},
		{"gpu_util = 1.5", func(s *sched.Spec) { s.GPUUtil = 1.5 }},
	} {
		spec := good
		c.change(&spec)
		switch err := spec.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("Validate: %v; want none", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("Validate: %v; want %q", err, c.want)
		}
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

// TestOthers: what others hold is no part of the cluster, and they cannot be
// said to hold what a job holds.
func TestOthers(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "j", GPUs: 1}))
		apply(sched.Event{Kind: sched.JobStarted, Job: "j", Placement: placement{on(1, 0b100)}})
	})
	c := st.Cluster()
	e, _ := c.Node("e")
	if got := c.Nodes[e].Usable(); got != 0b1100 {
		t.Errorf("usable GPUs %s; want 2-3", got)
	}
	if c.GPUs() != 22 || c.Racks[1].GPUs != 14 || c.GPUsOf(c.TypeOf(e)) != 14 {
		t.Errorf("%d GPUs, %d in the rack, %d of the type; want 22, 14 and 14", c.GPUs(), c.Racks[1].GPUs, c.GPUsOf(c.TypeOf(e)))
	}
	set := func(others sched.GPUSet) error {
		n := st.Cluster().Nodes[1]
		n.Others = others
		return st.Apply(sched.Event{Kind: sched.NodeJoined, At: start, Node: &n})
	}
	for others, ok := range map[sched.GPUSet]bool{0b0011: true, 0b0111: false, 0b1011: true, 0b10000: false, 0: true} {
		if err := set(others); (err == nil) != ok {
			t.Errorf("others %s: %v; want it accepted: %t", others, err, ok)
		}
	}
}

// TestDoneBeyondWork: a job that has done more than it announced goes on to do more.
func TestDoneBeyondWork(t *testing.T) {
	j := sched.Job{Spec: sched.Spec{Work: 100}, Status: sched.Status{Phase: sched.Running, Done: 150, Rate: 1, ReportedAt: start}}
	if got, want := j.DoneBy(start.Add(10*time.Second)), 160.0; got != want {
		t.Errorf("done = %g; want %g", got, want)
	}
}
