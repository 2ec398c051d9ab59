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
)

// Most is how many different constraints there may be at a time.
const Most = 256

// patience bounds how long Await waits.
const patience = 5 * time.Second

// Registry knows the constraints of the jobs that are there. Who submits jobs adds
// to it; who follows the nodes gives them the labels, and says so.
type Registry struct {
	Rules
	changed chan struct{} // of one

	mu      sync.Mutex
	users   map[string]string // by user: the label it uses
	all     map[string]*entry // by label
	version uint64            // grows with every change
	told    uint64            // the version whose labels the nodes have
	news    chan struct{}     // closed when told grows
	filled  chan struct{}     // closed when all that was there at the start was added
}

// entry is a constraint in use.
type entry struct {
	Constraint
	users int
	since uint64 // the version that it came with
}

// NewRegistry returns an empty registry.
func NewRegistry(r Rules) *Registry {
	return &Registry{
		Rules: r, changed: make(chan struct{}, 1), users: map[string]string{}, all: map[string]*entry{},
		news: make(chan struct{}), filled: make(chan struct{}),
	}
}

// Use says that somebody has a constraint, instead of the one it had before, and
// returns the label of it.
func (r *Registry) Use(user string, c Constraint) (label string, err error) {
	label = c.Label()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] == label {
		return label, nil
	}
	if label != "" && r.all[label] == nil {
		if len(r.all) >= Most {
			return "", fmt.Errorf("there are %d different sets of nodeSelector, node affinity and tolerations already; want at most that many at a time", Most)
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

// Drop says that somebody is gone.
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
	if e.users--; e.users == 0 { // the nodes keep its label until they are told something else
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

// Changed returns a channel that has a value when there is a new constraint.
func (r *Registry) Changed() <-chan struct{} { return r.changed }

// List returns the constraints in use, by label, and which version that is.
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

// Told says that the nodes have the labels of a version.
func (r *Registry) Told(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.told {
		r.told = version
		close(r.news)
		r.news = make(chan struct{})
	}
}

// Await waits until the nodes have a label, if they satisfy the constraint, so that
// nobody is told that no node does before anybody has looked. It does not wait for
// long: the job is placed later then.
func (r *Registry) Await(ctx context.Context, label string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r.mu.Lock()
		e, news := r.all[label], r.news
		done := e == nil || e.since <= r.told
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

// Words says for people what a label stands for; empty: it is not known.
func (r *Registry) Words(label string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.all[label]; e != nil {
		return e.String()
	}
	return ""
}

// Filled says that all that was there at the start was added.
func (r *Registry) Filled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.filled:
	default:
		close(r.filled)
	}
}

// AwaitFilled waits until all that was there at the start was added, though not for
// long: without it, nodes would lose their labels for a moment after a restart.
func (r *Registry) AwaitFilled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-r.filled:
	}
}
