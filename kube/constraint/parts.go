// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// partsKey is the key of a taint that no Node object has: it stands for GPUs of which
// a pod gets a part and never the whole, as under MPS. Its value is the number of
// parts. Jobs that ask for no more than such a part tolerate it.
const partsKey = "fairway.dev/parts"

// mostParts bounds the parts of a GPU that jobs are looked at for.
const mostParts = 16

// PartsTaint returns the taint of a node whose GPUs come in so many parts.
func PartsTaint(parts int) corev1.Taint {
	return corev1.Taint{Key: partsKey, Value: strconv.Itoa(parts), Effect: corev1.TaintEffectNoSchedule}
}

// PartsTolerations returns the tolerations of a job that asks for a part of a GPU, in
// thousandths: for GPUs whose parts are not smaller.
func PartsTolerations(milli int) []corev1.Toleration {
	var out []corev1.Toleration
	for parts := 2; milli > 0 && parts <= mostParts && parts*milli <= 1000; parts++ {
		out = append(out, corev1.Toleration{Key: partsKey, Operator: corev1.TolerationOpEqual, Value: strconv.Itoa(parts), Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}
