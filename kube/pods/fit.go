// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// maxUnfit bounds the nodes that one exit names.
const maxUnfit = 200

// unsuited ends an attempt that was given a node that does not suit it; nil: all nodes
// suit it. The exit names all such nodes, so that the next attempt avoids them. others
// is the number of GPU nodes that suit it.
func (e *Executor) unsuited(r *run, suits func(*corev1.Node) bool) (exit *api.Exit, others int) {
	at := slices.IndexFunc(r.nodes, func(name string) bool { return e.nodes[name] != nil && !suits(e.nodes[name]) })
	if at < 0 {
		return nil, 0
	}
	exit = &api.Exit{Lost: true, Rank: at}
	for _, name := range slices.Sorted(maps.Keys(e.nodes)) {
		switch n := e.nodes[name]; {
		case e.offerOf(n, "").resource == "":
		case suits(n):
			others++
		case len(exit.Host) < maxUnfit:
			exit.Host = append(exit.Host, diagnose.Event{Kind: api.HostUnfit, Node: name})
		}
	}
	return exit, others
}

// misplaced ends an attempt if its pods do not accept one of its nodes. The
// scheduler knows which nodes they accept; this covers changes since its decision,
// and pods whose template it could not see.
func (e *Executor) misplaced(r *run, pod *corev1.PodSpec) *api.Exit {
	rules := constraint.Rules{Open: slices.Clone(e.Tolerated)}
	for _, name := range e.Resources {
		rules.Open = append(rules.Open, string(name))
	}
	asks := rules.Of(r.namespace(), pod)
	exit, others := e.unsuited(r, func(n *corev1.Node) bool { return rules.Admits(asks, n) })
	if exit == nil {
		return nil
	}
	unmet := "does not satisfy " + asks.String()
	if asks.Empty() {
		unmet = "has taints, and the template has no tolerations"
	}
	exit.Why = fmt.Sprintf("node %s %s; suitable nodes: %d", r.nodes[exit.Rank], unmet, others)
	return exit
}

// unsupported ends an attempt whose pods have a field that Fairway refuses, and that got
// past the check of the job: the template of a TrainJob's runtime is not known then, and
// an older operator did not check.
func unsupported(pod *corev1.PodSpec, own bool) *api.Exit {
	f := v1alpha1.UnsupportedField(pod, own)
	if f == nil {
		return nil
	}
	exit := refused(fmt.Sprintf("%s of its pods must be left out: %s", f.Path, f.Note))
	return &exit
}

// otherGPUs ends an attempt if a node has GPUs of another vendor than its pods request.
// Any resource name of a vendor matches, and the usual name matches any vendor.
func (e *Executor) otherGPUs(r *run, asked corev1.ResourceName) *api.Exit {
	vendor := func(name corev1.ResourceName) string { domain, _, _ := strings.Cut(string(name), "/"); return domain }
	if asked == request.UsualGPU {
		return nil
	}
	exit, others := e.unsuited(r, func(n *corev1.Node) bool { return vendor(e.offerOf(n, asked).resource) == vendor(asked) })
	if exit != nil {
		has := e.offerOf(e.nodes[r.nodes[exit.Rank]], asked).resource
		exit.Why = fmt.Sprintf("node %s has %s, but the job requests %s; suitable nodes: %d", r.nodes[exit.Rank], has, asked, others)
	}
	return exit
}
