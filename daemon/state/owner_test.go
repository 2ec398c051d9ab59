// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestOwners: whose processes a job becomes.
func TestOwners(t *testing.T) {
	lookup := func(name string) (api.Owner, error) {
		if name == "ada" {
			return api.Owner{Name: name, UID: 1000, GID: 1000}, nil
		}
		return api.Owner{}, errors.New("no such user")
	}
	for _, c := range []struct {
		name string
		only bool
		from api.Owner
		want api.Owner
		code api.Code
	}{
		{"socket", true, api.Owner{Name: "bob", UID: 7, GID: 8}, api.Owner{Name: "bob", UID: 7, GID: 8}, ""},
		{"token with user", true, api.Owner{Name: "ada", UID: -1}, api.Owner{Name: "ada", UID: 1000, GID: 1000}, ""},
		{"token with unknown user", false, api.Owner{Name: "eve", UID: -1}, api.Owner{}, api.Conflict},
		{"token without user, root", true, api.Owner{UID: -1}, api.Owner{}, api.Denied},
		{"token without user, not root", false, api.Owner{UID: -1}, api.Owner{UID: -1}, ""},
	} {
		b := &Store{Config: Config{OwnersOnly: c.only, Lookup: lookup}}
		got := c.from
		err := b.resolve(&got)
		switch {
		case c.code == "" && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		case c.code != "" && api.CodeOf(err) != c.code:
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
	if _, err := d.Submit(t.Context(), common, []api.Submission{s}); api.CodeOf(err) != api.Conflict {
		t.Errorf("submit into the app of %s: %v; want a conflict", theirs, err)
	}
}
