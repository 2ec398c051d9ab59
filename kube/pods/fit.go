// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/live"
)

// maxUnfit bounds the nodes that one exit names.
const maxUnfit = 200

// misplaced says that a node of an attempt is none that its template accepts. The
// scheduler knows which nodes do; this is for what has changed since it decided. All
// nodes of that kind are named at once, so that the next try is not in vain.
func (e *Executor) misplaced(r *run) *live.Exit {
	rules := constraint.Rules{Open: append(slices.Clone(e.Tolerated), string(r.plan.from.GPUResource))}
	for _, o := range r.plan.offers {
		if !slices.Contains(rules.Open, string(o.resource)) {
			rules.Open = append(rules.Open, string(o.resource))
		}
	}
	asks := rules.Of(&r.plan.from.Template.Spec)
	at := slices.IndexFunc(r.nodes, func(name string) bool { return e.nodes[name] != nil && !rules.Admits(asks, e.nodes[name]) })
	if at < 0 {
		return nil
	}
	var unfit []diagnose.Event
	others := 0
	for _, name := range slices.Sorted(maps.Keys(e.nodes)) {
		n := e.nodes[name]
		if q := n.Status.Capacity[r.plan.from.GPUResource]; q.IsZero() {
			continue
		}
		if rules.Admits(asks, n) {
			others++
		} else if len(unfit) < maxUnfit {
			unfit = append(unfit, diagnose.Event{Kind: live.HostUnfit, Node: name})
		}
	}
	want := asks.String()
	if asks.Empty() {
		want = "that its template tolerates no taints"
	}
	return &live.Exit{Lost: true, Rank: at, Host: unfit, Why: fmt.Sprintf("node %s does not satisfy %s; %d nodes do", r.nodes[at], want, others)}
}
