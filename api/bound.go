// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

// Bound is a limit that callers share. So that nobody can use it up for others, a
// user has at most a quarter of it, a tenant half, and the last eighth is kept for
// admins, to whom the other limits do not apply.
type Bound struct {
	What string // such as "open streams"
	Most int64
}

// Taken is how much of a bound is in use, with what is asked for.
type Taken struct{ User, Tenant, All int64 }

// Admit returns a refusal if that is more than the caller may use.
func (b Bound) Admit(who Identity, u Taken) error {
	limits := []struct {
		whose      string
		has, limit int64
	}{
		{"user " + who.User, u.User, b.Most / 4},
		{"tenant " + string(who.Tenant), u.Tenant, b.Most / 2},
		{"all without the role admin", u.All, b.Most - b.Most/8},
		{"all", u.All, b.Most},
	}
	if who.Role == Admin {
		limits = limits[3:]
	}
	for _, l := range limits {
		if limit := max(1, l.limit); l.has > limit {
			return Errorf(TooMany, "%d %s for %.200s; the limit is %d", l.has, b.What, l.whose, limit).Try("try again when there are fewer")
		}
	}
	return nil
}
