// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestParts: only jobs that ask for no more than a part come to GPUs that are given in
// parts, and nobody by tolerating everything.
func TestParts(t *testing.T) {
	var r Rules
	for _, c := range []struct {
		milli, parts int
		want         bool
	}{
		{0, 2, false}, {1000, 2, false}, {501, 2, false}, {500, 2, true}, {500, 3, false}, {333, 3, true}, {100, 10, true}, {100, 11, false}, {10, 16, true}, {10, 17, false},
	} {
		pod := corev1.PodSpec{Tolerations: append(PartsTolerations(c.milli), corev1.Toleration{Operator: corev1.TolerationOpExists})}
		n := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{PartsTaint(c.parts), {Key: "team", Effect: corev1.TaintEffectNoExecute}}}}
		if got := r.Admits(r.Of("ns", &pod), n); got != c.want {
			t.Errorf("a job of %d thousandths, GPUs in %d parts: admitted %t; want %t", c.milli, c.parts, got, c.want)
		}
	}
}
