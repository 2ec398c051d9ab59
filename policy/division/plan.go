// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// fill gives GPUs that the search has left idle to waiting jobs, as few as each can
// use. A job that is so young, or was restarted so often, that the search values it
// at nothing starts this way. fill returns the board of all rows.
func (p *problem) fill(rows []row) *board {
	b := &board{}
	b.copyFrom(p.blank)
	for i := range rows {
		b.take(&p.jobs[i], rows[i])
	}
	for i := range rows {
		j := &p.jobs[i]
		for k := 0; k < len(j.Kinds) && len(rows[i]) == 0 && j.legal(j.fewest); k++ {
			rows[i] = p.start(b, j, &j.Kinds[k])
		}
	}
	return b
}

// start gives a job its fewest GPUs of a kind, if that many are free.
func (p *problem) start(b *board, j *Job, k *Kind) row {
	for w := oneNode; w <= anywhere; w++ {
		if reach, _ := p.extent(offer{j, k, w}); j.fewest > reach || (w != oneNode && j.fewest < 2*j.demand.task) {
			continue
		}
		if r, ok := p.place(b, nil, j, option{gpus: int32(j.fewest), kind: int16(k.Type), way: w}); ok {
			b.take(j, r)
			return r
		}
	}
	return nil
}

// plan turns rows and their board into a plan: it picks the GPUs, and says why the
// other jobs wait.
func (p *problem) plan(rows []row, b *board) sched.Plan {
	plan := sched.NewPlan(p.s)
	for i, j := range p.s.Jobs {
		at := p.fixedAt(&Job{Job: j, Index: i})
		switch {
		case at != nil:
			plan.Want[i] = at
		case j.Phase == sched.Pending && !j.Ready(p.s.Now):
			plan.Why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
		}
	}
	var fresh []int
	for i, r := range rows {
		j := &p.jobs[i]
		switch {
		case len(r) == 0:
		case r.same(j.held):
			p.free.Take(j.Job, j.Placement)
			plan.Want[j.Index] = j.Placement
		default:
			fresh = append(fresh, i)
		}
	}
	// Jobs that need an island pick first: the others leave islands whole only
	// where they can.
	slices.SortStableFunc(fresh, func(a, b int) int {
		return cmp.Compare(bit(!p.jobs[a].demand.island), bit(!p.jobs[b].demand.island))
	})
	var homeless []int
	for _, i := range fresh {
		j := &p.jobs[i]
		if plan.Want[j.Index] = p.realise(j, rows[i]); plan.Want[j.Index] == nil {
			homeless = append(homeless, i)
		}
	}
	for _, i := range homeless { // only now is it known which GPUs are left
		j := &p.jobs[i]
		plan.Want[j.Index], _ = p.free.Within(j.Job, rows[i].gpus(), j.MaxSpread)
	}
	p.explain(&plan, b)
	return plan
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// realise picks the GPUs of a row. It returns nil if they must lie in one island
// and cannot.
func (p *problem) realise(j *Job, r row) sched.Placement {
	out := make(sched.Placement, len(r))
	mark := p.free.Mark()
	for i, s := range r {
		out[i] = sched.Slice{Node: s.node, Milli: sched.WholeGPU, GPUs: p.pick(int(s.node), int(s.gpus))}
	}
	p.free.Take(j.Job, out)
	if j.Spreads(p.s.Cluster.Level(out)) {
		return out
	}
	p.free.Rollback(mark)
	return nil
}

// pick returns n free GPUs of a node: of the smallest island that has enough, or of
// any.
func (p *problem) pick(node, n int) sched.GPUSet {
	free := p.free.OnNode(node)
	best, picked := free.Len()+1, free.Lowest(n)
	for _, island := range p.s.Cluster.Nodes[node].Islands {
		if k := (free & island).Len(); k >= n && k < best {
			best, picked = k, (free & island).Lowest(n)
		}
	}
	return picked
}

// explain says why the jobs without GPUs wait.
func (p *problem) explain(plan *sched.Plan, b *board) {
	quota := place.NewQuota(p.s)
	for i, want := range plan.Want {
		quota.Add(p.s.Jobs[i], want.GPUs())
	}
	for i, held := range p.withheld {
		if held {
			plan.Why[i] = quota.Why(p.s.Jobs[i], p.s.Jobs[i].GPUs)
		}
	}
	for _, jobs := range [][]Job{p.jobs, p.waits} {
		for i := range jobs {
			if j := &jobs[i]; len(plan.Want[j.Index]) == 0 {
				plan.Why[j.Index] = p.why(j, quota, b)
			}
		}
	}
}

// why says why a job without GPUs waits.
func (p *problem) why(j *Job, quota place.Quota, b *board) sched.Reason {
	switch {
	case !j.legal(j.fewest): // its sizes contradict each other
		return sched.Reason{Code: sched.Impossible, Need: j.fewest}
	case quota.Left(j.Job) < j.fewest:
		return quota.Why(j.Job, j.fewest)
	}
	why := p.free.Why(j.Job, j.fewest, sched.CrossRack)
	switch {
	case why.Code == sched.Full:
		why.Code = sched.Behind
	case why.Code == sched.Fragmented && p.Apart && j.widest != Local:
		// Some of these GPUs are on nodes that are closed to it because another
		// job across several nodes uses them.
		if have := p.openTo(j, b); have < j.fewest {
			return sched.Reason{Code: sched.Behind, Need: j.fewest, Have: have}
		}
	}
	return why
}

// openTo returns how many free GPUs of one type the job could use across several
// nodes of the board of all rows.
func (p *problem) openTo(j *Job, b *board) int {
	open, known := p.open[j.demand]
	if !known {
		open = make([]int, len(b.left)) // by type
		for node := range b.free {
			if b.open.has(node) {
				open[b.c.TypeOf(node)] += b.room(j.demand, node)
			}
		}
		p.open[j.demand] = open
	}
	most := 0
	for _, k := range j.Kinds {
		most = max(most, open[k.Type])
	}
	return most
}
