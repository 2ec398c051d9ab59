// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// emptyCache is a cache that has not seen any object yet.
type emptyCache struct {
	cache.Cache
	client.Reader
}

func (c emptyCache) Get(_ context.Context, at client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, at.Name)
}

func (c emptyCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.Reader.List(ctx, list, opts...)
}

// behind returns the services of a mirror whose cache is behind, with a limit on jobs.
// The API server refuses jobs whose names begin with "bad".
func behind(t *testing.T, limit int) (Jobs, *state.Store) {
	t.Helper()
	created := 0
	k := fake.NewClientBuilder().WithScheme(newScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if strings.HasPrefix(o.GetName(), "bad") {
				return apierrors.NewBadRequest("it is bad")
			}
			created++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", created)))
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	s, err := state.Open(t.Context(), state.Config{
		Journal: &tape{}, Node: sched.Node{Name: "node-0", GPUs: 8, Type: "h200", CPUs: 128, Memory: 1 << 40}, Policies: policy.Builtin(), Standard: "fifo",
		Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, Log: slog.New(slog.DiscardHandler), CompactEvery: 1 << 30, MaxQueue: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m := New(Config{Client: k, Cache: emptyCache{Reader: k}, State: s, Standard: "fifo", Log: slog.New(slog.DiscardHandler)})
	return Jobs{Jobs: s, Mirror: m, Image: "trainer:1"}, s
}

func file(name, key string) api.Submission {
	return api.Submission{Spec: sched.Spec{GPUs: 1}, Task: api.Task{Name: name, Command: []string{"train"}}, Key: key}
}

var ann = api.Identity{User: "ann", Tenant: "red", Role: api.User}

// TestSubmitDirectly: a request is answered before any cache has seen its objects, and
// the mirror that sees them later neither submits them again nor cancels them.
func TestSubmitDirectly(t *testing.T) {
	s, store := behind(t, 100)
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{file("a", ""), file("b", "k-1")})
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%d jobs, %v; want 2", len(jobs), err)
	}
	for _, j := range jobs {
		if j.User != "ann" || j.Tenant != "red" || !strings.HasPrefix(j.Origin, "TrainingJob/red/") {
			t.Errorf("job %+v; want one of ann and red", j)
		}
		if err := s.Mirror.reconcile(t.Context(), key{kindTrainingJob, "red", strings.TrimPrefix(j.Origin, "TrainingJob/red/")}); err != nil {
			t.Fatal(err)
		}
		if now, err := store.Job(cluster, j.ID); err != nil || api.HasEnded(now.State) {
			t.Errorf("after the mirror has looked at it: %s, %v; want it alive", now.State, err)
		}
		template, err := s.Mirror.Template(t.Context(), api.Attempt{AttemptID: api.AttemptID{Job: j.ID, Number: 1}, Task: j.Task})
		if err != nil || template.Name != strings.TrimPrefix(j.Origin, "TrainingJob/red/") {
			t.Errorf("template %+v, %v; want that of the job", template, err)
		}
	}
	again, err := s.Submit(t.Context(), ann, []api.Submission{file("b", "k-1")})
	if err != nil || again[0].ID != jobs[1].ID {
		t.Errorf("sent again: %+v, %v; want job %s", again, err, jobs[1].ID)
	}
	page, err := store.List(cluster, api.JobFilter{})
	if err != nil || page.Total != 2 {
		t.Errorf("%d jobs, %v; want 2", page.Total, err)
	}
}

// TestSubmitAllOrNone: if the API server or the state refuses one job of a request, no
// object and no job of the request is left.
func TestSubmitAllOrNone(t *testing.T) {
	s, store := behind(t, 8) // a quarter of which one user may have
	for name, c := range map[string]struct {
		list []api.Submission
		want string
	}{
		"refused by the cluster": {[]api.Submission{file("a", ""), file("bad", "")}, "jobs[1]"},
		"refused by the state":   {[]api.Submission{file("a", ""), file("b", ""), file("c", "")}, "for user ann; the limit is 2"},
		"too high a priority":    {[]api.Submission{asks(func(s *api.Submission) { s.Priority = 1 })}, "jobs of tenant red may have at most 0"},
		"never preempted":        {[]api.Submission{asks(func(s *api.Submission) { s.NonPreemptible = true })}, "jobs of tenant red have to make room"},
	} {
		if _, err := s.Submit(t.Context(), ann, c.list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		var left v1alpha1.TrainingJobList
		if err := s.Mirror.Client.List(t.Context(), &left); err != nil || len(left.Items) != 0 {
			t.Errorf("%s: %d objects, %v; want none", name, len(left.Items), err)
		}
		if page, err := store.List(cluster, api.JobFilter{}); err != nil || page.Total != 0 {
			t.Errorf("%s: %d jobs, %v; want none", name, page.Total, err)
		}
	}
	admin := api.Identity{User: "root", Role: api.Admin}
	if _, err := s.Submit(t.Context(), admin, []api.Submission{asks(func(s *api.Submission) { s.Priority, s.Tenant = 1, "red" })}); err != nil {
		t.Errorf("an admin's priority: %v; want it taken", err)
	}
}

func asks(edit func(*api.Submission)) api.Submission {
	s := file("a", "")
	edit(&s)
	return s
}

// TestSubmitAfterCrash: an operator dies between creating an object and submitting it.
// The mirror submits the object, and the repeated request returns that job.
func TestSubmitAfterCrash(t *testing.T) {
	s, _ := behind(t, 100)
	sub := file("a", "k-1")
	o, err := s.object(t.Context(), ann, &sub)
	if err == nil {
		_, err = s.create(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen, err := s.Mirror.submission(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Mirror.submitOne(t.Context(), o, seen)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{sub})
	if err != nil || len(jobs) != 1 || jobs[0].ID != id || jobs[0].User != "ann" {
		t.Errorf("jobs %+v, %v; want %s", jobs, err, id)
	}
}

// TestDeletedIsCancelled: a job whose object is gone is cancelled.
func TestDeletedIsCancelled(t *testing.T) {
	s, store := behind(t, 100)
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{file("a", "")})
	if err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.TrainingJob{}
	o.Namespace, o.Name = "red", strings.TrimPrefix(jobs[0].Origin, "TrainingJob/red/")
	if err := s.Mirror.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := s.Mirror.reconcile(t.Context(), key{kindTrainingJob, o.Namespace, o.Name}); err != nil {
		t.Fatal(err)
	}
	if now, err := store.Job(cluster, jobs[0].ID); err != nil || now.State != api.Cancelled {
		t.Errorf("its job is %s, %v; want it cancelled", now.State, err)
	}
}

// TestTenantsKeepUp: a change that is collected just before its tenant's turn is in the
// view that the tenant then gets, although another tenant has just asked for all.
func TestTenantsKeepUp(t *testing.T) {
	s, store := behind(t, 100)
	m, now := s.Mirror, time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	m.Now = func() time.Time { return now }
	waiting := func(id sched.TenantID) int {
		t.Helper()
		view, _, err := m.tenantView(id)
		if err != nil {
			t.Fatal(err)
		}
		return view.Waiting
	}
	m.enqueueTenant("red")
	now = now.Add(tenantAfter - 2*time.Millisecond)
	waiting("blue")
	if _, err := store.Submit(t.Context(), ann, []api.Submission{file("a", "")}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Millisecond)
	m.enqueueTenant("red")
	now = now.Add(time.Millisecond)
	if n := waiting("red"); n != 1 {
		t.Errorf("%d jobs wait; want 1", n)
	}
}
