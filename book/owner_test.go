// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"errors"
	"testing"

	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

// TestOwners: whose processes a job becomes.
func TestOwners(t *testing.T) {
	lookup := func(name string) (live.Owner, error) {
		if name == "ada" {
			return live.Owner{Name: name, UID: 1000, GID: 1000}, nil
		}
		return live.Owner{}, errors.New("no such user")
	}
	for _, c := range []struct {
		name string
		only bool
		from live.Owner
		want live.Owner
		code live.Code
	}{
		{"socket", true, live.Owner{Name: "bob", UID: 7, GID: 8}, live.Owner{Name: "bob", UID: 7, GID: 8}, ""},
		{"token with user", true, live.Owner{Name: "ada", UID: -1}, live.Owner{Name: "ada", UID: 1000, GID: 1000}, ""},
		{"token with unknown user", false, live.Owner{Name: "eve", UID: -1}, live.Owner{}, live.Conflict},
		{"token without user, root", true, live.Owner{UID: -1}, live.Owner{}, live.Denied},
		{"token without user, not root", false, live.Owner{UID: -1}, live.Owner{UID: -1}, ""},
	} {
		b := &Book{Config: Config{OwnersOnly: c.only, Lookup: lookup}}
		got := c.from
		err := b.resolve(&got)
		switch {
		case c.code == "" && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		case c.code != "" && live.CodeOf(err) != c.code:
			t.Errorf("%s: error %v; want code %s", c.name, err, c.code)
		}
	}
}

// TestAppNamedLikeAJob: fairness is between apps, so nobody may slip into that of
// another tenant's job.
func TestAppNamedLikeAJob(t *testing.T) {
	d := open(t)
	theirs := d.submit(bob, submission("x", 1))
	s := submission("y", 1)
	s.App = sched.AppID(theirs)
	common := ann
	common.Tenant = DefaultTenant // whose apps have no prefix
	if _, err := d.Submit(t.Context(), common, []live.Submission{s}); live.CodeOf(err) != live.Conflict {
		t.Errorf("submit into the app of %s: %v; want a conflict", theirs, err)
	}
}
