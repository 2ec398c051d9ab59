// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// seat is what a job that may share holds of each of its GPUs, in thousandths,
// with or without a partner: changing it later would be a restart.
const seat = sched.WholeGPU / 2

// margin is the GPU memory that stays free beside two jobs, in bytes.
const margin = 500 << 20

// minSlowdown is the least slowdown assumed for a job in a pair, so that no job
// shares while GPUs are idle.
const minSlowdown = 1.05

// stayFactor reduces the slowdown of a pair that shares now, because another pair
// would cost a restart. It is less than minSlowdown.
const stayFactor = 1.03

// maxSharing is the number of jobs for which pairs are considered; more would make
// the linear program expensive.
const maxSharing = 1024

// slowdownCache caches how much pairs of jobs slow each other down.
type slowdownCache struct {
	mode interfere.Mode
	gpu  string                    // whose model is asked; pairing.Auto: that of each type
	of   map[string]*slowdownTable // by GPU type
}

// slowdownTable has the slowdowns of a job in a pair on one type, by the utilisations
// of both in hundredths; 0: not computed yet.
type slowdownTable struct {
	model *interfere.Model
	slow  [101 * 101]float32
}

// slowdown returns the slowdown of a job beside another on a type.
func (c *slowdownCache) slowdown(t sched.GPUType, own, other *sched.Job) float64 {
	name := string(t)
	if c.gpu != pairing.Auto {
		name = c.gpu
	}
	a := c.of[name]
	if a == nil {
		m, err := interfere.Default(name)
		if err != nil { // a test of package interfere reads every built-in model
			m = interfere.Published()
		}
		a = &slowdownTable{model: m}
		c.of[name] = a
	}
	x, y := hundredths(own.GPUUtil), hundredths(other.GPUUtil)
	known := &a.slow[x*101+y]
	if *known == 0 {
		load := interfere.Load{Util: float64(x) / 100}
		*known = float32(a.model.Slowdown(c.mode, load, []interfere.Load{{Util: float64(y) / 100}}).Mean)
	}
	return max(minSlowdown, float64(*known))
}

func hundredths(util float64) int { return int(math.Ceil(min(max(util, 0), 1)*100 - 1e-9)) }

// canPair reports whether two jobs may share GPUs of a type and memory, and how much
// slower each would be: together they must do more than one alone, by the knob
// sharing. What was measured counts; else slowdowns are predicted.
func (p *policy) canPair(t sched.GPUType, memory int64, a, b *sched.Job) (slowA, slowB float64, ok bool) {
	if a.Selector != b.Selector || memory > 0 && a.GPUMemory+b.GPUMemory+margin > memory {
		return 0, 0, false
	}
	if slowA, slowB, ok = measured(t, a, b); !ok {
		if !place.Sharable(a) || !place.Sharable(b) {
			return 0, 0, false
		}
		slowA, slowB = p.slowdowns.slowdown(t, a, b), p.slowdowns.slowdown(t, b, a)
	} else if slowA == 0 || slowB == 0 {
		return 0, 0, false
	}
	return slowA, slowB, 1/slowA+1/slowB >= p.Sharing
}

// measured returns how much slower two jobs were measured to be beside each other.
func measured(t sched.GPUType, a, b *sched.Job) (slowA, slowB float64, ok bool) {
	if a.Perf == nil || b.Perf == nil || a.Perf.Beside == nil || b.Perf.Beside == nil {
		return 0, 0, false
	}
	slowA, ok1 := a.Perf.Beside[string(t)][b.Perf.Kind]
	slowB, ok2 := b.Perf.Beside[string(t)][a.Perf.Kind]
	if slowA > 0 && slowB > 0 {
		slowA, slowB = max(minSlowdown, slowA), max(minSlowdown, slowB)
	}
	return slowA, slowB, ok1 && ok2
}

// mayShare reports whether a job may be put beside another: it agrees, and what they do
// to each other was measured or can be predicted.
func mayShare(j *sched.Job) bool {
	return place.Sharable(j) || j.Shareable && j.Perf != nil && len(j.Perf.Beside) > 0
}

// findPartners finds the jobs that may share and fit on one node, and those that share
// now.
func (p *policy) findPartners(s *sched.Snapshot, claims []claim) {
	on := map[sched.Slice]int{}
	for k := range claims {
		c := &claims[k]
		c.partner = -1
		if p.Sharing == 0 || !mayShare(c.j) || c.scale > s.Cluster.MaxGPUs() {
			continue
		}
		c.seats = c.on < 0 || c.onSeats() || !c.j.Pinned()
		if !c.onSeats() {
			continue
		}
		held := c.j.Placement[0]
		if other, ok := on[held]; ok {
			c.partner, claims[other].partner = other, k
		} else {
			on[held] = k
		}
	}
}

// onSeats reports whether a job runs on seats.
func (c *claim) onSeats() bool { return len(c.j.Placement) == 1 && c.j.Placement[0].Milli == seat }

// group is a block of claims.
type group struct {
	claims []int
	pairs  []pair // by place in claims
}

// groups divides the claims that may share into blocks: light jobs with heavy ones,
// so that the linear program can choose pairs, and jobs that share now in the same
// block.
func (p *policy) groups(s *sched.Snapshot, claims []claim) []group {
	if p.Sharing == 0 {
		return nil
	}
	var all []int
	for k := range claims {
		c := &claims[k]
		if c.seats && (c.on >= 0 || c.j.Ready(s.Now)) && slices.Max(c.speed[:]) > 0 {
			all = append(all, k)
		}
	}
	if len(all) > maxSharing { // those with the least time so far go first
		slices.SortStableFunc(all, func(a, b int) int {
			return cmp.Compare(claims[a].got.sum()+claims[a].shared.sum(), claims[b].got.sum()+claims[b].shared.sum())
		})
		all = all[:maxSharing]
	}
	slices.SortFunc(all, func(a, b int) int {
		x, y := &claims[a], &claims[b]
		return cmp.Or(cmp.Compare(x.scale, y.scale), cmp.Compare(x.j.GPUUtil, y.j.GPUUtil), cmp.Compare(a, b))
	})
	best := bestNodes(s.Cluster)
	var out []group
	for len(all) > 0 {
		end := 1
		for end < len(all) && claims[all[end]].scale == claims[all[0]].scale {
			end++
		}
		for _, members := range dealBlocks(claims, all[:end]) {
			if g := p.group(s, claims, members, best); len(g.pairs) > 0 {
				out = append(out, g)
			}
		}
		all = all[end:]
	}
	return out
}

// dealBlocks deals claims of one size, the lightest first, into blocks: in turn the
// lightest and the heaviest that are left, each with its current partner.
func dealBlocks(claims []claim, sorted []int) [][]int {
	left := make(map[int]bool, len(sorted))
	for _, k := range sorted {
		left[k] = true
	}
	var out [][]int
	var open []int
	flush := func() {
		if len(open) > 1 {
			out = append(out, open)
		}
		open = nil
	}
	take := func(k int) {
		partner := claims[k].partner
		if partner < 0 || !left[partner] {
			partner = -1
		}
		if len(open) == maxBlock || (partner >= 0 && len(open) == maxBlock-1) {
			flush()
		}
		open = append(open, k)
		delete(left, k)
		if partner >= 0 {
			open = append(open, partner)
			delete(left, partner)
		}
	}
	light, heavy := 0, len(sorted)-1
	for turn := 0; light <= heavy; turn++ {
		k := sorted[light]
		if turn%2 == 0 {
			light++
		} else {
			k = sorted[heavy]
			heavy--
		}
		if left[k] {
			take(k)
		}
	}
	flush()
	return out
}

// bestNodes returns, by type, the most GPUs and the most GPU memory of a node.
func bestNodes(c *sched.Cluster) []sched.Node {
	out := make([]sched.Node, len(c.Types))
	for i := range c.Nodes {
		n, best := &c.Nodes[i], &out[c.TypeOf(i)]
		best.GPUs, best.GPUMemory = max(best.GPUs, n.Usable().Len()), max(best.GPUMemory, n.GPUMemory)
	}
	return out
}

// group finds the pairs among some claims, and leaves out claims without one.
func (p *policy) group(s *sched.Snapshot, claims []claim, members []int, best []sched.Node) group {
	var pairs []pair
	partners := make([]int, len(members))
	for i := range members {
		for k := i + 1; k < len(members); k++ {
			a, b := &claims[members[i]], &claims[members[k]]
			x, any := pair{a: i, b: k}, false
			for t := range min(len(s.Cluster.Types), maxTypes) {
				if a.speed[t] == 0 || b.speed[t] == 0 || best[t].GPUs < a.scale {
					continue
				}
				if slowA, slowB, ok := p.canPair(s.Cluster.Types[t], best[t].GPUMemory, a.j, b.j); ok {
					if a.on == t && a.partner == members[k] {
						slowA, slowB = slowA/stayFactor, slowB/stayFactor
					}
					x.slow[0][t], x.slow[1][t], any = slowA, slowB, true
				}
			}
			if any {
				pairs = append(pairs, x)
				partners[i]++
				partners[k]++
			}
		}
	}
	var g group
	place := make([]int, len(members))
	for i, k := range members {
		if place[i] = len(g.claims); partners[i] > 0 {
			g.claims = append(g.claims, k)
		}
	}
	for _, x := range pairs {
		x.a, x.b = place[x.a], place[x.b]
		g.pairs = append(g.pairs, x)
	}
	return g
}
