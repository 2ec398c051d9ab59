// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

func TestBound(t *testing.T) {
	b := api.Bound{What: "open streams", Most: 256}
	ann := api.Identity{User: "ann", Tenant: "vision", Role: api.User}
	root := api.Identity{User: "root", Tenant: "vision", Role: api.Admin}
	for _, c := range []struct {
		who  api.Identity
		use  api.Taken
		want string // empty: admitted
	}{
		{ann, api.Taken{User: 64, Tenant: 128, All: 224}, ""},
		{ann, api.Taken{User: 65, Tenant: 65, All: 65}, "65 open streams for user ann; the limit is 64"},
		{ann, api.Taken{User: 1, Tenant: 129, All: 129}, "129 open streams for tenant vision; the limit is 128"},
		{ann, api.Taken{User: 1, Tenant: 1, All: 225}, "225 open streams for all without the role admin; the limit is 224"},
		{root, api.Taken{User: 256, Tenant: 256, All: 256}, ""},
		{root, api.Taken{User: 1, Tenant: 1, All: 257}, "257 open streams for all; the limit is 256"},
	} {
		err := b.Admit(c.who, c.use)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %+v: %v; want it admitted", c.who.User, c.use, err)
		case c.want != "" && (api.CodeOf(err) != api.TooMany || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %+v: %v; want %q", c.who.User, c.use, err, c.want)
		}
	}
	if err := (api.Bound{What: "jobs", Most: 2}).Admit(ann, api.Taken{User: 1, Tenant: 1, All: 1}); err != nil {
		t.Errorf("the first of two: %v", err)
	}
}
