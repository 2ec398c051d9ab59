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
// to it; who follows the nodes gives them the marks, and says so.
type Registry struct {
	Rules
	changed chan struct{} // of one

	mu      sync.Mutex
	users   map[string]string // by user: the mark it uses
	all     map[string]*entry // by mark
	version uint64            // grows with every change
	told    uint64            // the version whose marks the nodes bear
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
// returns the mark of it.
func (r *Registry) Use(user string, c Constraint) (mark string, err error) {
	mark = c.Mark()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] == mark {
		return mark, nil
	}
	if mark != "" && r.all[mark] == nil {
		if len(r.all) >= Most {
			return "", fmt.Errorf("there are %d different sets of nodeSelector, node affinity and tolerations already; want at most that many at a time", Most)
		}
		r.version++
		r.all[mark] = &entry{Constraint: c, since: r.version}
		r.poke()
	}
	r.drop(user)
	if mark != "" {
		r.users[user] = mark
		r.all[mark].users++
	}
	return mark, nil
}

// Drop says that somebody is gone.
func (r *Registry) Drop(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(user)
}

func (r *Registry) drop(user string) {
	mark := r.users[user]
	delete(r.users, user)
	e := r.all[mark]
	if e == nil {
		return
	}
	if e.users--; e.users == 0 { // the nodes keep its mark until they are told something else
		delete(r.all, mark)
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

// List returns the constraints in use, by mark, and which version that is.
func (r *Registry) List() (list []Marked, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for mark, e := range r.all {
		list = append(list, Marked{mark, e.Constraint})
	}
	slices.SortFunc(list, func(a, b Marked) int { return cmp.Compare(a.Mark, b.Mark) })
	return list, r.version
}

// Marked is a constraint with its mark.
type Marked struct {
	Mark string
	Constraint
}

// Told says that the nodes bear the marks of a version.
func (r *Registry) Told(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.told {
		r.told = version
		close(r.news)
		r.news = make(chan struct{})
	}
}

// Await waits until the nodes bear a mark, if they satisfy the constraint, so that
// nobody is told that no node does before anybody has looked. It does not wait for
// long: the job is placed later then.
func (r *Registry) Await(ctx context.Context, mark string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r.mu.Lock()
		e, news := r.all[mark], r.news
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

// Words says for people what a mark stands for; empty: it is not known.
func (r *Registry) Words(mark string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.all[mark]; e != nil {
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
// long: without it, nodes would lose their marks for a moment after a restart.
func (r *Registry) AwaitFilled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-r.filled:
	}
}
