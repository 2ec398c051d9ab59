// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// planText says under which plan a job runs, and what others would do: on its GPUs, on as
// many that are closer together, and on more.
func (m *memory) planText(x *entry, now time.Time) string {
	c, at := m.choice(x, x.Job.Placement)
	if c == nil || x.Plan == nil {
		return ""
	}
	step, measured := c.Step(*x.Plan, at)
	parts := []string{fmt.Sprintf("%s, %s%s%s", x.Plan, stepText(step), basis(measured), spentText(c.Parts(*x.Plan, at), step))}
	const others = 2
	here := 0
	for _, p := range c.Plans {
		if p == *x.Plan || !p.Fits(at) || here == others {
			continue
		}
		here++
		parts = append(parts, comparedText(c, p, at, step))
	}
	together, elsewhere := c.Packed(at.GPUs, 1), *c
	elsewhere.Plans = slices.DeleteFunc(slices.Clone(c.Plans), func(p plan.Plan) bool { return p.Fits(at) })
	if best, _, ok := elsewhere.Best(together); ok {
		parts = append(parts, comparedText(c, best, together, step)+m.needs(x, together, now))
	}
	for n := x.Job.NextSize(at.GPUs); n > 0; n = x.Job.NextSize(n) {
		on := c.Packed(n, at.Nodes)
		if best, _, ok := c.Best(on); ok {
			parts = append(parts, comparedText(c, best, on, step)+m.needs(x, on, now))
			break
		}
	}
	return strings.Join(parts, "; ")
}

// comparedText says how a plan compares with steps of some seconds.
func comparedText(c *plan.Choice, p plan.Plan, at plan.Place, with float64) string {
	step, measured := c.Step(p, at)
	return fmt.Sprintf("%s would be %s%s", p, compared(step, with), basis(measured))
}

// needs says which GPUs a plan needs that the job does not have, and when they are expected to be free.
func (m *memory) needs(x *entry, at plan.Place, now time.Time) string {
	text, whose := " but needs "+gpuCount(at.GPUs), "they are free"
	node, when := m.freed(x, at, now)
	if at.Nodes == 1 && len(m.state.Cluster().Nodes) > 1 {
		text += " on one node"
		if node != "" {
			whose = "node " + node + " frees"
		}
	}
	switch {
	case when.IsZero():
		return text + "; when they are free is not known"
	case !when.After(now):
		return text + ", which are free"
	case when.Sub(now) > 12*time.Hour:
		return text + "; " + whose + " on " + when.Format("Jan 2 at 15:04")
	}
	return text + "; " + whose + " at " + when.Format("15:04")
}

// freed returns when a job could have the GPUs of a placement, among them those it has, if
// the jobs that hold the others end when they are expected to; and on which node, if it is one.
// Zero: not known.
func (m *memory) freed(x *entry, at plan.Place, now time.Time) (node string, when time.Time) {
	var anywhere []time.Time
	for i, times := range m.releases(x, now) {
		anywhere = append(anywhere, times...)
		if at.Nodes > 1 || len(times) < at.GPUs {
			continue
		}
		slices.SortFunc(times, time.Time.Compare)
		if t := times[at.GPUs-1]; when.IsZero() || t.Before(when) {
			node, when = m.state.Cluster().Nodes[i].Name, t
		}
	}
	if at.Nodes > 1 && len(anywhere) >= at.GPUs {
		slices.SortFunc(anywhere, time.Time.Compare)
		when = anywhere[at.GPUs-1]
	}
	return node, when
}

// releases returns, for each node, when a job could have its GPUs of the type that the job
// runs on. Those of which nobody knows are left out.
func (m *memory) releases(x *entry, now time.Time) [][]time.Time {
	const horizon = 365 * 24 * time.Hour
	held := map[[2]int]time.Duration{} // by node and GPU; beyond the horizon: not known
	for _, o := range m.inOrder() {
		if o == x {
			continue
		}
		left := time.Duration(min(o.left(now), 2*horizon.Seconds()) * float64(time.Second))
		if left == 0 {
			left = 2 * horizon
		}
		for _, s := range o.Job.Placement {
			for _, gpu := range s.GPUs.Indexes() {
				key := [2]int{int(s.Node), gpu}
				held[key] = max(held[key], left)
			}
		}
	}
	kind, nodes := m.gpuType(x.Job.Placement), m.state.Cluster().Nodes
	out := make([][]time.Time, len(nodes))
	for i := range nodes {
		if nodes[i].State != sched.Ready || string(nodes[i].Type) != kind {
			continue
		}
		for _, gpu := range nodes[i].Usable().Indexes() {
			if left := held[[2]int{i, gpu}]; left <= horizon {
				out[i] = append(out[i], now.Add(left))
			}
		}
	}
	return out
}

func stepText(seconds float64) string { return fmt.Sprintf("%.3g s a step", seconds) }

func basis(measured bool) string {
	if measured {
		return " (measured)"
	}
	return " (predicted)"
}

// spentText says what of a step is not computing, if that was measured.
func spentText(p plan.Parts, step float64) string {
	text := ""
	for _, part := range []struct {
		seconds float64
		doing   string
	}{{p.Exchange, "with exchanges under way"}, {p.Wait, "waiting for them"}, {p.Bubble, "waiting for other stages"}} {
		if part.seconds > 0 {
			text += fmt.Sprintf(", %.0f %% of it %s", 100*min(1, part.seconds/step), part.doing)
		}
	}
	return text
}

// compared says how the time of a step compares with another's.
func compared(step, with float64) string {
	if step > with {
		return fmt.Sprintf("%.0f %% slower", 100*(step/with-1))
	}
	return fmt.Sprintf("%.0f %% faster", 100*(with/step-1))
}
