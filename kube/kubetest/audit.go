// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AuditOptions configures an audit.
type AuditOptions struct {
	// Resource is the resource that no node may give out twice; default GPU.
	Resource corev1.ResourceName
	// Gang is the key of the label whose value names the gang of a pod, in its
	// namespace. Without it gangs are not audited.
	Gang string
	// Size is the key of the label or annotation with the number of pods of the
	// pod's gang. Without it, or on pods without it, a gang has as many pods as
	// exist.
	Size string
	// Grace is how long a gang may be half-placed. In that time it is bound pod
	// by pod, or taken down.
	Grace time.Duration
}

// Violation is a broken rule.
type Violation struct {
	Node string // over-committed, if set
	Gang string // half-placed, if set: namespace/name
	What string // in words
}

func (v Violation) String() string {
	if v.Node != "" {
		return fmt.Sprintf("node %s is over-committed: %s", v.Node, v.What)
	}
	return fmt.Sprintf("gang %s is half-placed: %s", v.Gang, v.What)
}

// Auditor checks live pods repeatedly. It remembers since when each gang is
// half-placed, which the pods no longer show once a lost one is gone.
type Auditor struct {
	cluster *Cluster
	options AuditOptions
	since   map[string]time.Time // by gang
}

// Auditor returns an auditor of the cluster.
func (c *Cluster) Auditor(o AuditOptions) *Auditor {
	o.Resource = cmp.Or(o.Resource, GPU)
	return &Auditor{cluster: c, options: o, since: map[string]time.Time{}}
}

// Audit checks the cluster once. If a gang is half-placed, it checks again until that
// has ended or the grace period is over, so an audit without violations is quick.
func (c *Cluster) Audit(ctx context.Context, o AuditOptions) ([]Violation, error) {
	a := c.Auditor(o)
	for {
		found, err := a.Check(ctx)
		if err != nil || len(found) > 0 || len(a.since) == 0 {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("audit: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Check checks the cluster now. It returns over-committed nodes, and gangs that were
// half-placed for longer than the grace period.
func (a *Auditor) Check(ctx context.Context) ([]Violation, error) {
	// Pods are listed before nodes, so a node that goes in between is not audited. One
	// list of pods shows one moment.
	pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
	if err := a.cluster.Client.List(ctx, pods); err != nil {
		return nil, fmt.Errorf("audit: list pods: %w", err)
	}
	now := time.Now()
	if err := a.cluster.Client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("audit: list nodes: %w", err)
	}
	found := overcommitted(nodes.Items, pods.Items, a.options.Resource)
	half := halfPlaced(pods.Items, a.options)
	maps.DeleteFunc(a.since, func(gang string, _ time.Time) bool { _, still := half[gang]; return !still })
	for _, gang := range slices.Sorted(maps.Keys(half)) {
		if _, known := a.since[gang]; !known {
			a.since[gang] = now
		}
		if age := now.Sub(a.since[gang]); age > a.options.Grace {
			found = append(found, Violation{Gang: gang, What: fmt.Sprintf("%s for %v, %v is allowed", half[gang], age.Round(time.Millisecond), a.options.Grace)})
		}
	}
	return found, nil
}

// Throughout audits the cluster at an interval until the function that it returns is
// called, and fails the test once for each violation. A check without an answer, as
// while the API server is down, is no violation.
func (a *Auditor) Throughout(t testing.TB, every time.Duration) (stop func()) {
	ending := make(chan struct{})
	var done sync.WaitGroup
	looks, reported := 0, map[Violation]bool{}
	look := func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
		defer cancel()
		found, err := a.Check(ctx)
		if err == nil {
			looks++
		}
		for _, v := range found {
			if subject := (Violation{Node: v.Node, Gang: v.Gang}); !reported[subject] {
				reported[subject] = true
				t.Error(v)
			}
		}
	}
	done.Go(func() {
		for {
			look()
			select {
			case <-ending:
				return
			case <-time.After(every):
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ending)
		done.Wait()
		if looks == 0 {
			t.Error("audit: the API server answered no check at all")
		}
	})
}

// lookWithin bounds one check, because a paused API server does not answer.
const lookWithin = 15 * time.Second

// overcommitted returns the nodes whose pods request more than the node has, by name.
func overcommitted(nodes []corev1.Node, pods []corev1.Pod, name corev1.ResourceName) []Violation {
	used, owners := map[string]int64{}, map[string][]string{}
	for _, p := range pods {
		if n := Request(&p, name); n > 0 && p.Spec.NodeName != "" && !Ended(&p) {
			used[p.Spec.NodeName] += n
			owners[p.Spec.NodeName] = append(owners[p.Spec.NodeName], fmt.Sprintf("%s/%s=%d", p.Namespace, p.Name, n))
		}
	}
	var out []Violation
	for _, n := range nodes {
		allocatable := n.Status.Allocatable[name]
		if used[n.Name] > allocatable.Value() {
			slices.Sort(owners[n.Name])
			out = append(out, Violation{Node: n.Name, What: fmt.Sprintf("pods request %d %s of %d: %v", used[n.Name], name, allocatable.Value(), owners[n.Name])})
		}
	}
	slices.SortFunc(out, func(a, b Violation) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// Request returns how much of a resource a pod holds on its node: the sum over its
// containers, or the request of an init container if that is larger.
func Request(p *corev1.Pod, name corev1.ResourceName) int64 {
	of := func(c corev1.Container) int64 {
		q := c.Resources.Requests[name]
		return q.Value()
	}
	var together, sidecars, alone int64
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars += of(c)
			continue
		}
		alone = max(alone, sidecars+of(c))
	}
	for _, c := range p.Spec.Containers {
		together += of(c)
	}
	return max(together+sidecars, alone)
}

// tally counts the pods of a gang.
type tally struct{ told, placed, waiting, succeeded int }

// halfPlaced returns the gangs in which some pods have a node and some do not, and why.
// Pods that are being deleted or have failed are not placed; pods that have succeeded
// need no place.
func halfPlaced(pods []corev1.Pod, o AuditOptions) map[string]string {
	gangs := map[string]tally{}
	for _, p := range pods {
		name := p.Labels[o.Gang]
		if name == "" {
			continue
		}
		key := types.NamespacedName{Namespace: p.Namespace, Name: name}.String()
		g := gangs[key]
		if n, err := strconv.Atoi(cmp.Or(p.Labels[o.Size], p.Annotations[o.Size])); err == nil {
			g.told = max(g.told, n)
		}
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			g.succeeded++
		case Ended(&p) || p.DeletionTimestamp != nil:
		case p.Spec.NodeName != "":
			g.placed++
		default:
			g.waiting++
		}
		gangs[key] = g
	}
	out := map[string]string{}
	for key, g := range gangs {
		size := max(g.told, g.placed+g.waiting+g.succeeded)
		if g.placed > 0 && g.placed+g.succeeded < size {
			out[key] = fmt.Sprintf("%d of %d pods have a node", g.placed, size-g.succeeded)
		}
	}
	return out
}
