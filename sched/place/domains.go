// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// domains searches for GPUs that keep to rules about the topology. It looks at nodes
// one by one where a search without rules looks at sets of them.
//
// The rules are nested, the one about the most GPUs first: the nodes are split into
// the domains of the first rule, and each domain is searched under the other rules.
type domains struct {
	nodes []int32 // of one GPU type, that have room for the job
	room  []int   // by node: GPUs, in whole tasks
}

// inDomains takes n GPUs that keep to the job's rules, and to its preferred levels as
// far as there is room.
func (f *Free) inDomains(j *sched.Job, n int, level sched.Level) (sched.Placement, bool) {
	for step := 0; ; step++ {
		rules, last := f.c.Bounds(j, step)
		rules = f.and(rules, level)
		var p sched.Placement
		ok := f.types(j, func(t int) bool {
			if f.typeFree[t] < n || j.GPUMemory > f.gpuMemory[t] {
				return false
			}
			d := f.domainsFor(j, t, level, f.now)
			parts, ok := d.fit(d.nodes, n, rules)
			if !ok {
				return false
			}
			for _, at := range parts {
				p = append(p, f.pick(j, int(at.node), at.gpus))
			}
			return true
		})
		if ok || last {
			return p, ok
		}
	}
}

// and adds the rule that a level makes to those of a job. It bounds the whole gang, as
// the first ones do.
func (f *Free) and(rules []sched.Bound, level sched.Level) []sched.Bound {
	if b, ok := f.c.Within(level); ok {
		return slices.Insert(rules, 0, b)
	}
	return rules
}

// required returns the rules that a job insists on within a level.
func (f *Free) required(j *sched.Job, level sched.Level) []sched.Bound {
	return f.and(f.c.RequiredBounds(j), level)
}

// now returns how many of its free GPUs a node has for a job, and whenEmpty how many
// it would have if nothing ran, with the set of them.
func (f *Free) now(j *sched.Job, i int) (int, sched.GPUSet) {
	if !f.ready.has(i) || f.whole[i] == 0 {
		return 0, 0
	}
	return f.room(j, i, f.whole[i].Len()), f.whole[i]
}

func (f *Free) whenEmpty(j *sched.Job, i int) (int, sched.GPUSet) {
	if f.c.Nodes[i].State == sched.Down {
		return 0, 0
	}
	return f.capacity(j, i), f.c.Nodes[i].Usable()
}

// domainsFor lists the nodes of a type that have room for a job.
func (f *Free) domainsFor(j *sched.Job, t int, level sched.Level, room func(*sched.Job, int) (int, sched.GPUSet)) domains {
	d := domains{room: make([]int, len(f.c.Nodes))}
	for i := range f.c.Nodes {
		if f.c.TypeOf(i) != t {
			continue
		}
		k, free := room(j, i)
		if level == sched.SameSlot {
			k = min(k, largestIsland(&f.c.Nodes[i], free)/j.Task()*j.Task())
		}
		if k > 0 {
			d.room[i] = k
			d.nodes = append(d.nodes, int32(i))
		}
	}
	return d
}

// largestIsland returns how many of a node's GPUs are in one island.
func largestIsland(n *sched.Node, gpus sched.GPUSet) int {
	if len(n.Islands) == 0 {
		return gpus.Len()
	}
	most := min(1, gpus.Len())
	for _, island := range n.Islands {
		most = max(most, (gpus & island).Len())
	}
	return most
}

// part is a number of GPUs of a node.
type part struct {
	node int32
	gpus int
}

// split returns the nodes by domain, in the order of the first node of each. Nodes
// without a domain are left out.
func split(nodes []int32, by *sched.Bound) [][]int32 {
	var out [][]int32
	index := map[int]int{}
	for _, i := range nodes {
		d := by.DomainOf(int(i))
		if d < 0 {
			continue
		}
		at, ok := index[d]
		if !ok {
			at = len(out)
			index[d], out = at, append(out, nil)
		}
		out[at] = append(out[at], i)
	}
	return out
}

// most returns the most GPUs of the nodes that a gang under the rules could have, in
// whole segments.
func (d *domains) most(nodes []int32, rules []sched.Bound) (gpus int) {
	if len(rules) == 0 {
		for _, i := range nodes {
			gpus += d.room[i]
		}
		return gpus
	}
	for _, domain := range split(nodes, &rules[0]) {
		k := d.most(domain, rules[1:])
		if s := rules[0].Segment; s == sched.NoSize {
			gpus = max(gpus, k)
		} else {
			gpus += k / s * s
		}
	}
	return gpus
}

// fit finds n GPUs of the nodes under the rules: on the fewest nodes of one domain, or
// of the fewest domains if segments allow several.
func (d *domains) fit(nodes []int32, n int, rules []sched.Bound) ([]part, bool) {
	switch {
	case len(rules) == 0:
		return d.fewest(nodes, n)
	case rules[0].Segment < n:
		return d.segments(nodes, n, rules)
	}
	var best []part
	least := 0
	for _, domain := range split(nodes, &rules[0]) {
		room := d.most(domain, nil)
		if room < n {
			continue
		}
		// Among equals the domain with the least room, so that large ones stay large.
		if parts, ok := d.fit(domain, n, rules[1:]); ok && (best == nil || cmp.Or(cmp.Compare(len(parts), len(best)), cmp.Compare(room, least)) < 0) {
			best, least = parts, room
		}
	}
	return best, best != nil
}

// fewest is Free.fewest among some nodes, without taking anything.
func (d *domains) fewest(nodes []int32, n int) ([]part, bool) {
	bySize := slices.Clone(nodes)
	slices.SortStableFunc(bySize, func(a, b int32) int { return cmp.Compare(d.room[b], d.room[a]) })
	var parts []part
	for k, i := range bySize {
		if d.room[i] < n {
			parts = append(parts, part{i, d.room[i]})
			n -= d.room[i]
			continue
		}
		last := i // the smallest that holds the rest, the lowest number first
		for _, o := range bySize[k:] {
			if d.room[o] < n {
				break
			}
			if d.room[o] < d.room[last] {
				last = o
			}
		}
		return append(parts, part{last, n}), true
	}
	return nil, false
}

// chunk is what a domain can hold of a gang that is cut into segments.
type chunk struct {
	nodes []int32
	whole int // segments
	tail  int // segments before the shorter last one, if that is there too; -1: no room for it
}

// segments finds n GPUs in several domains, each with whole segments and the last one
// with what is left.
func (d *domains) segments(nodes []int32, n int, rules []sched.Bound) ([]part, bool) {
	size, inner := rules[0].Segment, rules[1:]
	left, rest := n/size, n%size
	var chunks []chunk
	for _, domain := range split(nodes, &rules[0]) {
		c := chunk{domain, d.most(domain, inner) / size, -1}
		for k := c.whole; rest > 0 && k >= max(0, c.whole-1) && c.tail < 0; k-- {
			if _, ok := d.fit(domain, k*size+rest, inner); ok {
				c.tail = k
			}
		}
		chunks = append(chunks, c)
	}
	// The last domain is one that loses no segment to the shorter one, if there is one.
	var last *chunk
	if rest > 0 {
		for i := range chunks {
			if c := &chunks[i]; c.tail >= 0 && (last == nil || c.whole-c.tail < last.whole-last.tail || c.whole-c.tail == last.whole-last.tail && c.tail > last.tail) {
				last = c
			}
		}
		if last == nil {
			return nil, false
		}
	}
	var tail []int32
	tailGPUs := rest
	if last != nil {
		k := min(last.tail, left)
		left -= k
		tail, tailGPUs = last.nodes, k*size+rest
		last.whole = 0
	}
	slices.SortStableFunc(chunks, func(a, b chunk) int { return cmp.Compare(b.whole, a.whole) })
	var out []part
	for i := 0; left > 0; i++ {
		if i == len(chunks) || chunks[i].whole == 0 {
			return nil, false
		}
		at := i
		for at+1 < len(chunks) && chunks[at+1].whole >= left { // best fit
			at++
		}
		k := min(left, chunks[at].whole)
		parts, ok := d.fit(chunks[at].nodes, k*size, inner)
		if !ok {
			return nil, false
		}
		out, left = append(out, parts...), left-k
	}
	if tail != nil {
		parts, ok := d.fit(tail, tailGPUs, inner)
		if !ok {
			return nil, false
		}
		out = append(out, parts...)
	}
	return out, true
}

// everInDomains is Ever for a job with rules, on one type of GPU. Unlike without rules,
// how much it could have depends on how much it asks for: the last segment may be short.
func (f *Free) everInDomains(j *sched.Job, n, t int, sh shape) int {
	key := need{sh, n}
	key.types = 1 << min(t, 63)
	most, known := f.everFits[key]
	if !known {
		rules, d := f.required(j, sh.level), f.domainsFor(j, t, sh.level, f.whenEmpty)
		most = n
		if _, ok := d.fit(d.nodes, n, rules); !ok {
			most = min(n-1, d.most(d.nodes, rules))
		}
		if len(f.c.Types) < 64 {
			f.everFits = remember(f.everFits, key, most)
		}
	}
	return most
}

// whyDomains is Why for a job with rules.
func (f *Free) whyDomains(j *sched.Job, n int, level sched.Level) sched.Reason {
	level = everLevel(j, level)
	rules := f.required(j, level)
	r := sched.Reason{Code: sched.Fragmented, Need: n, Level: level, Marked: j.Selector != ""}
	ever := f.Ever(j, n, level)
	free := 0
	f.types(j, func(t int) bool {
		d := f.domainsFor(j, t, sched.CrossRack, f.now)
		free = max(free, d.most(d.nodes, nil))
		return false
	})
	if ever >= n && free < n {
		return sched.Reason{Code: sched.Full, Need: n, Have: free, Marked: r.Marked}
	}
	room := f.now
	if ever < n {
		r.Code, room = sched.Impossible, f.whenEmpty
	}
	// The rule to blame is the first that cannot be kept together with those before.
	for k := range rules {
		most, where, fits := 0, 0, false
		f.types(j, func(t int) bool {
			d := f.domainsFor(j, t, level, room)
			if _, ok := d.fit(d.nodes, n, rules[:k+1]); ok {
				fits = true
				return true
			}
			if got := d.most(d.nodes, rules[:k+1]); got > most {
				most, where = got, d.largest(&rules[k])
			}
			return false
		})
		if !fits {
			r.Topology, r.Have = rules[k].Name, most
			if rules[k].Segment != sched.NoSize {
				r.Segment = rules[k].Segment
			} else if r.Code == sched.Fragmented {
				r.Where = int32(where + 1)
			}
			return r
		}
	}
	r.Have = max(free, ever)
	return r
}

// largest returns the domain with the most room.
func (d *domains) largest(by *sched.Bound) int {
	best, most := -1, 0
	for _, nodes := range split(d.nodes, by) {
		if k := d.most(nodes, nil); k > most {
			best, most = by.DomainOf(int(nodes[0])), k
		}
	}
	return best
}
