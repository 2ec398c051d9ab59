// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

func TestGPUTypeOf(t *testing.T) {
	for product, want := range map[string]sched.GPUType{
		// As drivers name them.
		"NVIDIA H200": "h200", "NVIDIA H200 NVL": "h200", "NVIDIA H100 80GB HBM3": "h100", "NVIDIA A100-SXM4-80GB": "a100",
		"A100-PCIE-40GB": "a100", "Tesla V100-SXM2-16GB": "v100", "Tesla T4": "t4", "NVIDIA L40S": "l40s", "NVIDIA GH200 480GB": "gh200",
		"NVIDIA GeForce RTX 3090": "rtx3090", "NVIDIA GeForce RTX 2080 Ti": "rtx2080ti", "Quadro RTX 6000": "rtx6000",
		"NVIDIA RTX 6000 Ada Generation": "rtx6000ada", "NVIDIA RTX A6000": "rtxa6000", "Tesla P100-PCIE-16GB": "p100", "": "gpu", "---": "gpu",
		// As labels of nodes do.
		"NVIDIA-H200": "h200", "NVIDIA-H200-NVL": "h200", "NVIDIA-H100-80GB-HBM3": "h100", "NVIDIA-A100-SXM4-80GB": "a100",
		"NVIDIA-A100-SXM4-80GB-SHARED": "a100", "Tesla-V100-SXM2-16GB": "v100", "Tesla-T4": "t4", "NVIDIA-L40S": "l40s",
		"NVIDIA-GeForce-RTX-3090": "rtx3090", "NVIDIA-GeForce-RTX-2080-Ti": "rtx2080ti", "Quadro-RTX-6000": "rtx6000", "NVIDIA-RTX-A6000": "rtxa6000",
		"NVIDIA-RTX-6000-Ada-Generation": "rtx6000ada", "NVIDIA-GB200": "gb200", "NVIDIA-GH200-480GB": "gh200",
		"nvidia-tesla-t4": "t4", "nvidia-h100-80gb": "h100", "nvidia-l4": "l4", "AMD_Instinct_MI300X_OAM": "mi300x", "a100": "a100",
	} {
		if got := GPUTypeOf(product); got != want {
			t.Errorf("%q is %q; want %q", product, got, want)
		}
	}
}
