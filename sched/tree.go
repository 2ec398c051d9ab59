// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
)

// Tenants form trees: an organisation, its teams, their projects. What a tenant is
// guaranteed comes out of what its parent is, its limit holds for all that is below it,
// and its weight counts against its siblings. A tenant with children may have jobs of its
// own: they stand beside the children, with weight 1 and the part of the quota that no
// child has.

// MaxDepth is how many levels of tenants there may be.
const MaxDepth = 8

// CheckTenants says what is wrong with tenants that stand together, if anything.
func CheckTenants(tenants []Tenant) error {
	index := make(map[TenantID]int, len(tenants))
	for i, t := range tenants {
		if err := t.Validate(); err != nil {
			return err
		}
		if _, twice := index[t.ID]; twice {
			return fmt.Errorf("tenant %s: id is there twice; ids must differ", t.ID)
		}
		index[t.ID] = i
	}
	for i, t := range tenants {
		at := t
		for depth := 1; at.Parent != ""; depth++ {
			above, known := index[at.Parent]
			switch {
			case !known:
				return fmt.Errorf("tenant %s: parent = %q; want a tenant that exists", at.ID, at.Parent)
			case above == i:
				return fmt.Errorf("tenant %s: parent = %q, which is below it; want a tenant that is not", t.ID, t.Parent)
			case depth >= MaxDepth:
				return fmt.Errorf("tenant %s: parent = %q; want a tenant with less above it: there may be %d levels, and nobody above itself", t.ID, t.Parent, MaxDepth)
			}
			at = tenants[above]
		}
	}
	tree := newTree(tenants, index)
	if tree == nil {
		return nil
	}
	for i, t := range tenants {
		most, field := t.Quota, "quota"
		if most == 0 {
			most, field = t.Max, "max_gpus"
		}
		if sum := tree.below[i]; most > 0 && sum > most {
			return fmt.Errorf("tenant %s: %s = %d, and the quotas of its children are %d together; want at least as much as the children have", t.ID, field, most, sum)
		}
	}
	return nil
}

// tree is how the tenants of a State hang together. It is replaced, never changed.
type tree struct {
	parent []int // by tenant; -1: none
	down   []int // tenants, each after its parent
	quota  []int // by tenant: that of it and all below
	below  []int // by tenant: the quotas of its children together
}

// newTree returns the tree of tenants; nil: none has a parent. It refuses nothing, because
// tenants come one after the other: a parent that is unknown, and one that would make a
// circle, counts as none.
func newTree(tenants []Tenant, index map[TenantID]int) *tree {
	if !slices.ContainsFunc(tenants, func(t Tenant) bool { return t.Parent != "" }) {
		return nil
	}
	n := len(tenants)
	t := &tree{parent: make([]int, n), quota: make([]int, n), below: make([]int, n)}
	for i := range tenants {
		t.parent[i] = -1
	}
	for i := range tenants {
		p, ok := index[tenants[i].Parent]
		for at := p; ok && at >= 0; at = t.parent[at] {
			ok = at != i
		}
		if ok && tenants[i].Parent != "" {
			t.parent[i] = p
		}
	}
	depth := make([]int, n)
	for i := range tenants {
		t.down = append(t.down, i)
		for at := t.parent[i]; at >= 0; at = t.parent[at] {
			depth[i]++
		}
	}
	slices.SortStableFunc(t.down, func(a, b int) int { return depth[a] - depth[b] })
	for _, i := range slices.Backward(t.down) {
		if t.quota[i] = tenants[i].Quota; t.quota[i] == 0 {
			t.quota[i] = t.below[i]
		}
		if p := t.parent[i]; p >= 0 {
			t.below[p] += t.quota[i]
		}
	}
	return t
}

// Parent returns the index of the tenant above another; -1: there is none.
func (s *Snapshot) Parent(t int) int {
	if s.tree == nil {
		return -1
	}
	return s.tree.parent[t]
}

// Nested reports whether some tenant has a parent.
func (s *Snapshot) Nested() bool { return s.tree != nil }

// Limit returns the most GPUs that a tenant may hold: no more than any tenant above it.
func (s *Snapshot) Limit(t int) int {
	limit := NoLimit
	for ; t >= 0; t = s.Parent(t) {
		limit = min(limit, s.Tenants[t].Limit())
	}
	return limit
}

// LimitOf returns the most GPUs of a type that a job of a tenant may hold: no more than any
// tenant above it, nor more than it may have CPUs and memory for.
func (s *Snapshot) LimitOf(t int, j *Job, gpu GPUType) int {
	limit := s.Limit(t)
	for ; t >= 0; t = s.Parent(t) {
		if n, ok := s.Tenants[t].MaxByType[gpu]; ok {
			limit = min(limit, n)
		}
		for _, x := range Besides {
			if most, each := x.Most(s.Tenants[t]), x.Of(j); most > 0 && each > 0 {
				limit = int(min(int64(limit), most/each))
			}
		}
	}
	return limit
}

// Quota returns the GPUs that are a tenant's own and no child's.
func (s *Snapshot) Quota(t int) int {
	if s.tree == nil {
		return s.Tenants[t].Quota
	}
	return max(0, s.tree.quota[t]-s.tree.below[t])
}

// Owned returns the GPUs that belong to a tenant and those below it: its quota or, if it
// has none, that of its children.
func (s *Snapshot) Owned(t int) int {
	if s.tree == nil {
		return s.Tenants[t].Quota
	}
	return s.tree.quota[t]
}

// Shares returns the weights of the tenants' own jobs against those of all others. A
// tenant's weight is divided among its children that have jobs, and its own jobs.
func (s *Snapshot) Shares() []float64 {
	shares := make([]float64, len(s.Tenants))
	for i, t := range s.Tenants {
		shares[i] = t.Share()
	}
	if s.tree == nil {
		return shares
	}
	own, all := make([]bool, len(shares)), make([]bool, len(shares)) // have jobs
	for _, j := range s.Jobs {
		if t, ok := s.Tenant(j); ok {
			own[t] = true
			for ; t >= 0 && !all[t]; t = s.Parent(t) {
				all[t] = true
			}
		}
	}
	sums := make([]float64, len(shares)) // of the weights that divide a tenant's
	for i, p := range s.tree.parent {
		if p >= 0 && all[i] {
			sums[p] += shares[i]
		}
	}
	for i := range sums {
		if own[i] && sums[i] > 0 {
			sums[i]++
		}
	}
	whole := slices.Clone(shares) // of a tenant and all below
	for _, i := range s.tree.down {
		if p := s.tree.parent[i]; p >= 0 && sums[p] > 0 {
			whole[i] = whole[p] * shares[i] / sums[p]
		}
		if shares[i] = whole[i]; sums[i] > 0 {
			shares[i] = whole[i] / sums[i]
		}
	}
	return shares
}

// Entitled is how many GPUs tenants may hold when GPUs are divided fairly among them.
type Entitled struct {
	Own  []int // by tenant: for its own jobs
	All  []int // by tenant: for these and all below it
	Full bool  // every tenant has all it wants, as far as its own limit allows, and some GPUs are left
}

// Entitle divides GPUs among tenants that want some, by tenant. On every level each has its
// quota first, or what it can use of it; the rest goes to those that want more by weight,
// until there is none (max-min fairness). So what a tenant leaves idle goes first to its
// siblings, then to its parent's. No tenant gets more than its limit, or than its parent.
//
// Firm, if not nil, is what jobs that cannot be stopped hold, by tenant: below the top,
// nothing that they hold is given to others.
func (s *Snapshot) Entitle(gpus int, want, firm []int) Entitled {
	e := Entitled{Own: make([]int, len(want))}
	e.All = e.Own
	d := division{s: s, want: want, firm: firm}
	if s.tree != nil {
		e.All = make([]int, len(want))
		d.gather()
	}
	var top []claim
	for t := range s.Tenants {
		if s.Parent(t) < 0 {
			top = append(top, d.claim(t))
			top[len(top)-1].firm = 0
		}
	}
	e.Full = divide(gpus, top, false)
	for _, c := range top {
		e.All[c.tenant] = c.got
	}
	if s.tree == nil {
		return e
	}
	for _, t := range s.tree.down {
		if len(d.children[t]) == 0 {
			e.Own[t] = e.All[t]
			continue
		}
		family := d.family(t)
		divide(e.All[t], family, true)
		for _, c := range family {
			if c.tenant == t {
				e.Own[t] = c.got
			} else {
				e.All[c.tenant] = c.got
			}
			e.Full = e.Full && c.got >= c.want
		}
	}
	return e
}

// division is the work of Entitle in a tree.
type division struct {
	s          *Snapshot
	want, firm []int   // of a tenant's own jobs
	wantAll    []int   // of all below it too
	firmAll    []int   // the same
	children   [][]int // by tenant
}

// gather sums up what is wanted below each tenant.
func (d *division) gather() {
	n := len(d.want)
	d.wantAll, d.firmAll, d.children = make([]int, n), make([]int, n), make([][]int, n)
	for _, t := range slices.Backward(d.s.tree.down) {
		d.wantAll[t] = min(d.wantAll[t]+d.want[t], d.s.Tenants[t].Limit())
		if d.firm != nil {
			d.firmAll[t] += d.firm[t]
		}
		d.wantAll[t] = max(d.wantAll[t], d.firmAll[t])
		if p := d.s.tree.parent[t]; p >= 0 {
			d.wantAll[p] = min(d.wantAll[p]+d.wantAll[t], NoLimit)
			d.firmAll[p] += d.firmAll[t]
			d.children[p] = append(d.children[p], t)
		}
	}
	for _, c := range d.children {
		slices.Sort(c)
	}
}

// claim is that of a tenant with all below it.
func (d *division) claim(t int) claim {
	if d.wantAll == nil {
		tenant := &d.s.Tenants[t]
		return claim{tenant: t, want: min(d.want[t], tenant.Limit()), quota: tenant.Quota, weight: tenant.Share()}
	}
	return claim{tenant: t, want: d.wantAll[t], quota: d.s.tree.quota[t], firm: d.firmAll[t], weight: d.s.Tenants[t].Share()}
}

// family returns the claims of a tenant's children and of its own jobs.
func (d *division) family(t int) []claim {
	out := make([]claim, 0, len(d.children[t])+1)
	for _, c := range d.children[t] {
		out = append(out, d.claim(c))
	}
	own := claim{tenant: t, want: d.want[t], quota: d.s.Quota(t), weight: 1}
	if d.firm != nil {
		own.firm = d.firm[t]
		own.want = max(own.want, own.firm)
	}
	return append(out, own)
}

// claim is what one of several wants of what they share.
type claim struct {
	tenant            int
	want, quota, firm int
	weight            float64
	got               int
}

// divide divides GPUs among claims: what is firm, quotas, and then by weight. Quotas that
// are more than there is are served all the same, unless they are bound. It reports whether
// there is more than is wanted.
func divide(gpus int, claims []claim, bound bool) bool {
	sum := 0
	for i := range claims {
		c := &claims[i]
		c.got = max(c.firm, min(c.want, c.quota))
		sum += c.got
	}
	if bound && sum > gpus {
		most := make([]int, len(claims))
		sum = 0
		for i := range claims {
			c := &claims[i]
			most[i], c.got = c.got, c.firm
			sum += c.firm
		}
		return fill(gpus-sum, claims, func(i int) int { return most[i] })
	}
	return fill(gpus-sum, claims, func(i int) int { return claims[i].want })
}

// fill gives claims what is left by weight, each up to the most it may have, and reports
// whether nobody wants the rest.
func fill(rest int, claims []claim, most func(i int) int) bool {
	for rest > 0 {
		share, hungry := 0.0, []int{}
		for i := range claims {
			if claims[i].got < most(i) {
				share += claims[i].weight
				hungry = append(hungry, i)
			}
		}
		if len(hungry) == 0 {
			return true
		}
		given := 0
		for _, i := range hungry {
			more := min(most(i)-claims[i].got, int(float64(rest)*claims[i].weight/share))
			claims[i].got += more
			given += more
		}
		if given == 0 { // less than one GPU for each
			claims[hungry[len(hungry)-1]].got++
			given = 1
		}
		rest -= given
	}
	return false
}

// Caps returns limits of the tenants' own jobs under which no tenant above them gets beyond
// its limit, for those who cannot count GPUs of a whole family while they search. Firm is
// as in Entitle. Of the jobs below each limit, the first that fits there fits below the cap of
// its tenant too: else all of them might wait for ever, each tenant with a part of the limit
// that is too small for its jobs. Jobs run, or could; the oldest comes first.
func (s *Snapshot) Caps(want, firm []int, jobs []*Job) []int {
	caps := make([]int, len(s.Tenants))
	var e Entitled
	if s.tree != nil {
		e = s.Entitle(NoLimit, want, firm)
	}
	for t := range caps {
		caps[t] = s.Tenants[t].Limit()
		if s.tree != nil && s.Limit(t) < NoLimit && (s.tree.parent[t] >= 0 || slices.Contains(s.tree.parent, t)) {
			caps[t] = min(caps[t], e.Own[t])
		}
	}
	if s.tree == nil {
		return caps
	}
	served := map[int]bool{} // by the highest tenant with a limit
	for _, j := range jobs {
		if t, ok := s.Tenant(j); ok {
			if top := s.highestLimit(t); top >= 0 && !served[top] {
				served[top] = s.makeRoom(caps, firm, t, max(j.StartSize(), j.Placement.GPUs()))
			}
		}
	}
	return caps
}

// makeRoom raises the cap of a tenant so that n GPUs fit below it, at the cost of its
// relatives. It is false, and nothing changes, if their limits or what is firm forbid it.
func (s *Snapshot) makeRoom(caps, firm []int, t, n int) bool {
	if firm[t]+n <= caps[t] {
		return true
	}
	next := slices.Clone(caps)
	next[t] = firm[t] + n
	for top := t; top >= 0; top = s.Parent(top) {
		over := -s.Tenants[top].Limit()
		if over == -NoLimit {
			continue
		}
		for u := range next {
			if s.under(u, top) {
				over += next[u]
			}
		}
		for u := range next {
			if cut := min(over, next[u]-firm[u]); u != t && cut > 0 && s.under(u, top) {
				next[u] -= cut
				over -= cut
			}
		}
		if over > 0 {
			return false
		}
	}
	copy(caps, next)
	return true
}

// under reports whether a tenant is another one, or below it.
func (s *Snapshot) under(t, top int) bool {
	for t >= 0 && t != top {
		t = s.Parent(t)
	}
	return t == top
}

// highestLimit returns the highest tenant with a limit, of a tenant and those above it; -1:
// none has one.
func (s *Snapshot) highestLimit(t int) int {
	top := -1
	for ; t >= 0; t = s.Parent(t) {
		if s.Tenants[t].Limit() < NoLimit {
			top = t
		}
	}
	return top
}
