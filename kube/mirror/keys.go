// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// A request with a key creates an object whose name follows from the key, so the API server
// itself lets only one of several such requests create it. A request that was refused has to
// leave nothing behind, for its sender goes on to another cluster. Between the object and the
// refusal lies a moment in which the mirror, or the same request sent again, might submit the
// object: claims keep them waiting.

// claims lets one at a time work on the objects with some names.
type claims struct {
	mu   sync.Mutex
	held map[client.ObjectKey]chan struct{} // closed when the name is free again
}

// take waits for names and takes them.
func (c *claims) take(ctx context.Context, names ...client.ObjectKey) (release func(), err error) {
	for {
		c.mu.Lock()
		i := slices.IndexFunc(names, func(n client.ObjectKey) bool { return c.held[n] != nil })
		if i < 0 {
			break
		}
		wait := c.held[names[i]]
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[client.ObjectKey]chan struct{}{}
	}
	free := make(chan struct{})
	for _, n := range names {
		c.held[n] = free
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, n := range names {
			delete(c.held, n)
		}
		close(free)
	}, nil
}

// keyed returns the names of the objects that have a key.
func keyed(objects []*v1alpha1.TrainingJob) (out []client.ObjectKey) {
	for _, o := range objects {
		if o.Annotations[v1alpha1.AnnotationKey] != "" {
			out = append(out, client.ObjectKeyFromObject(o))
		}
	}
	return out
}

// holder returns the job that was submitted with the key of an object, if there is one.
func (s Jobs) holder(ctx context.Context, o *v1alpha1.TrainingJob) (sched.JobID, error) {
	key := o.Annotations[v1alpha1.AnnotationKey]
	if key == "" {
		return "", nil
	}
	at := client.ObjectKeyFromObject(o)
	release, err := s.Mirror.claims.take(ctx, at)
	if err != nil {
		return "", api.Errorf(api.Unavailable, "find the key %.60q: %w", key, err)
	}
	defer release()
	var found v1alpha1.TrainingJob
	switch err := s.Mirror.Client.Get(ctx, at, &found); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", api.Errorf(api.Unavailable, "read training job %s: %w", at, err)
	case found.Annotations[v1alpha1.AnnotationKey] != key:
		return "", exists(&found)
	}
	if id, known := s.Mirror.index.job(string(found.UID)); known {
		return id, nil
	}
	if found.Status.ID == "" {
		return "", api.Errorf(api.Unavailable, "training job %s has the key %.60q and is not submitted yet", at, key).Try("try again")
	}
	return sched.JobID(found.Status.ID), nil
}

// exists refuses an object whose name is taken.
func exists(o client.Object) error {
	return api.Errorf(api.Conflict, "training job %s/%s already exists", o.GetNamespace(), o.GetName()).On("name").Try("choose another name")
}
