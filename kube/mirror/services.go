// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"math"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// Searches is the search service of a cluster: creating a search creates an App.
type Searches struct {
	State api.Searches
	Jobs  Jobs
}

var _ api.Searches = Searches{}

// Search implements api.Searches.
func (s Searches) Search(who api.Identity, id sched.AppID) (api.Search, error) {
	return s.State.Search(who, id)
}

// Searches implements api.Searches.
func (s Searches) Searches(who api.Identity) ([]api.Search, error) { return s.State.Searches(who) }

// CreateSearch implements api.Searches.
func (s Searches) CreateSearch(ctx context.Context, who api.Identity, spec api.SearchSpec) (api.Search, error) {
	if err := who.Require(api.User); err != nil {
		return api.Search{}, err
	}
	if spec.Trial.Origin != "" {
		return api.Search{}, api.Errorf(api.Invalid, "%.40q was given", spec.Trial.Origin).On("trial.origin").Try("leave it out")
	}
	spec.Complete()
	if err := spec.Validate(); err != nil {
		return api.Search{}, err
	}
	trial, err := s.Jobs.object(ctx, who, &spec.Trial)
	if err != nil {
		return api.Search{}, err
	}
	app, err := appObject(&spec, trial)
	if err != nil {
		return api.Search{}, err
	}
	m := s.Jobs.Mirror
	err = m.Client.Create(ctx, app)
	switch {
	case apierrors.IsAlreadyExists(err):
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return api.Search{}, api.Errorf(api.Unavailable, "read app %s/%s: %w", app.Namespace, app.Name, err)
		}
		if spec.Key == "" || app.Annotations[v1alpha1.AnnotationKey] != spec.Key {
			return api.Search{}, api.Errorf(api.Conflict, "app %s/%s already exists", app.Namespace, app.Name).On("id").Try("choose another name")
		}
	case err != nil:
		return api.Search{}, refusedByCluster(err, app)
	}
	search, found, err := m.search(ctx, origin(kindApp, app.Namespace, app.Name), app)
	if err == nil && !found {
		err = api.Errorf(api.Conflict, "app %s/%s is suspended or has ended", app.Namespace, app.Name).On("id").Try("choose another name")
	}
	if err != nil {
		if spec.Key == "" { // with one, it may belong to an earlier request
			err = s.Jobs.undo(ctx, err, app)
		}
		return api.Search{}, asError(err)
	}
	return s.Search(who, search.ID)
}

// appObject returns the App for a search, with the spec of a training job for its
// trials.
func appObject(s *api.SearchSpec, trial *v1alpha1.TrainingJob) (*v1alpha1.App, error) {
	search := &v1alpha1.Search{
		Parameters: make(map[string]v1alpha1.Parameter, len(s.Parameters)), Method: s.Method, Metric: s.Metric.Name, Goal: s.Metric.Goal,
		Trials: clip(s.Trials), AtOnce: clip(s.AtOnce), Seed: int64(min(s.Seed, math.MaxInt64)), Trial: trial.Spec,
	}
	r := s.Stopping
	for _, f := range []struct {
		name string
		v    float64
	}{{"stopping.min", r.Min}, {"stopping.max", r.Max}, {"stopping.eta", r.Eta}} {
		if f.v != math.Trunc(f.v) || f.v > 1e15 {
			return nil, api.Errorf(api.Invalid, "is %g", f.v).On(f.name).Try("use a whole number")
		}
	}
	search.Stopping = &v1alpha1.StopRule{Rule: r.Rule, Min: int64(r.Min), Max: int64(r.Max), Eta: int32(r.Eta), Target: numberText(r.Target)}
	for name, p := range s.Parameters {
		search.Parameters[name] = v1alpha1.Parameter{Min: numberText(p.Min), Max: numberText(p.Max), Log: p.Log, Int: p.Int, Steps: clip(p.Steps), Values: p.Values}
	}
	app := &v1alpha1.App{Spec: v1alpha1.AppSpec{Search: search}}
	app.Namespace, app.Name = trial.Namespace, string(s.ID)
	app.Annotations = map[string]string{v1alpha1.AnnotationUser: trial.Annotations[v1alpha1.AnnotationUser]}
	if s.Key != "" {
		app.Annotations[v1alpha1.AnnotationKey] = s.Key
	}
	return app, nil
}

func numberText(v *float64) *string {
	if v == nil {
		return nil
	}
	text := strconv.FormatFloat(*v, 'g', 15, 64)
	return &text
}

// Cluster is the service for tenants and the policy. It changes the objects, which
// would otherwise undo a change of the state.
type Cluster struct {
	api.Cluster // the state
	Mirror      *Mirror
}

var _ api.Cluster = Cluster{}

// SetPolicy implements api.Cluster.
func (c Cluster) SetPolicy(ctx context.Context, who api.Identity, spec string, dryRun bool) (api.PolicyChange, error) {
	// A dry run keeps a policy that the state would refuse out of the object.
	change, err := c.Cluster.SetPolicy(ctx, who, spec, true)
	if err != nil || dryRun {
		return change, err
	}
	var object v1alpha1.SchedulingPolicy
	object.Name = policyName
	err = c.upsert(ctx, &object, func() { object.Spec.Policy = spec })
	if err != nil {
		return api.PolicyChange{}, err
	}
	return c.Cluster.SetPolicy(ctx, who, spec, false)
}

// SetTenant implements api.Cluster. A tenant without an object gets one, with the
// namespace of the same name.
func (c Cluster) SetTenant(ctx context.Context, who api.Identity, t sched.Tenant) (api.TenantView, error) {
	if err := who.Require(api.Admin); err != nil {
		return api.TenantView{}, err
	}
	if err := t.Validate(); err != nil {
		return api.TenantView{}, api.Errorf(api.Invalid, "%w", err)
	}
	var object v1alpha1.Tenant
	object.Name = string(t.ID)
	err := c.upsert(ctx, &object, func() {
		s := &object.Spec
		if len(s.Namespaces) == 0 && object.ResourceVersion == "" {
			s.Namespaces = []string{string(t.ID)}
		}
		s.Parent, s.Quota, s.Max, s.Borrow, s.Weight = string(t.Parent), nil, nil, t.Borrow, ""
		if t.Quota > 0 {
			s.Quota = some(t.Quota)
		}
		s.MaxByType = nil
		for gpu, n := range t.MaxByType {
			if s.MaxByType == nil {
				s.MaxByType = map[string]int32{}
			}
			s.MaxByType[string(gpu)] = int32(n)
		}
		s.MaxCPUs, s.MaxMemory = nil, nil
		if t.MaxCPUs > 0 {
			s.MaxCPUs = some(t.MaxCPUs)
		}
		if t.MaxMemory > 0 {
			s.MaxMemory = resource.NewQuantity(t.MaxMemory, resource.BinarySI)
		}
		if t.Max > 0 {
			s.Max = some(t.Max)
		}
		if t.Weight > 0 {
			s.Weight = strconv.FormatFloat(t.Weight, 'f', -1, 64)
		}
	})
	if err != nil {
		return api.TenantView{}, err
	}
	return c.Cluster.SetTenant(ctx, who, t)
}

// upsert updates an object, or creates it.
func (c Cluster) upsert(ctx context.Context, object client.Object, edit func()) error {
	const tries = 5
	for range tries {
		err := c.Mirror.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return api.Errorf(api.Unavailable, "read %s: %w", object.GetName(), err)
		}
		edit()
		if absent {
			err = c.Mirror.Client.Create(ctx, object)
		} else {
			err = c.Mirror.Client.Update(ctx, object)
		}
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return refusedByCluster(err, object)
		}
	}
	return api.Errorf(api.Conflict, "%s is being changed by others", object.GetName()).Try("try again")
}
