// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/live"
)

// maxUnfit bounds the nodes that one exit names.
const maxUnfit = 200

// unfit names the nodes with GPUs that do not suit an attempt, all at once so that the
// next try is not in vain, and returns how many do. Asked is the resource that its pods
// ask for, if that is none of the usual ones.
func (e *Executor) unfit(asked corev1.ResourceName, suits func(*corev1.Node) bool) (not []diagnose.Event, others int) {
	for _, name := range slices.Sorted(maps.Keys(e.nodes)) {
		n := e.nodes[name]
		_, has := n.Status.Allocatable[asked]
		switch {
		case !has && e.offerOf(n, "").resource == "":
		case suits(n):
			others++
		case len(not) < maxUnfit:
			not = append(not, diagnose.Event{Kind: live.HostUnfit, Node: name})
		}
	}
	return not, others
}

// misplaced says that a node of an attempt is none that its pods accept. The scheduler
// knows which nodes do; this is for what has changed since it decided, and for pods
// whose template it could not see.
func (e *Executor) misplaced(r *run, pod *corev1.PodSpec, asked corev1.ResourceName) *live.Exit {
	rules := constraint.Rules{Open: append(slices.Clone(e.Tolerated), string(asked))}
	for _, name := range e.Resources {
		rules.Open = append(rules.Open, string(name))
	}
	asks := rules.Of(pod)
	suits := func(n *corev1.Node) bool { return rules.Admits(asks, n) }
	at := slices.IndexFunc(r.nodes, func(name string) bool { return e.nodes[name] != nil && !suits(e.nodes[name]) })
	if at < 0 {
		return nil
	}
	not, others := e.unfit(asked, suits)
	want := asks.String()
	if asks.Empty() {
		want = "that its template tolerates no taints"
	}
	return &live.Exit{Lost: true, Rank: at, Host: not, Why: fmt.Sprintf("node %s does not satisfy %s; %d nodes do", r.nodes[at], want, others)}
}
