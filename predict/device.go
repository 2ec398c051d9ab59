// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"slices"
	"strings"
)

// Device is the published specification of a GPU type: peak rates and memory.
type Device struct {
	Name      string
	FP32      float64 // flops per second, matrix products in single precision
	TF32      float64 // flops per second, convolutions and cells; FP32 if there is no such mode
	Bandwidth float64 // of memory, bytes per second
	MemoryMiB float64
}

// devices are the GPU types that predictions can be scaled to.
func devices() []Device {
	const tera = 1e12
	return []Device{
		{"h200", 67 * tera, 495 * tera, 4.8 * tera, 143771},
		{"h100", 67 * tera, 495 * tera, 3.35 * tera, 81559},
		{"h100-pcie", 51 * tera, 378 * tera, 2.0 * tera, 81559},
		{"b200", 80 * tera, 1100 * tera, 8.0 * tera, 183359},
		{"a100-80gb", 19.5 * tera, 156 * tera, 2.04 * tera, 81920},
		{"a100", 19.5 * tera, 156 * tera, 1.56 * tera, 40960},
		{"a10", 31.2 * tera, 62.5 * tera, 0.6 * tera, 24564},
		{"a6000", 38.7 * tera, 77.4 * tera, 0.77 * tera, 49140},
		{"l40s", 91.6 * tera, 183 * tera, 0.86 * tera, 46068},
		{"l4", 30.3 * tera, 60 * tera, 0.3 * tera, 23034},
		{"rtx4090", 82.6 * tera, 82.6 * tera, 1.01 * tera, 24564},
		{"rtx3090", 35.6 * tera, 35.6 * tera, 0.94 * tera, 24576},
		{"v100", 15.7 * tera, 15.7 * tera, 0.9 * tera, 32768},
		{"p100", 10.6 * tera, 10.6 * tera, 0.73 * tera, 16384},
		{"t4", 8.1 * tera, 8.1 * tera, 0.32 * tera, 15360},
	}
}

// canonical converts a name as people and drivers write it ("NVIDIA H200",
// "H100_PCIe") into the form of the table.
func canonical(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.NewReplacer("_", "-", " ", "-").Replace(name)
	for _, word := range []string{"nvidia-", "tesla-", "geforce-"} {
		name = strings.TrimPrefix(name, word)
	}
	switch name {
	case "h100-sxm", "h100-80gb-hbm3", "h100-sxm5":
		return "h100"
	case "a100-sxm4-80gb", "a100-80gb-pcie", "a100-80g":
		return "a100-80gb"
	case "a100-sxm4-40gb", "a100-40gb", "a100-pcie-40gb":
		return "a100"
	case "rtx-4090", "4090":
		return "rtx4090"
	case "rtx-3090", "3090":
		return "rtx3090"
	case "rtx-a6000":
		return "a6000"
	case "v100-sxm2-32gb", "v100-32gb", "v100-sxm2-16gb":
		return "v100"
	}
	return name
}

// deviceOf finds a GPU type.
func deviceOf(name string) (Device, error) {
	all := devices()
	want := canonical(name)
	i := slices.IndexFunc(all, func(d Device) bool { return d.Name == want })
	if i < 0 {
		return Device{}, fmt.Errorf("unknown GPU type %q; want one of %s", name, strings.Join(GPUs(), ", "))
	}
	return all[i], nil
}

// GPUs lists the GPU types that For accepts, those with measurements first.
func GPUs() []string {
	measured, others := measuredGPUs(), []string{}
	for _, d := range devices() {
		if !slices.Contains(measured, d.Name) {
			others = append(others, d.Name)
		}
	}
	return append(measured, others...)
}
