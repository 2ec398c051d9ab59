// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// makers are words that say whose a GPU is, not what it is.
var makers = map[string]bool{
	"nvidia": true, "tesla": true, "quadro": true, "geforce": true, "graphics": true, "device": true, "generation": true,
	"amd": true, "instinct": true, "radeon": true,
}

// boards are words from which on a name only tells how the GPU is built in.
var boards = map[string]bool{
	"pcie": true, "nvl": true, "dgx": true, "dgxs": true, "oem": true, "oam": true, "mig": true, "ucie": true, "shared": true,
}

// GPUTypeOf shortens the name of a product, as a driver or a node's label gives it, to
// the one people use: NVIDIA A100-SXM4-80GB is a100, NVIDIA-GeForce-RTX-3090 is
// rtx3090, nvidia-tesla-t4 is t4. Jobs and experience name GPUs so wherever they run.
func GPUTypeOf(product string) sched.GPUType {
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
