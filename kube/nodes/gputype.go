// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/sched"
)

// Labels that say what GPUs a node has.
const (
	labelProduct  = "nvidia.com/gpu.product"
	labelMemory   = "nvidia.com/gpu.memory" // MiB of each
	labelReplicas = "nvidia.com/gpu.replicas"
)

// typeLabels name the product, the most telling first.
var typeLabels = []string{
	labelProduct, "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
	"amd.com/gpu.product-name", "beta.amd.com/gpu.product-name", "amd.com/gpu.device-id",
}

// typeOf returns the type of a node's GPUs: as on one machine, the name that
// people use, in lower case.
func typeOf(n *corev1.Node) sched.GPUType {
	for _, l := range typeLabels {
		if v := n.Labels[l]; v != "" {
			return shortType(v)
		}
	}
	return "gpu"
}

// makers are words that say whose a GPU is, not what it is.
var makers = map[string]bool{
	"nvidia": true, "tesla": true, "quadro": true, "geforce": true, "graphics": true, "device": true, "generation": true,
	"amd": true, "instinct": true, "radeon": true,
}

// boards are words from which on a name only tells how the GPU is built in.
var boards = map[string]bool{
	"pcie": true, "nvl": true, "dgx": true, "dgxs": true, "oem": true, "oam": true, "mig": true, "ucie": true, "shared": true,
}

// shortType shortens the name of a product: NVIDIA-A100-SXM4-80GB is a100,
// NVIDIA-GeForce-RTX-3090 is rtx3090, nvidia-tesla-t4 is t4.
func shortType(product string) sched.GPUType {
	words := strings.FieldsFunc(strings.ToLower(product), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	const longest = 40
	var b strings.Builder
	for _, w := range words {
		switch {
		case makers[w] && b.Len() == 0, w == "generation":
		case boards[w] || isSize(w) || strings.HasPrefix(w, "hbm") || isNumbered(w, "sxm"):
			if b.Len() > 0 {
				return sched.GPUType(b.String())
			}
		case b.Len() < longest:
			b.WriteString(w)
		}
	}
	if b.Len() == 0 {
		return "gpu"
	}
	return sched.GPUType(b.String())
}

// isSize reports whether a word is a size of memory, such as 80gb.
func isSize(w string) bool {
	n, ok := strings.CutSuffix(w, "gb")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

func isNumbered(w, prefix string) bool {
	n, ok := strings.CutPrefix(w, prefix)
	return ok && strings.Trim(n, "0123456789") == ""
}

// memoryOf returns the bytes of each GPU; 0: the labels do not say.
func memoryOf(n *corev1.Node) int64 {
	const most = 1 << 24 // MiB: 16 TiB, far beyond any GPU
	mib, err := strconv.ParseInt(n.Labels[labelMemory], 10, 64)
	if err != nil || mib < 0 || mib > most {
		return 0
	}
	return mib << 20
}

// Replicas returns how often a node offers each of its GPUs: 1, or more where the
// device plugin is set up to share them. A pod that is to have a GPU for itself
// requests all of its replicas, and one that is to have a part of it so many of
// them: what a node's pods request together then never exceeds what its GPUs are.
func Replicas(n *corev1.Node) int {
	const most = 1000 // a thousandth is the smallest part of a GPU
	r, err := strconv.Atoi(n.Labels[labelReplicas])
	if err != nil || r < 1 || r > most {
		return 1
	}
	return r
}
