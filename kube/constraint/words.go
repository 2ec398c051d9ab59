// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/kube/volumes"
)

// String describes the constraint for people.
func (c Constraint) String() string {
	const most = 400 // it is written to the status of objects
	var parts []string
	if len(c.NodeSelector) > 0 {
		var list []string
		for _, k := range slices.Sorted(maps.Keys(c.NodeSelector)) {
			list = append(list, k+"="+c.NodeSelector[k])
		}
		parts = append(parts, "nodeSelector {"+strings.Join(list, ", ")+"}")
	}
	if len(c.Affinity) > 0 {
		var list []string
		for _, t := range c.Affinity {
			list = append(list, termWords(t))
		}
		parts = append(parts, "affinity "+strings.Join(list, " or "))
	}
	if len(c.Tolerations) > 0 {
		var list []string
		for _, t := range c.Tolerations {
			list = append(list, toleration(t))
		}
		parts = append(parts, "tolerations {"+strings.Join(list, ", ")+"}")
	}
	if len(c.Devices) > 0 {
		var list []string
		for _, k := range slices.Sorted(maps.Keys(c.Devices)) {
			list = append(list, fmt.Sprintf("%s=%d", k, c.Devices[k]))
		}
		parts = append(parts, "resources {"+strings.Join(list, ", ")+"}")
	}
	if len(c.Claims) > 0 {
		var list []string
		for _, claim := range c.Claims {
			list = append(list, volumes.Name(claim))
		}
		parts = append(parts, "volume claims {"+strings.Join(list, ", ")+"}")
	}
	out := strings.Join(parts, ", ")
	if len(out) > most {
		return strings.ToValidUTF8(out[:most], "") + "..."
	}
	return out
}

func termWords(t corev1.NodeSelectorTerm) string {
	var list []string
	for _, q := range slices.Concat(t.MatchExpressions, t.MatchFields) {
		text := q.Key + " " + string(q.Operator)
		if len(q.Values) > 0 {
			text += " (" + strings.Join(q.Values, ", ") + ")"
		}
		list = append(list, text)
	}
	return "[" + strings.Join(list, " and ") + "]"
}

func toleration(t corev1.Toleration) string {
	text := t.Key
	switch {
	case text == "":
		text = "all"
	case t.Operator != corev1.TolerationOpExists:
		text += "=" + t.Value
	}
	if t.Effect != "" {
		text += fmt.Sprint(":", t.Effect)
	}
	return text
}

// partsKey is the key of a taint that no Node object has. It marks nodes where a pod
// gets a part of a GPU and never the whole, as under MPS. Its value is the number of
// parts. Jobs that need no more than such a part tolerate it.
const partsKey = "fairway.dev/parts"

// mostParts is the largest number of parts that jobs get a toleration for.
const mostParts = 16

// PartsTaint returns the taint of a node whose GPUs are split into so many parts.
func PartsTaint(parts int) corev1.Taint {
	return corev1.Taint{Key: partsKey, Value: strconv.Itoa(parts), Effect: corev1.TaintEffectNoSchedule}
}

// PartsTolerations returns the tolerations of a job that needs a part of a GPU, in
// thousandths: one for each number of parts that are large enough.
func PartsTolerations(milli int) []corev1.Toleration {
	var out []corev1.Toleration
	for parts := 2; milli > 0 && parts <= mostParts && parts*milli <= 1000; parts++ {
		out = append(out, corev1.Toleration{Key: partsKey, Operator: corev1.TolerationOpEqual, Value: strconv.Itoa(parts), Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}
