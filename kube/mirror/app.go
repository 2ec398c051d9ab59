// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// app updates the state from an app: its search, if it has one, and whether its jobs
// are suspended.
func (m *Mirror) app(ctx context.Context, k key) error {
	from := origin(k.kind, k.namespace, k.name)
	var app v1alpha1.App
	err := read(ctx, m, k.at(), &app, func(uid string) bool { return len(m.otherSearches(from, uid)) > 0 })
	switch {
	case apierrors.IsNotFound(err) || err == nil && app.DeletionTimestamp != nil:
		if err := m.cancelSearches(ctx, m.otherSearches(from, "")); err != nil {
			return err
		}
		m.enqueueJobs(ctx, k)
		return m.gone(ctx, k, from)
	case err != nil:
		return fmt.Errorf("read app: %w", err)
	}
	if err := m.cancelSearches(ctx, m.otherSearches(from, string(app.UID))); err != nil {
		return err
	}
	if app.Status.ObservedGeneration != app.Generation {
		m.enqueueJobs(ctx, k)
	}
	if app.Spec.Search == nil {
		return m.appWithoutSearch(ctx, k, &app)
	}
	search, found, err := m.search(ctx, from, &app)
	switch {
	case err != nil:
		why, final := refusalOf(err)
		if why == nil {
			return err
		}
		s := *app.Status.DeepCopy()
		s.ObservedGeneration = app.Generation
		accept(&s.Conditions, app.Generation, why, m.Now())
		if err := m.writeApp(ctx, k, &app, s); err != nil || final {
			return err
		}
		return errRequeue
	case !found: // it ended long ago, or has not begun
		return m.writeApp(ctx, k, &app, app.Status)
	}
	return m.writeApp(ctx, k, &app, m.searchStatus(&app, &search))
}

// otherSearches returns the open searches of an origin that do not belong to the object
// with this UID.
func (m *Mirror) otherSearches(from, uid string) []api.Search {
	return slices.DeleteFunc(m.State.WithOrigin(from), func(s api.Search) bool {
		return s.Over() || uid != "" && s.Spec.Key == uid
	})
}

func (m *Mirror) cancelSearches(ctx context.Context, list []api.Search) error {
	for _, s := range list {
		_, err := m.State.CommandApp(ctx, cluster, s.ID, api.Cancel)
		if code := api.CodeOf(err); err != nil && code != api.Unknown && code != api.Conflict {
			return fmt.Errorf("cancel search %s: %w", s.ID, err)
		}
	}
	return nil
}

// enqueueJobs enqueues the training jobs of an app, which are suspended with it.
func (m *Mirror) enqueueJobs(ctx context.Context, k key) {
	var jobs v1alpha1.TrainingJobList
	if err := m.Cache.List(ctx, &jobs, client.InNamespace(k.namespace), client.UnsafeDisableDeepCopy); err != nil {
		m.Log.Warn("list the jobs of an app", "namespace", k.namespace, "name", k.name, "err", err)
		return
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; j.Spec.App == k.name {
			m.queue.Add(key{kindTrainingJob, j.Namespace, j.Name})
		}
	}
}

// search returns the search of an app, and starts it if it is new.
func (m *Mirror) search(ctx context.Context, from string, app *v1alpha1.App) (api.Search, bool, error) {
	all := m.State.WithOrigin(from)
	i := slices.IndexFunc(all, func(s api.Search) bool { return s.Spec.Key == string(app.UID) })
	if i < 0 {
		if api.HasEnded(app.Status.State) || app.Spec.Suspend {
			return api.Search{}, false, nil
		}
		tenant, err := m.tenantFor(ctx, app.Namespace, app.Spec.Search.Trial.Tenant)
		if err != nil {
			return api.Search{}, false, err
		}
		if err := m.checkResource("spec.search.trial", &app.Spec.Search.Trial); err != nil {
			return api.Search{}, false, err
		}
		spec, err := searchOf(app)
		if err != nil {
			return api.Search{}, false, err
		}
		spec.Trial.Tenant = tenant
		pod, err := m.admitted(ctx, gangPod(&app.Spec.Search.Trial))
		if err != nil {
			return api.Search{}, false, err
		}
		spec.Trial.CPUs, spec.Trial.Memory = perGPU(pod, int64(perPod(&app.Spec.Search.Trial)))
		if spec.Trial.Selector, err = m.selectorFor(ctx, from, constraintPod(&app.Spec.Search.Trial), nil); err != nil {
			return api.Search{}, false, err
		}
		s, err := m.State.CreateSearch(ctx, identityOf(app, tenant), spec)
		return s, err == nil, err
	}
	s := all[i]
	who := cluster
	who.User = suspendActor
	var err error
	switch {
	case s.Over():
		m.dropConstraint(from)
	case app.Spec.Suspend && s.PausedBy == "":
		_, err = m.State.CommandApp(ctx, who, s.ID, api.Pause)
		s.State = api.SearchPaused
	case !app.Spec.Suspend && s.PausedBy == suspendActor:
		_, err = m.State.CommandApp(ctx, who, s.ID, api.Resume)
		s.State = api.SearchRunning
	}
	return s, true, err
}

// searchStatus returns the status of an app with a search.
func (m *Mirror) searchStatus(app *v1alpha1.App, search *api.Search) v1alpha1.AppStatus {
	s := v1alpha1.AppStatus{State: search.State, ID: string(search.ID), ObservedGeneration: app.Generation, Conditions: slices.Clone(app.Status.Conditions)}
	for i := range search.Trials {
		switch t := &search.Trials[i]; {
		case api.HasEnded(t.State):
			s.Ended++
		case t.State == api.Running || t.State == api.Starting:
			s.Running++
		default:
			s.Waiting++
		}
	}
	if search.Best != nil && *search.Best < len(search.Trials) {
		best := &search.Trials[*search.Best]
		s.Best = bestText(best)
		s.BestTrial = &v1alpha1.BestTrial{Number: clip(best.Number), Value: best.Value, Parameters: maps.Clone(best.Params)}
	}
	accept(&s.Conditions, app.Generation, nil, m.Now())
	return s
}

// bestText prints a trial with its parameters.
func bestText(t *api.Trial) string {
	text := fmt.Sprintf("trial %d", t.Number)
	if t.Value != nil {
		text += fmt.Sprintf(": %.6g", *t.Value)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		parts = append(parts, name+"="+t.Params[name])
	}
	if len(parts) > 0 {
		text += " with " + strings.Join(parts, ", ")
	}
	return cut(text)
}

// appWithoutSearch writes the status of an app that only groups jobs.
func (m *Mirror) appWithoutSearch(ctx context.Context, k key, app *v1alpha1.App) error {
	views, err := m.appViews()
	if err != nil {
		return err
	}
	s := v1alpha1.AppStatus{ObservedGeneration: app.Generation, Conditions: slices.Clone(app.Status.Conditions)}
	name := string(appOf(k.namespace, k.name))
	rho := 0.0
	for i := range views {
		v := &views[i]
		if string(v.ID) != name && !strings.HasSuffix(string(v.ID), "/"+name) {
			continue
		}
		s.ID, rho = string(v.ID), max(rho, v.Rho)
		s.Running += int32(v.Running)
		s.Waiting += int32(v.Waiting)
		s.Ended += int32(v.Finished + v.Failed + v.Killed)
	}
	s.Rho = digits(rho)
	s.Metrics.Rho = numberIn(s.Rho)
	switch {
	case app.Spec.Suspend:
		s.State = api.Paused
	case s.Running+s.Waiting > 0:
		s.State = api.Running
	}
	accept(&s.Conditions, app.Generation, nil, m.Now())
	return m.writeApp(ctx, k, app, s)
}

// appViews returns all apps of the state, from a short-lived cache because every app
// asks for them.
func (m *Mirror) appViews() ([]api.AppView, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.Now(); m.apps.at.IsZero() || now.Sub(m.apps.at) > m.TextGap/2 {
		list, err := m.State.Apps(cluster)
		if err != nil {
			return nil, fmt.Errorf("list apps: %w", err)
		}
		m.apps.at, m.apps.list = now, list
	}
	return m.apps.list, nil
}

func (m *Mirror) writeApp(ctx context.Context, k key, app *v1alpha1.App, s v1alpha1.AppStatus) error {
	s.Phase = phaseOf(s.State)
	if equality.Semantic.DeepEqual(&app.Status, &s) {
		return nil
	}
	next := app.DeepCopy()
	next.Status = s
	news := app.Status.State != s.State || app.Status.ObservedGeneration != s.ObservedGeneration || app.Status.Ended != s.Ended
	done, err := m.write(ctx, k, app, next, news)
	if done && err == nil {
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.Accepted); c != nil && c.Status == metav1.ConditionFalse {
			m.Event(app, "Warning", c.Reason, c.Message)
		}
	}
	return err
}
