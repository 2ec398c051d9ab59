// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/kube/volumes"
)

// Most is the maximum number of different constraints in use.
const Most = 256

// patience bounds how long Await waits.
const patience = 5 * time.Second

// Registry holds the constraints of active jobs. The mirror adds them; the node watcher
// labels the nodes and confirms it with Told.
type Registry struct {
	Rules
	changed chan struct{} // capacity 1

	mu        sync.Mutex
	users     map[string]string // by user: the label it uses
	all       map[string]*entry // by label
	version   uint64            // grows with every change
	confirmed uint64            // the version whose labels the nodes have
	news      chan struct{}     // closed when told grows
	filled    chan struct{}     // closed when the constraints that existed at the start have been added
}

// entry is a constraint in use.
type entry struct {
	Constraint
	users int
	since uint64 // the version in which it was added
}

// NewRegistry returns an empty registry.
func NewRegistry(r Rules) *Registry {
	return &Registry{
		Rules: r, changed: make(chan struct{}, 1), users: map[string]string{}, all: map[string]*entry{},
		news: make(chan struct{}), filled: make(chan struct{}),
	}
}

// Use registers the constraint of a user in place of the user's earlier one, and
// returns its label.
func (r *Registry) Use(user string, c Constraint) (label string, err error) {
	label = c.Label()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] == label {
		return label, nil
	}
	if label != "" && r.all[label] == nil {
		if len(r.all) >= Most {
			return "", fmt.Errorf("the cluster already has %d different combinations of nodeSelector, node affinity, tolerations, devices and volume claims, which is the maximum", Most)
		}
		r.version++
		r.all[label] = &entry{Constraint: c, since: r.version}
		r.poke()
	}
	r.drop(user)
	if label != "" {
		r.users[user] = label
		r.all[label].users++
	}
	return label, nil
}

// Drop removes a user's constraint.
func (r *Registry) Drop(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(user)
}

func (r *Registry) drop(user string) {
	label := r.users[user]
	delete(r.users, user)
	e := r.all[label]
	if e == nil {
		return
	}
	if e.users--; e.users == 0 { // the nodes keep its label until their next update
		delete(r.all, label)
		r.version++
	}
}

func (r *Registry) poke() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Recheck has the nodes labelled again if the constraint of a job depends on volumes, which
// have changed.
func (r *Registry) Recheck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if len(e.Claims) > 0 {
			r.version++
			r.poke()
			return
		}
	}
}

// Changed yields a value when there is a new constraint.
func (r *Registry) Changed() <-chan struct{} { return r.changed }

// List returns the constraints in use, by label, and the version of the list.
func (r *Registry) List() (list []Labelled, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for label, e := range r.all {
		list = append(list, Labelled{label, e.Constraint})
	}
	slices.SortFunc(list, func(a, b Labelled) int { return cmp.Compare(a.Label, b.Label) })
	return list, r.version
}

// Labelled is a constraint with its label.
type Labelled struct {
	Label string
	Constraint
}

// Confirm confirms that the nodes have the labels of a version.
func (r *Registry) Confirm(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.confirmed {
		r.confirmed = version
		close(r.news)
		r.news = make(chan struct{})
	}
}

// Await waits until the nodes that satisfy a constraint have its label, so that no job
// is called impossible before the nodes were checked. It gives up soon; the job is then
// placed later.
func (r *Registry) Await(ctx context.Context, label string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r.mu.Lock()
		e, news := r.all[label], r.news
		done := e == nil || e.since <= r.confirmed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		}
	}
}

// Words describes the constraint of a label; empty: unknown.
func (r *Registry) Words(label string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.all[label]
	if e == nil {
		return ""
	}
	text := e.String()
	for _, claim := range e.Claims {
		if where := r.Volumes.Words(claim); where != "" {
			text += fmt.Sprintf(" (volume claim %s: %s)", volumes.Name(claim), where)
		}
	}
	return text
}

// Filled reports that the constraints that existed at the start have been added.
func (r *Registry) Filled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.filled:
	default:
		close(r.filled)
	}
}

// AwaitFilled waits, for a limited time, until Filled was called. Otherwise nodes would
// lose their labels for a moment after a restart.
func (r *Registry) AwaitFilled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-r.filled:
	}
}
