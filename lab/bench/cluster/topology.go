// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// The simulated nodes are in racks and zones. Both are levels of the operator's topology
// if jobs require some.
const (
	perRack = 16
	perZone = 640
	gpuType = "NVIDIA-H100-80GB-HBM3"

	levelsConfig = "nodes: {levels: [{name: zone, label: " + corev1.LabelTopologyZone + "}, {name: rack}]}"
)

// levelLabels are the labels of the levels that jobs may require.
var levelLabels = map[string]string{"zone": corev1.LabelTopologyZone, "rack": kubetest.LabelRack, "machine": corev1.LabelHostname}

// parseGang reads PODSxGPUS.
func parseGang(text string) (gang, error) {
	pods, gpus, _ := strings.Cut(text, "x")
	p, err1 := strconv.Atoi(pods)
	g, err2 := strconv.Atoi(gpus)
	if err1 != nil || err2 != nil || p < 1 || p > 10_000 || g < 1 || g > 64 {
		return gang{}, fmt.Errorf("--gang %q; want PODSxGPUS, such as 512x8: 1 to 10000 pods of 1 to 64 GPUs", text)
	}
	return gang{p, g}, nil
}

// parseRules reads LEVEL or LEVEL/GPUS.
func parseRules(words []string) (out []v1alpha1.TopologyRule, err error) {
	for _, w := range words {
		level, segment, cut := strings.Cut(w, "/")
		n, err := strconv.Atoi(segment)
		if levelLabels[level] == "" || cut && (err != nil || n < 1) {
			return nil, fmt.Errorf("--require %q; want zone, rack or machine, or one of them with the GPUs of a segment, such as rack/128", w)
		}
		out = append(out, v1alpha1.TopologyRule{Required: level, Segment: int32(n)})
	}
	return out, nil
}

// broken counts the pods that are in another domain than the first of their segment.
func (t *trial) broken(ctx context.Context) (pods int, err error) {
	if len(t.input.rules) == 0 {
		return 0, nil
	}
	var nodes corev1.NodeList
	var all corev1.PodList
	if err := t.client.List(ctx, &nodes); err != nil {
		return 0, fmt.Errorf("list nodes: %w", err)
	}
	if err := t.client.List(ctx, &all, client.HasLabels{v1alpha1.LabelRank}); err != nil {
		return 0, fmt.Errorf("list pods: %w", err)
	}
	labels := map[string]map[string]string{}
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	gangs := map[string][]*corev1.Pod{} // by rank
	for i := range all.Items {
		p := &all.Items[i]
		rank, err := strconv.Atoi(p.Labels[v1alpha1.LabelRank])
		if err != nil || p.Spec.NodeName == "" {
			continue
		}
		key := p.Namespace + "/" + p.Labels[v1alpha1.LabelJob] + "/" + p.Labels[v1alpha1.LabelAttempt]
		if more := rank + 1 - len(gangs[key]); more > 0 {
			gangs[key] = append(gangs[key], make([]*corev1.Pod, more)...)
		}
		gangs[key][rank] = p
	}
	for _, r := range t.input.rules {
		for _, gang := range gangs {
			size := len(gang)
			if r.Segment > 0 {
				size = int(r.Segment) / t.input.gang.gpus
			}
			for segment := range slices.Chunk(gang, size) {
				for _, p := range segment {
					if p == nil || segment[0] == nil || labels[p.Spec.NodeName][levelLabels[r.Required]] != labels[segment[0].Spec.NodeName][levelLabels[r.Required]] {
						pods++
					}
				}
			}
		}
	}
	return pods, nil
}
