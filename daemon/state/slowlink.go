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

// links takes in measurements of the links between the ranks, and names those that are
// slower than the others, each once until they are so no longer.
func (t *tx) links(x *entry, probes []diagnose.Probe) error {
	if len(probes) == 0 {
		return nil
	}
	ranks := probes[len(probes)-1].Ranks
	seats := t.mem.seats(x, ranks)
	if seats == nil && len(x.Job.Placement) > 1 {
		return nil // links within a node and between nodes cannot be told apart
	}
	ends := endsOf(seats, ranks)
	var slow []diagnose.SlowLink
	for _, p := range probes {
		if p.Ranks == ranks {
			x.pace.links.Add(p)
			slow = x.pace.links.Slow(ends)
		}
	}
	if len(x.SlowLinks) > 0 && x.pace.links.Recovered(ends) {
		return t.caughtUp(x, &api.SlowRanks{Links: true, Text: "no link is slower than the others any more; those were of " + rankList(x.SlowLinks)})
	}
	if len(slow) == 0 {
		return nil
	}
	r := t.slowLinks(x, slow, ends, seats)
	if !slices.ContainsFunc(r.Ranks, func(rank int) bool { return !slices.Contains(x.SlowLinks, rank) }) {
		return nil
	}
	return t.warnOfSlow(x, r)
}

// endsOf returns the end of its links at which each rank is: the first rank on its node
// or, if all are on one, the rank itself.
func endsOf(seats []rankPlace, ranks int) []int {
	ends := make([]int, ranks)
	several := slices.ContainsFunc(seats, func(s rankPlace) bool { return s.node != seats[0].node })
	for rank := range ends {
		ends[rank] = rank
		if several {
			ends[rank] = slices.IndexFunc(seats, func(s rankPlace) bool { return s.node == seats[rank].node })
		}
	}
	return ends
}

// slowLinks describes slow links, the slowest first. Only those of one node are held
// against it. A job has measured them itself, and other traffic may be the reason: no
// gauge says so.
func (t *tx) slowLinks(x *entry, slow []diagnose.SlowLink, ends []int, seats []rankPlace) *api.SlowRanks {
	r := &api.SlowRanks{Links: true, GPU: -1}
	var texts, nodes []string
	for _, s := range slow {
		var names []string
		for rank, end := range ends {
			if slices.Contains(s.Ends, end) {
				r.Ranks = append(r.Ranks, rank)
			}
		}
		for _, end := range s.Ends {
			names = append(names, endName(end, ends, seats))
			if seats != nil {
				nodes = append(nodes, seats[end].node)
			}
		}
		text := fmt.Sprintf("the links of %s move %s, those between the others %s", names[0], speed(s.Speed), speed(s.Others))
		switch {
		case s.Before:
			text = fmt.Sprintf("the link between %s moves %s, before it moved %s", strings.Join(names, " and "), speed(s.Speed), speed(s.Others))
		case len(s.Ends) == 2:
			text = fmt.Sprintf("the link between %s moves %s, the others %s", strings.Join(names, " and "), speed(s.Speed), speed(s.Others))
		}
		if len(s.Ends) == 2 {
			text += "; the reason may be at either end"
		}
		texts = append(texts, text)
		r.Times = max(r.Times, s.Others/s.Speed)
	}
	if len(texts) > maxNamed {
		texts = append(texts[:maxNamed], fmt.Sprintf("%d more", len(texts)-maxNamed))
	}
	r.Text = fmt.Sprintf("%s (measured at %s)", strings.Join(texts, "; "), t.now.UTC().Format("15:04:05 UTC"))
	if t.mem.companyOf(x.Job) == beside {
		r.Text += "; its GPUs are shared with other jobs"
		return r
	}
	if len(nodes) != 1 {
		return r
	}
	r.Node = nodes[0]
	if len(x.Job.Placement) == 1 {
		r.GPU = seats[r.Ranks[0]].gpu
	}
	r.Text += "; look at the host, the GPU and its links, and at other traffic"
	return r
}

// endName names an end of links.
func endName(end int, ends []int, seats []rankPlace) string {
	if seats == nil {
		return fmt.Sprintf("rank %d", end)
	}
	var ranks []int
	for rank, e := range ends {
		if e == end {
			ranks = append(ranks, rank)
		}
	}
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d on GPU %d of %s", end, seats[end].gpu, seats[end].node)
	}
	return fmt.Sprintf("%s (%s)", seats[end].node, rankList(ranks))
}

// speed formats bytes for each second.
func speed(bytes float64) string {
	return fmt.Sprintf("%.0f MB/s", bytes/1e6)
}
