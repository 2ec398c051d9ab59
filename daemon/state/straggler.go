// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

const (
	// throttled is the clock of a GPU, as a part of its peers', from which on it
	// explains that a rank is slow, if the GPU works: at busy or more.
	throttled, busy = 0.9, 0.5
	// maxNamed bounds the ranks that one warning names.
	maxNamed = 8
)

// gangPace is what is known of the pace of a running attempt's ranks. It is not
// stored: a restarted daemon looks again.
type gangPace struct {
	attempt int
	diagnose.Pace
	links diagnose.Links
}

// rankPlace is where a rank runs.
type rankPlace struct {
	node string
	gpu  int
}

// pace takes in how long the ranks compute, and names those that are slower than
// their peers, each once until they have caught up.
func (t *tx) pace(x *entry, p *api.Pace) error {
	if p == nil {
		return nil
	}
	if x.pace.attempt != x.Job.Starts {
		x.pace = gangPace{attempt: x.Job.Starts}
	}
	if err := t.links(x, p.Probes); err != nil {
		return err
	}
	var slow []diagnose.Straggler
	for _, w := range p.Windows {
		x.pace.Add(w)
		if found := x.pace.Stragglers(); len(found) > 0 {
			slow = found
		}
	}
	if len(x.Slow) > 0 && x.pace.CaughtUp(x.Slow) {
		return t.caughtUp(x, &api.SlowRanks{Text: "no longer slower than the other ranks: " + rankList(x.Slow)})
	}
	slow = slices.DeleteFunc(slow, func(s diagnose.Straggler) bool { return slices.Contains(x.Slow, s.Rank) })
	if len(slow) == 0 {
		return nil
	}
	return t.warnOfSlow(x, t.slowRanks(x, slow, t.mem.seats(x, len(p.Windows[0]))))
}

// warnOfSlow tells the owner about slow ranks, and holds them against their node.
func (t *tx) warnOfSlow(x *entry, r *api.SlowRanks) error {
	rec := warning(x, r.Text)
	rec.Slow = r
	if err := t.add(rec); err != nil {
		return err
	}
	t.decides = t.decides || len(t.mem.healthChanges) > 0
	return t.recordQuarantines()
}

// caughtUp says that ranks which were named are slow no longer.
func (t *tx) caughtUp(x *entry, r *api.SlowRanks) error {
	rec := warning(x, "")
	rec.Text, rec.Slow = r.Text, r
	return t.add(rec)
}

// seats returns where the ranks of a gang run, in their order; nil: not known,
// because there is not one rank for each GPU, or they have changed places.
func (m *memory) seats(x *entry, ranks int) []rankPlace {
	changed := func(e api.Entry) bool { return e.InPlace && e.Attempt == x.Job.Starts }
	if x.Job.Placement.GPUs() != ranks || slices.ContainsFunc(x.Ledger, changed) {
		return nil
	}
	var out []rankPlace
	for _, s := range x.Job.Placement {
		for _, g := range s.GPUs.Indexes() {
			out = append(out, rankPlace{m.state.Cluster().Nodes[s.Node].Name, g})
		}
	}
	return out
}

// slowRanks describes stragglers, the slowest first, and says whether a gauge
// explains why. Only ranks of one node that no other job shares are held against it.
func (t *tx) slowRanks(x *entry, slow []diagnose.Straggler, seats []rankPlace) *api.SlowRanks {
	r := &api.SlowRanks{GPU: -1, Times: slow[0].Times}
	var names, nodes []string
	for _, s := range slow {
		r.Ranks = append(r.Ranks, s.Rank)
		name := fmt.Sprintf("rank %d", s.Rank)
		if seats != nil {
			at := seats[s.Rank]
			name += fmt.Sprintf(" on GPU %d of %s", at.gpu, at.node)
			nodes = append(nodes, at.node)
		}
		names = append(names, name)
	}
	if len(names) > maxNamed {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	verb := "takes"
	if len(slow) > 1 {
		verb = "take"
	}
	r.Text = fmt.Sprintf("%s %s up to %.2f times as long as a typical rank to compute a step, by the median of the last %d s",
		strings.Join(names, ", "), verb, slow[0].Times, diagnose.PaceSeconds)
	if len(slow) == 1 {
		r.Text = strings.Replace(r.Text, "up to ", "", 1)
	}
	if t.mem.companyOf(x.Job) == beside {
		r.Text += "; its GPUs are shared with other jobs"
		return r
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) == 1 {
		r.Node = nodes[0]
		if len(slow) == 1 {
			r.GPU = seats[slow[0].Rank].gpu
		}
		var why string
		why, r.Sure = t.clocks(slow, seats)
		r.Text += why
	}
	if !r.Sure {
		r.Text += "; no gauge says why: unless its share of the work is larger, look at the host, the GPU and its links"
	}
	return r
}

// rankList names ranks, in their order.
func rankList(ranks []int) string {
	var names []string
	for _, r := range slices.Sorted(slices.Values(ranks)) {
		names = append(names, fmt.Sprintf("rank %d", r))
	}
	if len(names) > maxNamed {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	return strings.Join(names, ", ")
}

// clocks compares the clocks of slow GPUs of this machine with those of their peers.
func (t *tx) clocks(slow []diagnose.Straggler, seats []rankPlace) (text string, low bool) {
	if t.store.Use == nil || seats[slow[0].Rank].node != t.store.Node.Name {
		return "", false
	}
	use := t.store.Use()
	var own, peers []float64
	most := 0.0
	for rank, s := range seats {
		if s.node != t.store.Node.Name || s.gpu >= len(use) || use[s.gpu] == nil || use[s.gpu].ClockMHz == 0 || use[s.gpu].Util < busy {
			continue
		}
		if u := use[s.gpu]; slices.ContainsFunc(slow, func(s diagnose.Straggler) bool { return s.Rank == rank }) {
			own, most = append(own, u.ClockMHz), max(most, u.MaxClockMHz)
		} else {
			peers = append(peers, u.ClockMHz)
		}
	}
	if len(own) < len(slow) {
		return "", false
	}
	fastest := slices.Max(own)
	if len(peers) == 0 {
		return fmt.Sprintf("; its clock is at %.0f of %.0f MHz", fastest, most), fastest < throttled*most
	}
	slices.Sort(peers)
	usual := peers[len(peers)/2]
	return fmt.Sprintf("; its clock is at %.0f of %.0f MHz, its peers' at %.0f", fastest, most, usual), fastest < throttled*usual
}

// slow remembers ranks that were named, and what this says about their node.
func (m *memory) slow(x *entry, r *api.Record) {
	s, named := r.Slow, &x.Slow
	if s.Links {
		named = &x.SlowLinks
	}
	if len(s.Ranks) == 0 {
		*named = nil
		if len(x.Slow)+len(x.SlowLinks) == 0 {
			x.Warning = ""
		}
		return
	}
	*named = append(slices.Clip(*named), s.Ranks...)
	if s.Node == "" {
		return
	}
	m.healthChanges = m.noteNode(nodeEvent{
		At: r.At, Kind: diagnose.NodeSlow, Nodes: []string{s.Node}, Job: string(x.Job.ID), User: string(x.Job.Tenant) + "/" + x.Job.User,
		Flags: s.Sure, Text: s.Text, GPU: s.GPU, Rank: s.Ranks[0],
	})
}
