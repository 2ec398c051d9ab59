// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"github.com/fairway-gpu/fairway/api"
)

// places are the streams that may be open at a time.
type places struct {
	bound api.Bound

	mu      sync.Mutex
	all     int64
	tenants map[string]int64
	users   map[[2]string]int64 // by tenant and name
}

func newPlaces(most int) *places {
	return &places{bound: api.Bound{What: "open streams", Most: int64(most)}, tenants: map[string]int64{}, users: map[[2]string]int64{}}
}

// take takes a place, or says why there is none; what it returns gives it back.
func (p *places) take(who api.Identity) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tenant, user := string(who.Tenant), [2]string{string(who.Tenant), who.User}
	err = p.bound.Admit(who, api.Taken{User: p.users[user] + 1, Tenant: p.tenants[tenant] + 1, All: p.all + 1})
	if err != nil {
		return nil, err
	}
	count := func(more int64) {
		p.all += more
		if p.tenants[tenant] += more; p.tenants[tenant] == 0 {
			delete(p.tenants, tenant)
		}
		if p.users[user] += more; p.users[user] == 0 {
			delete(p.users, user)
		}
	}
	count(1)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		count(-1)
	}, nil
}
